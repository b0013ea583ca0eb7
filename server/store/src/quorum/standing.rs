//! Which masters have a vote.
//!
//! A master that has come back may have lost what it knew, or know what was long ago: holds that it had agreed to, and
//! tokens. For as long as those holds could stand it has no vote, and a while longer: twice the longest hold. It takes
//! every write meanwhile. Which run of the server answers is known by its `run_id`, asked for on every new connection.

use std::time::Duration;

use leasehold_core::time::Moment;

use super::decide::majority;

/// `uptime_in_seconds` is the difference of two times that are cut to whole seconds.
const UPTIME_ERROR: Duration = Duration::from_secs(1);

/// What a master tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Which run of the server it is.
    pub run: String,
    /// For how long it says that it has run.
    pub uptime: Duration,
    /// Whether it writes everything to disk before it answers; `None` where it may not be asked.
    pub is_durable: Option<bool>,
}

/// What the coordinators have agreed on at a master: see `lua/quorum/agree.lua`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The longest TTL and lock-delay together (ms).
    pub hold: u64,
    /// Whether its votes have been counted.
    pub has_served: bool,
    /// The run that was declared to be a first start.
    pub first: Option<String>,
}

/// What is expected of masters.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The longest TTL and lock-delay together.
    pub hold: Duration,
    /// Whether they are declared to keep everything across restarts.
    pub durable: bool,
}

impl Terms {
    /// The longest hold, as coordinators agree on it.
    pub fn hold_millis(&self) -> u64 {
        u64::try_from(self.hold.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// For how long a master that has come back has no vote.
    pub fn abstention(&self) -> Duration {
        self.hold * 2
    }
}

/// How a master stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a vote.
    Votes,
    /// It has come back lately, and has none until then.
    Abstains {
        /// When it will have one.
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

/// One run of a master's server, as this coordinator knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    id: String,
    votes_from: Moment,
}

impl Run {
    /// What follows from what it tells of itself at `now`; `before` is what was known, and when that run was last heard.
    ///
    /// The server counts its uptime by its wall clock. Where we know better, because another run answered later than that,
    /// we go by our own.
    pub fn meet(
        introduction: &Introduction,
        terms: &Terms,
        before: Option<(&Self, Moment)>,
        now: Moment,
    ) -> Self {
        let age = introduction.uptime.saturating_sub(UPTIME_ERROR);
        let by_uptime = now.after(terms.abstention().saturating_sub(age));
        let votes_from = match before {
            Some((run, _)) if run.id == introduction.run => run.votes_from,
            Some((_, heard_at)) => by_uptime.max(heard_at.after(terms.abstention())),
            None => by_uptime,
        };
        Self {
            id: introduction.run.clone(),
            votes_from,
        }
    }

    /// How it stands now.
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
            // Where it may not be asked, the declaration has to do.
            return match introduction.is_durable {
                Some(false) => Standing::NotDurable,
                _ => Standing::Votes,
            };
        }
        let is_first = agreement.first.as_ref() == Some(&self.id);
        if is_first || self.votes_from <= now {
            Standing::Votes
        } else {
            Standing::Abstains {
                until: self.votes_from,
            }
        }
    }

    /// Whether it was declared to be a first start.
    pub fn is_first(&self, agreement: &Agreement) -> bool {
        agreement.first.as_ref() == Some(&self.id)
    }

    /// Which run it is.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// What becomes of `--quorum-bootstrap`, by what all masters tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// They were declared to be a first start already, by another coordinator; those that have come back since have to wait
    /// as ever.
    Done,
    /// None has served: they may be declared.
    Declare,
    /// This one has served, and was not declared: it knows grants.
    Refused(usize),
}

/// Decides on a first start, once that can be. `known` says of each master that was reached whether its present run was
/// declared to be one, and whether it has served.
pub fn bootstrap(known: &[Option<(bool, bool)>]) -> Option<Bootstrap> {
    let reached = known.iter().flatten().count();
    let is =
        |of: fn(&(bool, bool)) -> bool| move |master: &Option<_>| master.as_ref().is_some_and(of);
    let served = known.iter().position(is(|(_, has_served)| *has_served));
    let declared = known
        .iter()
        .filter(|master| is(|(is_declared, _)| *is_declared)(master))
        .count();
    match served {
        _ if declared == known.len() => Some(Bootstrap::Done),
        None if reached == known.len() => Some(Bootstrap::Declare),
        Some(_) if declared > 0 => Some(Bootstrap::Done),
        // Others may have been declared.
        Some(served) if reached >= majority(known.len()) => Some(Bootstrap::Refused(served)),
        _ => None,
    }
}
