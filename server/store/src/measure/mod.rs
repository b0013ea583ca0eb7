//! Measures of a store: durations and failures of scripts, and sizes of calls. Counted by atomics on every call, and
//! read for the metrics.

mod histogram;
mod refusals;
mod script;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use self::refusals::{Refusals, WRONG_TYPE};
pub use self::{
    histogram::{Histogram, Snapshot},
    script::{Failure, Script},
};
use crate::{
    cause::{DownCause, is_wrong_type, words},
    clock,
};
use leasehold_core::failure::StoreError;
use redis::ServerError;

/// Bounds from 50 µs to 10 s: from a server in the same data centre to one in trouble.
pub const CALLS: &[Duration] = &[
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
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
];
/// Bounds of the number of commands in a call.
const SIZES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Measures of a store, over all its servers and connections.
#[derive(Debug)]
pub struct Measures {
    scripts: [OfScript; Script::ALL.len()],
    batches: Histogram,
    queued: AtomicI64,
    in_flight: AtomicI64,
    refusals: Refusals,
}

/// Measures of one script.
#[derive(Debug)]
pub struct OfScript {
    /// Duration of the calls with commands for this script, from sending to the reply: once for each command.
    pub seconds: Histogram,
    /// Commands for this script that failed, by [`Failure`].
    failures: [AtomicU64; Failure::ALL.len()],
}

/// Meter of a store; the default has measures of its own. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Measures>);

/// Number of commands for each script in a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    by_script: [u16; Script::ALL.len()],
    all: u16,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            scripts: Script::ALL.map(|_| OfScript {
                seconds: Histogram::of_times(CALLS),
                failures: Default::default(),
            }),
            batches: Histogram::of_numbers(SIZES),
            queued: AtomicI64::new(0),
            in_flight: AtomicI64::new(0),
            refusals: Refusals::default(),
        }
    }
}

impl Measures {
    /// Returns the measures of a script.
    #[must_use]
    pub fn script(&self, script: Script) -> &OfScript {
        &self.scripts[script as usize]
    }

    /// Returns the histogram of commands in one message to one server.
    #[must_use]
    pub fn batches(&self) -> &Histogram {
        &self.batches
    }

    /// Returns the number of commands that wait for a message.
    #[must_use]
    pub fn queued(&self) -> i64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Returns the number of commands that were sent and are not answered.
    #[must_use]
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }
}

impl OfScript {
    /// Returns how many commands failed in this way.
    #[must_use]
    pub fn failures(&self, failure: Failure) -> u64 {
        self.failures[failure as usize].load(Ordering::Relaxed)
    }
}

impl Meter {
    /// Returns a meter that measures.
    #[must_use]
    pub fn new(measures: Arc<Measures>) -> Self {
        Self(measures)
    }

    /// Notes a command that waits.
    pub(crate) fn queued(&self) {
        self.0.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a command that no longer waits and was not sent.
    pub(crate) fn left(&self) {
        self.0.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes waiting commands that are sent in one message; returns the tally for `answered`.
    pub(crate) fn sent(&self, scripts: impl Iterator<Item = Script>) -> Tally {
        let mut tally = Tally::default();
        for script in scripts {
            tally.by_script[script as usize] += 1;
            tally.all += 1;
        }
        let all = i64::from(tally.all);
        self.0.queued.fetch_sub(all, Ordering::Relaxed);
        self.0.in_flight.fetch_add(all, Ordering::Relaxed);
        if all > 0 {
            self.0.batches.observe(u64::from(tally.all));
        }
        tally
    }

    /// Notes their answers after this time, errors included; `None` if none will come.
    pub(crate) fn answered(&self, tally: Tally, after: Option<Duration>) {
        let measures = &self.0;
        let all = i64::from(tally.all);
        measures.in_flight.fetch_sub(all, Ordering::Relaxed);
        let Some(after) = after else { return };
        for (of_script, number) in measures.scripts.iter().zip(tally.by_script) {
            if number > 0 {
                of_script.seconds.observe_time(after, u64::from(number));
            }
        }
    }

    /// Waits for the answer to a call without a command, and notes its time or its failure.
    pub(crate) async fn measure<T>(
        &self,
        script: Script,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent_at = clock::now();
        let result = call.await;
        match &result {
            Ok(_) => {
                let after = sent_at.until(clock::now());
                self.0.script(script).seconds.observe_time(after, 1);
            }
            Err(error) => self.failed(script, error),
        }
        result
    }

    /// Notes that a server refused a command.
    pub(crate) fn refused(&self, server: &dyn fmt::Display, error: &ServerError) {
        let cause = DownCause::of(error.code(), error.details());
        let code = if is_wrong_type(error) {
            WRONG_TYPE
        } else {
            error.code()
        };
        let refusals = &self.0.refusals;
        refusals.note((cause, code), server, &words(error), clock::now());
    }

    /// Notes that the store can't carry out a command, which no server has refused.
    pub(crate) fn fails(&self, cause: DownCause, what: &dyn fmt::Display, words: &str) {
        let code = cause.codes().first().copied().unwrap_or_default();
        let refusals = &self.0.refusals;
        refusals.note((cause, code), what, words, clock::now());
    }

    /// Returns what servers of the store have refused in the last minute, with what to do: a sentence for each kind.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        self.0.refusals.recent(clock::now())
    }

    /// Notes a failed command.
    pub(crate) fn failed(&self, script: Script, error: &StoreError) {
        if matches!(error, StoreError::NotReplicated { .. }) {
            let settings = "min-replicas, replica-timeout";
            self.fails(DownCause::NotReplicated, &"the store", settings);
        }
        let failures = &self.0.script(script).failures;
        failures[Failure::of(error) as usize].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_counted_once_for_each_command_in_it() {
        let measures = Arc::new(Measures::default());
        let meter = Meter::new(Arc::clone(&measures));
        for _ in 0..3 {
            meter.queued();
        }
        assert_eq!((measures.queued(), measures.in_flight()), (3, 0));
        let scripts = [Script::Acquire, Script::Release, Script::Acquire];
        let tally = meter.sent(scripts.into_iter());
        assert_eq!((measures.queued(), measures.in_flight()), (0, 3));
        meter.answered(tally, Some(Duration::from_micros(300)));
        assert_eq!((measures.queued(), measures.in_flight()), (0, 0));
        assert_eq!(measures.batches().snapshot().count(), 1);
        let of = |script| measures.script(script).seconds.snapshot();
        assert_eq!(of(Script::Acquire).count(), 2);
        assert_eq!(of(Script::Release).count(), 1);
        assert_eq!(of(Script::Renew).count(), 0);
        let error = StoreError::Indeterminate {
            reason: String::new(),
        };
        meter.failed(Script::Renew, &error);
        let failures = Failure::ALL.map(|failure| measures.script(Script::Renew).failures(failure));
        assert_eq!(failures, [0, 1, 0, 0]);
    }
}
