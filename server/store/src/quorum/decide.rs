//! Count of votes.
//!
//! A majority is always one of all configured masters. The answer of a master without a vote counts like silence: neither
//! for nor against.

use std::{collections::HashMap, hash::Hash, time::Duration};

/// Returns the smallest majority of this many masters.
pub const fn majority(masters: usize) -> usize {
    masters / 2 + 1
}

/// Verdict of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority said yes.
    Agreed,
    /// Certainly no majority says yes.
    Refused,
    /// Too few masters voted to decide.
    Undecided,
}

/// Vote of one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// For it.
    Yes,
    /// Against it.
    No,
    /// Neither: the master has no vote, or did not answer in time.
    Out,
}

/// Votes on one question, as they come in.
#[derive(Clone, Debug)]
pub struct Tally {
    masters: usize,
    yes: usize,
    no: usize,
    /// Masters that will not vote on this: silent, or without a vote.
    out: usize,
}

impl Tally {
    /// Returns a tally without votes, of this many masters.
    pub const fn new(masters: usize) -> Self {
        Self {
            masters,
            yes: 0,
            no: 0,
            out: 0,
        }
    }

    /// Counts a vote.
    pub const fn count(&mut self, vote: Vote) {
        match vote {
            Vote::Yes => self.yes += 1,
            Vote::No => self.no += 1,
            Vote::Out => self.out += 1,
        }
    }

    /// Returns how many said yes.
    pub const fn number_of_yes(&self) -> usize {
        self.yes
    }

    /// Returns how many voted.
    pub const fn votes(&self) -> usize {
        self.yes + self.no
    }

    const fn pending(&self) -> usize {
        self.masters - self.yes - self.no - self.out
    }

    /// Returns the verdict on an attempt, once it is certain. Masters that are out do not support an attempt. It is refused
    /// if a majority voted and no majority said yes.
    pub const fn attempt(&self) -> Option<Verdict> {
        let needed = majority(self.masters);
        if self.yes >= needed {
            return Some(Verdict::Agreed);
        }
        if self.yes + self.pending() >= needed {
            return None;
        }
        if self.votes() >= needed {
            return Some(Verdict::Refused);
        }
        if self.votes() + self.pending() < needed {
            return Some(Verdict::Undecided);
        }
        None
    }

    /// Returns the verdict on something that may exist already, also at masters that are out. It is refused only if no
    /// majority can have it, whatever those would answer.
    pub const fn standing(&self) -> Option<Verdict> {
        let needed = majority(self.masters);
        if self.yes >= needed {
            return Some(Verdict::Agreed);
        }
        let most_no = self.masters - needed;
        if self.no > most_no {
            return Some(Verdict::Refused);
        }
        if self.yes + self.pending() < needed && self.no + self.pending() <= most_no {
            return Some(Verdict::Undecided);
        }
        None
    }
}

/// Obstacle to an acquire at one master with a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle<Holder> {
    /// The holder of the key there.
    pub holder: Holder,
    /// The time until it expires; `None` if it never does.
    pub left: Option<Duration>,
    /// Whether it is known to be more than another undecided attempt.
    pub is_settled: bool,
}

/// Returns whether the obstacles may be only attempts that blocked each other: no holder has a majority, and none is settled.
pub fn is_race<Holder: Eq + Hash>(masters: usize, obstacles: &[Obstacle<Holder>]) -> bool {
    let holders = obstacles.iter().map(|obstacle| &obstacle.holder);
    obstacles.iter().all(|obstacle| !obstacle.is_settled)
        && largest(holders).is_none_or(|(_, number)| number < majority(masters))
}

/// Returns the most frequent item and its number; of several the first.
pub fn largest<T: Eq + Hash>(of: impl Iterator<Item = T> + Clone) -> Option<(T, usize)> {
    let mut numbers = HashMap::new();
    for item in of.clone() {
        *numbers.entry(item).or_insert(0_usize) += 1;
    }
    let most = numbers.values().copied().max()?;
    let first = of.into_iter().find(|item| numbers.get(item) == Some(&most));
    first.map(|first| (first, most))
}

/// Returns the time until enough masters are free, if `free` are already and the holds of the others expire after these
/// times; `None` if too many never do.
pub fn free_in(
    masters: usize,
    free: usize,
    left: impl Iterator<Item = Option<Duration>>,
) -> Option<Duration> {
    let mut left: Vec<Duration> = left.flatten().collect();
    left.sort_unstable();
    let missing = majority(masters).saturating_sub(free).checked_sub(1);
    missing.map_or(Some(Duration::ZERO), |missing| left.get(missing).copied())
}

/// Returns the token of a grant that a majority already has under the same owner id, because its reply was lost. A token that
/// is not above the one to be undone does not count.
pub fn stands(masters: usize, standing: &[i64], undone: Option<i64>) -> Option<i64> {
    let (token, number) = largest(standing.iter().copied())?;
    (number >= majority(masters) && undone.is_none_or(|undone| token > undone)).then_some(token)
}

/// Returns the token to write back: the largest that a master proposed, or one more than the largest that a master had when it
/// refused to write.
pub fn token(proposed: impl IntoIterator<Item = i64>, above: Option<i64>) -> i64 {
    let proposed = proposed.into_iter().max().unwrap_or(0);
    above.map_or(proposed, |above| proposed.max(above.saturating_add(1)))
}
