//! Losses that coordinators counted, beside those that clients had.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::story::{Acquire, Counted, Hold, HoldEnd, Span, Story};

/// Demands that each loss that a coordinator counted belongs to an acquire of its own whose hold the client lost about then, or gave up
/// just then, or of whose grant it can't have known; and that a loss which an operator alone explains was counted.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    if story.counted.is_empty() {
        // A history of no coordinators.
        return;
    }
    let mut forced = BTreeMap::new();
    for (index, acquire) in story.acquires.iter().enumerate() {
        if let Some(hold) = &acquire.hold
            && let HoldEnd::Lost(at, why) = &hold.end
            && is_forced_alone(story, *at, limits)
        {
            forced.insert(index, (*at, why));
        }
    }
    let (fits, unheard) = fits(story, limits);
    let of_forced: Vec<Vec<usize>> = fits
        .iter()
        .map(|fits| {
            fits.iter()
                .copied()
                .filter(|it| forced.contains_key(it))
                .collect()
        })
        .collect();
    // A loss often fits several acquires, so which one it belongs to depends on all the others. As many as can be belong to those
    // that must have one; these keep one, if perhaps another one, when the other losses are given theirs (Kuhn's augmenting paths).
    let mut owners = HashMap::new();
    let mut give = |loss, fits: &[Vec<usize>]| pair(loss, fits, &mut owners, &mut HashSet::new());
    let mut losses: Vec<usize> = (0..story.counted.len()).collect();
    // Those that need none come last.
    losses.sort_by_key(|loss| unheard.contains(loss));
    losses.retain(|loss| !give(*loss, &of_forced));
    losses.retain(|loss| !unheard.contains(loss) && !give(*loss, &fits));
    for loss in losses.iter().map(|loss| &story.counted[*loss]) {
        let Counted { client, lock, .. } = loss;
        let sentence = format!(
            "{} counted at {} that {} had lost {lock:?} ({}), which nobody had then",
            loss.coordinator,
            seconds(loss.at),
            client.as_deref().unwrap_or("somebody"),
            loss.reason,
        );
        verdict.broken(Kind::Miscounted, Some(lock), Span::at(loss.at), sentence);
    }
    forced.retain(|index, _| !owners.contains_key(index));
    for (index, (at, why)) in forced {
        let Acquire {
            client, ask, lock, ..
        } = &story.acquires[index];
        let sentence = format!(
            "{client} (acquire {ask}) lost {lock:?} ({why}) at {}, by an operator alone, and no coordinator counted it",
            seconds(at)
        );
        verdict.broken(Kind::Miscounted, Some(lock), Span::at(at), sentence);
    }
}

/// Returns the acquires that each loss may belong to; and the losses of grants of which a client that waited had not heard: its
/// acquire went on, and may have been granted once more.
fn fits(story: &Story, limits: Limits) -> (Vec<Vec<usize>>, HashSet<usize>) {
    let mut fits = vec![Vec::new(); story.counted.len()];
    let mut unheard = HashSet::new();
    for (number, loss) in story.counted.iter().enumerate() {
        for (index, acquire) in story.acquires.iter().enumerate() {
            let client = loss.client.as_ref();
            if acquire.lock != loss.lock || client.is_some_and(|it| *it != acquire.client) {
                continue;
            }
            if (acquire.asked..acquire.end.at()).contains(&loss.at) {
                unheard.insert(number);
            } else if may_be(loss, acquire, limits) {
                fits[number].push(index);
            }
        }
    }
    (fits, unheard)
}

/// Gives a loss an acquire that it fits, and those which had that one others. Returns whether there are enough.
fn pair(
    loss: usize,
    fits: &[Vec<usize>],
    owners: &mut HashMap<usize, usize>,
    seen: &mut HashSet<usize>,
) -> bool {
    fits[loss].iter().any(|acquire| {
        let is_new = seen.insert(*acquire);
        let rival = owners.get(acquire).copied();
        let is_free = is_new && rival.is_none_or(|rival| pair(rival, fits, owners, seen));
        if is_free {
            owners.insert(*acquire, loss);
        }
        is_free
    })
}

/// Returns whether an acquire that has ended may be the one whose hold was counted as lost. A release that is on its way crosses a
/// loss, and one that finds nothing was one; and a client that gave up or was killed may never have heard of its grant.
fn may_be(loss: &Counted, acquire: &Acquire, limits: Limits) -> bool {
    let ended = match &acquire.hold {
        Some(Hold {
            end: HoldEnd::Released(from),
            stood: Some(to),
            ..
        }) => {
            let from = from.saturating_sub(limits.moment);
            return (from..=to.saturating_add(limits.moment)).contains(&loss.at);
        }
        Some(hold) => hold.end.at(),
        None => acquire.end.at(),
    };
    ended.abs_diff(loss.at) <= limits.settle
}

/// Returns whether nothing but an operator explains a loss at a time.
fn is_forced_alone(story: &Story, at: u64, limits: Limits) -> bool {
    let mut faults = faults_in(story, Span::at(at), limits.settle).peekable();
    faults.peek().is_some() && faults.all(|fault| fault.effects.forces)
}
