//! Votes of masters: which masters have one, and since when.
//!
//! A master that has come back may have lost holds that it agreed to, and tokens, or may have old ones. So it has no vote for
//! twice the longest hold, but accepts every write meanwhile. Coordinators recognize a run of the server by its `run_id`,
//! which they ask for on every new connection.
//!
//! Coordinators ignore the age that the server reports, which is by its wall clock and may step. The age of a run is the time
//! for which coordinators have seen it by their monotonic clocks, which they note on the master itself.

use std::time::Duration;

use leasehold_core::time::Moment;

use crate::redis::packed::millis;

/// Introduction of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The run of the server.
    pub run: String,
    /// Whether it writes everything to disk before it answers; `None` if the store's user may not ask.
    pub is_durable: Option<bool>,
}

/// Agreement that coordinators keep on a master: see `lua/quorum/agree.lua`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The longest TTL and lock-delay together (ms).
    pub hold: u64,
    /// Whether its votes have been counted, as long as coordinators remember.
    pub has_served: bool,
    /// The least age of its present run, as coordinators have seen it.
    pub seen: Duration,
    /// Whether an operator declared its present run to be a first start.
    pub is_first: bool,
    /// Whether votes of a master with these data have ever been counted.
    pub has_voted: bool,
}

/// Terms for masters.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The sum of the longest TTL and lock-delay.
    pub hold: Duration,
    /// Whether they are declared to keep everything across restarts.
    pub durable: bool,
}

impl Terms {
    /// Returns the longest hold, as coordinators agree on it.
    pub fn hold_millis(&self) -> u64 {
        millis(self.hold)
    }

    /// Returns how long a master that has come back has no vote.
    pub fn abstention(&self) -> Duration {
        self.hold * 2
    }
}

/// Standing of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a vote.
    Votes,
    /// It has come back recently, and has no vote until then.
    Abstains {
        /// Time at which it will have one.
        until: Moment,
    },
    /// Other coordinators use it with another longest hold (ms).
    Disagrees {
        /// Theirs.
        hold: u64,
    },
    /// It was declared to be durable and is not.
    NotDurable,
}

/// Run of a master's server, as this coordinator knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    id: String,
    /// Time at which this coordinator last learnt something of its age.
    known_at: Moment,
    /// Least age of the run then.
    age: Duration,
}

impl Run {
    /// Returns the run that answered at `now`; `before` is the one that this coordinator knew until then.
    pub fn meet(introduction: &Introduction, before: Option<&Self>, now: Moment) -> Self {
        match before {
            Some(run) if run.id == introduction.run => run.clone(),
            _ => Self {
                id: introduction.run.clone(),
                known_at: now,
                age: Duration::ZERO,
            },
        }
    }

    /// Returns how old the run is at least.
    pub fn age(&self, now: Moment) -> Duration {
        self.age.saturating_add(self.known_at.until(now))
    }

    /// Notes that the run was at least so old at `now`, which other coordinators have seen.
    pub fn learn(&mut self, seen: Duration, now: Moment) {
        if seen > self.age(now) {
            (self.known_at, self.age) = (now, seen);
        }
    }

    /// Returns the master's standing at `now`.
    pub fn standing(
        &self,
        introduction: &Introduction,
        agreement: &Agreement,
        terms: &Terms,
        now: Moment,
    ) -> Standing {
        if agreement.hold != terms.hold_millis() {
            return Standing::Disagrees {
                hold: agreement.hold,
            };
        }
        if terms.durable {
            match introduction.is_durable {
                Some(false) => return Standing::NotDurable,
                // The declaration suffices if the user may not ask. It does not cover a replaced disk: a master without the
                // mark of its votes must wait like any other.
                _ if agreement.has_voted => return Standing::Votes,
                _ => {}
            }
        }
        let left = terms.abstention().saturating_sub(self.age(now));
        if agreement.is_first || left.is_zero() {
            Standing::Votes
        } else {
            Standing::Abstains {
                until: now.after(left),
            }
        }
    }

    /// Returns the `run_id`.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// Master's answer to the question whether it may be bootstrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Whether its present run is declared to be a first start.
    pub is_first: bool,
    /// Whether its votes have been counted, or it has the token of a lock.
    pub knows_grants: bool,
}

/// Decision on a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// All are declared already.
    Done,
    /// None knows a grant: all may be declared.
    Declare,
    /// This one knows grants.
    Refused(usize),
}

/// Decides whether masters, all of which have answered, may be declared to start for the first time.
pub fn bootstrap(masters: &[Candidate]) -> Bootstrap {
    if masters.iter().all(|master| master.is_first) {
        return Bootstrap::Done;
    }
    // A declared one that has served since counts too: undeclared ones may have lost what it knows.
    let knows = masters.iter().position(|master| master.knows_grants);
    knows.map_or(Bootstrap::Declare, Bootstrap::Refused)
}
