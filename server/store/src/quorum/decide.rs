//! Count of votes.
//!
//! A majority is always one of all configured masters. The answer of a master without a vote counts like silence: neither
//! for nor against.

use std::{collections::HashMap, hash::Hash, time::Duration};

/// The smallest majority of so many masters.
pub const fn majority(masters: usize) -> usize {
    masters / 2 + 1
}

/// What a vote came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority said yes.
    Agreed,
    /// It is certain that no majority does.
    Refused,
    /// Too few masters voted to tell.
    Undecided,
}

/// The votes on one question, as they come in.
#[derive(Clone, Debug)]
pub struct Tally {
    masters: usize,
    yes: usize,
    no: usize,
    /// Those that will not vote on this: silent, or without a vote.
    out: usize,
}

impl Tally {
    /// No votes yet, of so many masters.
    pub const fn new(masters: usize) -> Self {
        Self {
            masters,
            yes: 0,
            no: 0,
            out: 0,
        }
    }

    /// A master said yes.
    pub const fn yes(&mut self) {
        self.yes += 1;
    }

    /// A master said no.
    pub const fn no(&mut self) {
        self.no += 1;
    }

    /// A master has no vote, or said nothing in time.
    pub const fn out(&mut self) {
        self.out += 1;
    }

    /// So many that were out are asked once more.
    pub const fn reopen(&mut self, masters: usize) {
        self.out = self.out.saturating_sub(masters);
    }

    /// So many that said no are taken for out, as they had missed something.
    pub const fn waive(&mut self, masters: usize) {
        let waived = if masters < self.no { masters } else { self.no };
        self.no -= waived;
        self.out += waived;
    }

    /// How many said yes.
    pub const fn number_of_yes(&self) -> usize {
        self.yes
    }

    /// How many voted.
    pub const fn votes(&self) -> usize {
        self.yes + self.no
    }

    const fn pending(&self) -> usize {
        self.masters - self.yes - self.no - self.out
    }

    /// Of an attempt to do something, which those who are out do not support: what it has come to, once that is certain.
    /// It is refused when a majority voted and no majority said yes.
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

    /// Of what stands at the masters, also at those that are out, which may have it too: it is refused only when no
    /// majority could have it whatever those say.
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

/// What was in the way of an acquire at one master that has a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle<Holder> {
    /// What holds the key there.
    pub holder: Holder,
    /// Until that runs out, unless it never does.
    pub left: Option<Duration>,
    /// Whether it is known to be more than another attempt that has not come to anything yet.
    pub is_settled: bool,
}

/// Whether what was in the way may be nothing but attempts that stood in each other's way: nobody has it on a majority, and
/// nothing of it is settled.
pub fn is_race<Holder: Eq + Hash>(masters: usize, obstacles: &[Obstacle<Holder>]) -> bool {
    let holders = obstacles.iter().map(|obstacle| &obstacle.holder);
    obstacles.iter().all(|obstacle| !obstacle.is_settled)
        && largest(holders).is_none_or(|(_, number)| number < majority(masters))
}

/// Who is meant most often, and how often; of several the first.
pub fn largest<T: Eq + Hash>(of: impl Iterator<Item = T> + Clone) -> Option<(T, usize)> {
    let mut numbers = HashMap::new();
    for item in of.clone() {
        *numbers.entry(item).or_insert(0_usize) += 1;
    }
    let most = numbers.values().copied().max()?;
    let first = of.into_iter().find(|item| numbers.get(item) == Some(&most));
    first.map(|first| (first, most))
}

/// After how long enough masters are free, where `free` of them are already and the others hold what runs out after these
/// times; `None` where too many never do.
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

/// The token of the grant that stands at a majority, by those of the same owner id that were found: its reply was lost. One
/// that is not above what is to be undone does not stand for long.
pub fn stands(masters: usize, standing: &[i64], undone: Option<i64>) -> Option<i64> {
    let (token, number) = largest(standing.iter().copied())?;
    (number >= majority(masters) && undone.is_none_or(|undone| token > undone)).then_some(token)
}

/// The token to write back: the largest of what the masters proposed, or one more than the largest that one of them had
/// when it refused to write.
pub fn token(proposed: impl IntoIterator<Item = i64>, above: Option<i64>) -> i64 {
    let proposed = proposed.into_iter().max().unwrap_or(0);
    above.map_or(proposed, |above| proposed.max(above.saturating_add(1)))
}
