//! Losses that coordinators counted, beside those that clients had.

use std::collections::{BTreeMap, HashSet};

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::story::{Acquire, Counted, End, Hold, HoldEnd, Span, Story};

/// Demands that each loss that a coordinator counted belongs to an acquire of its own whose hold the client lost about then, or gave up
/// just then, or of whose grant it can't have known; and that a loss which an operator alone explains was counted.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    let mut matched: HashSet<usize> = HashSet::new();
    let mut locks: BTreeMap<&str, Vec<(usize, &Acquire)>> = BTreeMap::new();
    for (index, acquire) in story.acquires.iter().enumerate() {
        let of_lock = locks.entry(&acquire.lock).or_default();
        of_lock.push((index, acquire));
    }
    // Those whose client is known leave the others their choice.
    let mut counted: Vec<_> = story.counted.iter().collect();
    counted.sort_by_key(|loss| loss.client.is_none());
    for loss in counted {
        let of_lock = locks.get(&*loss.lock).into_iter().flatten();
        let fitting = of_lock.filter(|(index, acquire)| {
            !matched.contains(index) && is_of(loss, acquire) && may_be(loss, acquire, limits)
        });
        // One that its client knew to be lost, if there is one.
        let nearest = fitting.min_by_key(|(_, acquire)| {
            let is_lost =
                matches!(&acquire.hold, Some(hold) if matches!(hold.end, HoldEnd::Lost(..)));
            (!is_lost, ended(acquire).abs_diff(loss.at))
        });
        if let Some((index, _)) = nearest {
            matched.insert(*index);
            continue;
        }
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
    if story.counted.is_empty() {
        // A history of no coordinators.
        return;
    }
    for (lock, acquires) in locks {
        for (index, acquire) in acquires {
            let Some(Hold {
                end: HoldEnd::Lost(at, why),
                ..
            }) = &acquire.hold
            else {
                continue;
            };
            if matched.contains(&index) || !is_forced_alone(story, *at, limits) {
                continue;
            }
            let sentence = format!(
                "{} (acquire {}) lost {lock:?} ({why}) at {}, by an operator alone, and no coordinator counted it",
                acquire.client,
                acquire.ask,
                seconds(*at)
            );
            verdict.broken(Kind::Miscounted, Some(lock), Span::at(*at), sentence);
        }
    }
}

fn is_of(loss: &Counted, acquire: &Acquire) -> bool {
    loss.client
        .as_deref()
        .is_none_or(|client| client == acquire.client)
}

/// Returns when an acquire, or the hold that came of it, ended for its client.
fn ended(acquire: &Acquire) -> u64 {
    match &acquire.hold {
        Some(hold) => match hold.end {
            HoldEnd::Released(at) | HoldEnd::Lost(at, _) | HoldEnd::Killed(at) => at,
            HoldEnd::None => u64::MAX,
        },
        None => acquire.end.at(),
    }
}

/// Returns whether an acquire may be the one whose hold was counted as lost. A release that is on its way crosses a loss, and one
/// that finds nothing was one; and a client that waited, gave up or was killed may never have heard of its grant.
fn may_be(loss: &Counted, acquire: &Acquire, limits: Limits) -> bool {
    if (acquire.asked..acquire.end.at()).contains(&loss.at) {
        return true;
    }
    let from = ended(acquire).abs_diff(loss.at);
    match &acquire.hold {
        Some(Hold {
            end: HoldEnd::Released(_),
            stood: true,
            ..
        }) => from <= limits.moment,
        None if acquire.end == End::None => false,
        Some(_) | None => from <= limits.settle,
    }
}

/// Returns whether nothing but an operator explains a loss at a time.
fn is_forced_alone(story: &Story, at: u64, limits: Limits) -> bool {
    let mut faults = faults_in(story, Span::at(at), limits.settle).peekable();
    faults.peek().is_some() && faults.all(|fault| fault.effects.forces)
}
