//! Durations of acquires, waits and renewals, and requests on sessions by kind.

use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::{session::WaitEnd, time::Moment};
use leasehold_store::{
    clock,
    measure::{CALLS, Histogram},
};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::shown::{Named, times};

/// Buckets of waits: from a hand-off on the same machine to a quarter of an hour in a queue.
const WAITS: &[Duration] = &[
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
];

/// Ways in which a wait ends, in the order of their numbers.
const ENDS: [WaitEnd; 7] = [
    WaitEnd::Granted,
    WaitEnd::TimedOut,
    WaitEnd::Cancelled,
    WaitEnd::Moved,
    WaitEnd::Deadlocked,
    WaitEnd::Forced,
    WaitEnd::Failed,
];

/// Returns how the metrics name the end of a wait.
fn name(end: WaitEnd) -> &'static str {
    match end {
        WaitEnd::Granted => "granted",
        WaitEnd::TimedOut => "timed_out",
        WaitEnd::Cancelled => "cancelled",
        WaitEnd::Moved => "moved",
        WaitEnd::Deadlocked => "deadlocked",
        WaitEnd::Forced => "forced",
        WaitEnd::Failed => "failed",
    }
}

/// Histograms of durations.
#[derive(Debug)]
pub(super) struct Times {
    /// Time from the sending of an acquire until the store answers it, even with a place in the queue.
    acquires: Histogram,
    waits: [Histogram; ENDS.len()],
    /// Time from when a renewal was due until it was carried out.
    renewals: Histogram,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            acquires: Histogram::of_times(CALLS),
            waits: ENDS.map(|_| Histogram::of_times(WAITS)),
            renewals: Histogram::of_times(CALLS),
        }
    }
}

/// Clocks that observe durations, or nothing if metrics are off. Clones share the histograms.
#[derive(Clone, Debug)]
pub struct Clocks(Option<Arc<Times>>);

impl Clocks {
    pub(super) fn new(times: Option<Arc<Times>>) -> Self {
        Self(times)
    }

    /// Returns the present time, or `None` if metrics are off.
    pub fn begin(&self) -> Option<Moment> {
        self.0.is_some().then(clock::now)
    }

    /// Observes an acquire that the store has answered.
    pub fn acquired(&self, since: Option<Moment>) {
        self.observe(since, |times| &times.acquires);
    }

    /// Observes a session's renewal that was carried out.
    pub fn renewed(&self, since: Moment) {
        self.observe(Some(since), |times| &times.renewals);
    }

    /// Begins to measure a wait.
    pub fn wait(&self) -> WaitTimer {
        WaitTimer {
            clocks: self.clone(),
            since: self.begin(),
            end: WaitEnd::Cancelled,
        }
    }

    fn observe(&self, since: Option<Moment>, of: impl FnOnce(&Times) -> &Histogram) {
        if let (Some(times), Some(since)) = (&self.0, since) {
            of(times).observe_time(since.until(clock::now()), 1);
        }
    }
}

/// Measures one wait until it is dropped.
#[derive(Debug)]
pub struct WaitTimer {
    clocks: Clocks,
    since: Option<Moment>,
    end: WaitEnd,
}

impl WaitTimer {
    /// Notes how it ended; cancelled if this is never said.
    pub fn set_end(&mut self, end: WaitEnd) {
        self.end = end;
    }
}

impl Drop for WaitTimer {
    fn drop(&mut self) {
        let end = self.end as usize;
        self.clocks.observe(self.since, |times| &times.waits[end]);
    }
}

/// Collects the histograms at each scrape.
#[derive(Debug)]
pub(super) struct TimesCollector(pub(super) Arc<Times>);

impl Collector for TimesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Times {
            acquires,
            waits,
            renewals,
        } = &*self.0;
        let named = Named {
            name: "acquire",
            help: "Time from an acquire until the store granted it, refused it or put it into the queue.",
        };
        times(&mut encoder, named, [([], acquires.snapshot())])?;
        let waits = ENDS.into_iter().zip(waits);
        let named = Named {
            name: "wait",
            help: "Time that acquires spent in the queue, by how that ended.",
        };
        let waits = waits.map(|(end, waits)| ([("end", name(end))], waits.snapshot()));
        times(&mut encoder, named, waits)?;
        let named = Named {
            name: "renewal_lag",
            help: "Time from when the renewal of all that a session holds was due until it was carried out.",
        };
        times(&mut encoder, named, [([], renewals.snapshot())])
    }
}

/// Kind of a request on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Opens the session.
    Open,
    /// Takes locks.
    Acquire,
    /// Gives a hold back.
    Release,
    /// Shows that the client lives.
    Heartbeat,
    /// Changes the value of a hold.
    SetValue,
    /// Makes an exclusive hold a shared one.
    Downgrade,
    /// Gives some of a hold's permits back.
    Reduce,
    /// Cancels an acquire.
    Cancel,
    /// Ends the session.
    Close,
    /// None that this version knows.
    Unknown,
}

/// Names of the kinds in metrics, traces and the log, in the order of their numbers.
pub(super) const REQUESTS: [&str; 10] = [
    "open",
    "acquire",
    "release",
    "heartbeat",
    "set_value",
    "downgrade",
    "reduce",
    "cancel",
    "close",
    "unknown",
];

impl RequestKind {
    /// Returns its name in metrics, traces and the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        REQUESTS[self as usize]
    }

    /// Returns whether it is never refused for being asked too often: it shows life or gives something back.
    #[must_use]
    pub const fn is_free(self) -> bool {
        matches!(
            self,
            Self::Heartbeat | Self::Release | Self::Cancel | Self::Close
        )
    }
}
