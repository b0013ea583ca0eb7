//! Acquires, holds, writes and faults, put together from the lines of a history.

mod teller;

use std::collections::BTreeMap;

use crate::history::{Effects, Event, Mode, Outcome, Write};

/// A whole history.
#[derive(Debug, Default)]
pub struct Story {
    /// Acquires in the order in which they began.
    pub acquires: Vec<Acquire>,
    /// Writes of all registers with their times, by time.
    pub writes: Vec<(u64, Write)>,
    /// Events that each watcher saw, by time.
    pub watchers: BTreeMap<String, Vec<Seen>>,
    /// Faults in the order in which they began.
    pub faults: Vec<Fault>,
    /// Times in which processes got no processor.
    pub stalls: Vec<Fault>,
    /// Losses that coordinators counted, by time.
    pub counted: Vec<Counted>,
    /// Number of masters that were replaced.
    pub fail_overs: u64,
    /// Time at which the harness broke the run off, and the reason.
    pub broken_off: Option<(u64, String)>,
    /// Keys left in the store; none if the history does not say.
    pub left: Option<Vec<String>>,
    /// Time of the last line.
    pub end: u64,
}

/// An acquire, and the hold that came of it.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The client's name.
    pub client: String,
    /// The client's number of it.
    pub ask: u64,
    /// The lock's name.
    pub lock: String,
    /// Mode.
    pub mode: Mode,
    /// Permits asked for; zero in other modes.
    pub permits: u64,
    /// Limit of the semaphore; zero in other modes.
    pub limit: u64,
    /// Name of the queue that it joins; empty if the lock has only one.
    pub queue: String,
    /// Time at which the client began.
    pub asked: u64,
    /// End of the wait.
    pub end: End,
    /// The hold, if it was granted.
    pub hold: Option<Hold>,
}

/// End of the wait of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was granted at this time.
    Granted(u64),
    /// It ended at this time without a grant.
    Refused(u64, Outcome),
    /// The client was killed at this time.
    Killed(u64),
    /// It has not ended.
    None,
}

impl End {
    /// Returns the time; the largest one if it has not ended.
    pub fn at(self) -> u64 {
        match self {
            Self::Granted(at) | Self::Refused(at, _) | Self::Killed(at) => at,
            Self::None => u64::MAX,
        }
    }
}

impl HoldEnd {
    /// Returns the time; the largest one if it has not ended.
    pub fn at(&self) -> u64 {
        match self {
            Self::Released(at) | Self::Lost(at, _) | Self::Killed(at) => *at,
            Self::None => u64::MAX,
        }
    }
}

/// Hold, as its client believed in it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Fencing token; none if the lock has none.
    pub token: Option<i64>,
    /// Times for which the client counted the lock as held: more than one if the hold was suspended.
    pub parts: Vec<Span>,
    /// The last deadline that the client knew of.
    pub until: u64,
    /// End of it.
    pub end: HoldEnd,
    /// When its release was answered as carried out.
    pub stood: Option<u64>,
}

impl Hold {
    /// Returns its token in words.
    pub fn token_name(&self) -> String {
        match self.token {
            Some(token) => format!("token {token}"),
            None => "no token".to_owned(),
        }
    }
}

/// A time from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub begin: u64,
    /// End, which does not belong to it.
    pub end: u64,
}

impl Span {
    /// Returns the time from `begin` to `end`.
    pub fn new(begin: u64, end: u64) -> Self {
        Self { begin, end }
    }

    /// Returns a moment.
    pub fn at(at: u64) -> Self {
        Self::new(at, at)
    }

    /// Returns the common time of two spans, if there is any.
    pub fn common(self, other: Self) -> Option<Self> {
        let begin = self.begin.max(other.begin);
        let end = self.end.min(other.end);
        (begin < end).then_some(Self { begin, end })
    }

    /// Returns whether two spans touch or overlap.
    pub fn touches(self, other: Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

/// End of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The client began to release it at this time.
    Released(u64),
    /// The client was told of the loss at this time.
    Lost(u64, String),
    /// The client was killed at this time.
    Killed(u64),
    /// The history does not say.
    None,
}

/// A loss that a coordinator counted in `leasehold_lost_total`.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Time.
    pub at: u64,
    /// The coordinator.
    pub coordinator: String,
    /// The client that lost the lock; none if the coordinator does not know it any more.
    pub client: Option<String>,
    /// The lock.
    pub lock: String,
    /// The reason, by its name in the API.
    pub reason: String,
}

/// Something that a watcher saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Time.
    pub at: u64,
    /// Kind.
    pub what: Sight,
}

/// Kind of event that a watcher sees.
#[derive(Clone, Debug)]
pub enum Sight {
    /// It knows all locks: from here on it misses nothing.
    Ready,
    /// It has missed events, and knows nothing.
    Gap,
    /// A hold, by its lock and token, began or ended.
    Event(String, i64, Event),
}

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The harness's number of it.
    pub number: u64,
    /// Kind.
    pub what: String,
    /// The process or the connection that it was done to.
    pub target: String,
    /// Its time.
    pub span: Span,
    /// Effects that it may have.
    pub effects: Effects,
}

impl Fault {
    /// A process got no processor for a time, so that it was as if it was stopped. The harness's own stall concerns all.
    fn stall(process: &str, span: Span) -> Self {
        let concerned = match process {
            HARNESS => "*",
            client => client,
        };
        Self {
            number: 0,
            what: "no processor".to_owned(),
            target: process.to_owned(),
            span,
            effects: Effects {
                stops: vec![concerned.to_owned()],
                disturbs: vec![concerned.to_owned()],
                ..Effects::default()
            },
        }
    }

    /// Returns whether it disturbs a client, or has it stand still.
    pub fn holds_up(&self, client: &str) -> bool {
        Self::names(&self.effects.disturbs, client) || Self::names(&self.effects.stops, client)
    }

    /// Returns whether one of its lists names a client.
    pub fn names(list: &[String], client: &str) -> bool {
        list.iter().any(|name| name == "*" || name == client)
    }
}

/// Name of the harness's process in stalls.
const HARNESS: &str = "harness";

impl Story {
    /// Returns the acquires by the names of their locks.
    pub fn by_lock(&self) -> BTreeMap<&str, Vec<&Acquire>> {
        let mut locks: BTreeMap<&str, Vec<&Acquire>> = BTreeMap::new();
        for acquire in &self.acquires {
            locks.entry(&acquire.lock).or_default().push(acquire);
        }
        locks
    }
}
