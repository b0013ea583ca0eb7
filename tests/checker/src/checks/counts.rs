//! Losses that coordinators counted, beside those that clients had.

use std::collections::{HashMap, HashSet};

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::story::{Acquire, Counted, End, Hold, HoldEnd, Span, Story};

/// Demands that each loss that a coordinator counted belongs to an acquire of its own whose hold the client lost about then, or gave up
/// just then, or of whose grant it can't have known; and that a loss which an operator alone explains was counted.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    if story.counted.is_empty() {
        // A history of no coordinators.
        return;
    }
    let mut pairs = Pairs::of(story, limits);
    for (index, acquire) in story.acquires.iter().enumerate() {
        let Some(Hold {
            end: HoldEnd::Lost(at, why),
            ..
        }) = &acquire.hold
        else {
            continue;
        };
        if !is_forced_alone(story, *at, limits) || pairs.acquires.pair(index, &mut pairs.losses) {
            continue;
        }
        let Acquire {
            client, ask, lock, ..
        } = acquire;
        let sentence = format!(
            "{client} (acquire {ask}) lost {lock:?} ({why}) at {}, by an operator alone, and no coordinator counted it",
            seconds(*at)
        );
        verdict.broken(Kind::Miscounted, Some(lock), Span::at(*at), sentence);
    }
    for (index, loss) in story.counted.iter().enumerate() {
        if pairs.unheard.contains(&index) || pairs.losses.pair(index, &mut pairs.acquires) {
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
}

/// Losses and acquires in pairs. A loss often fits several acquires, so whom one belongs to depends on all the others: what has a
/// partner keeps one, but perhaps another one, when the next is given its own (Kuhn's augmenting paths).
struct Pairs {
    /// Losses of grants of which a client that waited had not heard. Its acquire goes on, and may be granted once more.
    unheard: HashSet<usize>,
    losses: Side,
    acquires: Side,
}

/// One of two kinds of things, by their index.
struct Side {
    /// Those of the other side that each fits.
    fits: Vec<Vec<usize>>,
    /// Its partner on the other side.
    partner: Vec<Option<usize>>,
}

impl Pairs {
    fn of(story: &Story, limits: Limits) -> Self {
        let mut locks: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, acquire) in story.acquires.iter().enumerate() {
            locks.entry(&acquire.lock).or_default().push(index);
        }
        let mut unheard = HashSet::new();
        let mut losses = Side::new(story.counted.len());
        let mut acquires = Side::new(story.acquires.len());
        for (number, loss) in story.counted.iter().enumerate() {
            for index in locks.get(&*loss.lock).into_iter().flatten() {
                let acquire = &story.acquires[*index];
                if !is_of(loss, acquire) {
                    continue;
                }
                if (acquire.asked..acquire.end.at()).contains(&loss.at) {
                    unheard.insert(number);
                } else if may_be(loss, acquire, limits) {
                    losses.fits[number].push(*index);
                    acquires.fits[*index].push(number);
                }
            }
        }
        Self {
            unheard,
            losses,
            acquires,
        }
    }
}

impl Side {
    fn new(length: usize) -> Self {
        Self {
            fits: vec![Vec::new(); length],
            partner: vec![None; length],
        }
    }

    /// Gives the thing with this index a partner on the other side, unless it has one. Returns whether it has one then.
    fn pair(&mut self, index: usize, other: &mut Self) -> bool {
        self.partner[index].is_some() || self.augment(index, other, &mut HashSet::new())
    }

    fn augment(&mut self, index: usize, other: &mut Self, seen: &mut HashSet<usize>) -> bool {
        for place in 0..self.fits[index].len() {
            let fitting = self.fits[index][place];
            if !seen.insert(fitting) {
                continue;
            }
            let rival = other.partner[fitting];
            if rival.is_none_or(|rival| self.augment(rival, other, seen)) {
                self.partner[index] = Some(fitting);
                other.partner[fitting] = Some(index);
                return true;
            }
        }
        false
    }
}

fn is_of(loss: &Counted, acquire: &Acquire) -> bool {
    loss.client
        .as_deref()
        .is_none_or(|client| client == acquire.client)
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
        Some(hold) => match hold.end {
            HoldEnd::Released(at) | HoldEnd::Lost(at, _) | HoldEnd::Killed(at) => at,
            HoldEnd::None => return false,
        },
        None if acquire.end == End::None => return false,
        None => acquire.end.at(),
    };
    ended.abs_diff(loss.at) <= limits.settle
}

/// Returns whether nothing but an operator explains a loss at a time.
fn is_forced_alone(story: &Story, at: u64, limits: Limits) -> bool {
    let mut faults = faults_in(story, Span::at(at), limits.settle).peekable();
    faults.peek().is_some() && faults.all(|fault| fault.effects.forces)
}
