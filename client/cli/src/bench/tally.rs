//! Counters that the clients of a run share.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use leasehold_load::Distribution;

/// Most kinds of errors that are counted separately.
const MOST_KINDS: usize = 20;

/// Time window of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

/// Counters of all clients.
pub(super) struct Tally {
    window: Window,
    counts: Mutex<Counts>,
}

/// Completed cycle.
pub(super) struct Cycle {
    pub(super) asked: Instant,
    pub(super) granted: Instant,
    pub(super) hand_off: Option<Duration>,
    pub(super) releasing: Instant,
    pub(super) released: Instant,
}

/// Counts.
#[derive(Clone)]
pub(super) struct Counts {
    /// All cycles, warm-up included.
    so_far: u64,
    /// The cycles of each client.
    pub(super) by_client: Vec<u64>,
    pub(super) acquire: Distribution,
    pub(super) hand_off: Distribution,
    pub(super) release: Distribution,
    pub(super) cycle: Distribution,
    /// The sum over all cycles.
    pub(super) held: Duration,
    pub(super) unfinished: u64,
    pub(super) longest_unfinished: Duration,
    pub(super) errors: Kinds,
    pub(super) lost: Kinds,
}

/// Counts by kind.
#[derive(Clone, Default, Debug)]
pub(super) struct Kinds(BTreeMap<String, Kind>);

#[derive(Clone, Debug)]
struct Kind {
    count: u64,
    example: String,
}

impl Tally {
    pub(super) fn new(window: Window, clients: usize) -> anyhow::Result<Self> {
        let counts = Mutex::new(Counts::new(clients)?);
        Ok(Self { window, counts })
    }

    /// Returns the cycles since the beginning, warm-up included.
    pub(super) fn cycles_so_far(&self) -> u64 {
        self.counts().so_far
    }

    pub(super) fn cycle(&self, client: usize, cycle: &Cycle) {
        let mut counts = self.counts();
        counts.so_far += 1;
        if cycle.released < self.window.begin || cycle.released > self.window.end {
            return;
        }
        counts.by_client[client] += 1;
        counts.held += cycle.releasing - cycle.granted;
        counts.acquire.record(cycle.granted - cycle.asked);
        counts.release.record(cycle.released - cycle.releasing);
        counts.cycle.record(cycle.released - cycle.asked);
        if let Some(hand_off) = cycle.hand_off {
            counts.hand_off.record(hand_off);
        }
    }

    /// Counts an acquire without an answer at the end of the measured time, or at an early end of the run.
    pub(super) fn unfinished(&self, asked: Instant) {
        let end = Instant::now().min(self.window.end);
        if asked > end {
            return;
        }
        let mut counts = self.counts();
        counts.unfinished += 1;
        counts.longest_unfinished = counts.longest_unfinished.max(end - asked);
    }

    /// Counts a failed request, at any time.
    pub(super) fn error(&self, kind: &str, message: &str) {
        self.counts().errors.add(kind, message);
    }

    /// Counts the loss of a held lock, at any time.
    pub(super) fn lost(&self, kind: &str, reason: &str) {
        self.counts().lost.add(kind, reason);
    }

    /// Returns the counts so far. They are complete when all workers have ended.
    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn new(clients: usize) -> anyhow::Result<Self> {
        Ok(Self {
            so_far: 0,
            by_client: vec![0; clients],
            acquire: Distribution::new()?,
            hand_off: Distribution::new()?,
            release: Distribution::new()?,
            cycle: Distribution::new()?,
            held: Duration::ZERO,
            unfinished: 0,
            longest_unfinished: Duration::ZERO,
            errors: Kinds::default(),
            lost: Kinds::default(),
        })
    }
}

impl Kinds {
    pub(super) fn total(&self) -> u64 {
        self.0.values().map(|kind| kind.count).sum()
    }

    /// Returns each kind, its count, and an example in words.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        let kinds = self.0.iter();
        kinds.map(|(name, kind)| (name.as_str(), kind.count, kind.example.as_str()))
    }

    fn add(&mut self, name: &str, example: &str) {
        // Bounds the number of kinds, whatever a coordinator answers.
        let name = if self.0.len() < MOST_KINDS || self.0.contains_key(name) {
            name
        } else {
            "other"
        };
        let kind = self.0.entry(name.to_owned()).or_insert_with(|| Kind {
            count: 0,
            example: example.to_owned(),
        });
        kind.count += 1;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn cycles_count_that_were_completed_in_the_measured_time() {
        let start = Instant::now();
        let at = |millis| start + ms(millis);
        let window = Window {
            begin: at(100),
            end: at(200),
        };
        let tally = Tally::new(window, 2).unwrap();
        for (client, released) in [(0, 99), (0, 100), (1, 150), (1, 200), (1, 201)] {
            let cycle = Cycle {
                asked: at(released - 10),
                granted: at(released - 7),
                hand_off: Some(ms(1)),
                releasing: at(released - 2),
                released: at(released),
            };
            tally.cycle(client, &cycle);
        }
        let counts = tally.counts().clone();
        assert_eq!(counts.by_client, [1, 2]);
        assert_eq!(tally.cycles_so_far(), 5);
        assert_eq!(counts.held, ms(15));
        for (times, expected) in [
            (&counts.acquire, ms(3)),
            (&counts.hand_off, ms(1)),
            (&counts.release, ms(2)),
            (&counts.cycle, ms(10)),
        ] {
            assert_eq!(times.count(), 3);
            let off = times.max().abs_diff(expected);
            assert!(off <= expected / 1_000, "{expected:?} is {off:?} off");
        }
    }

    #[test]
    fn a_wait_that_did_not_end_counts_up_to_the_end() {
        let now = Instant::now();
        let Some(begin) = now.checked_sub(ms(1_000)) else {
            return; // The machine was started just now.
        };
        let window = Window {
            begin,
            end: begin + ms(400),
        };
        let tally = Tally::new(window, 1).unwrap();
        tally.unfinished(begin + ms(100));
        tally.unfinished(begin + ms(300));
        tally.unfinished(begin + ms(500));
        let counts = tally.counts();
        assert_eq!(counts.unfinished, 2);
        assert_eq!(counts.longest_unfinished, ms(300));
    }

    #[test]
    fn kinds_are_counted_over_all_clients_and_bounded() {
        let window = Window {
            begin: Instant::now(),
            end: Instant::now(),
        };
        let tally = Tally::new(window, 100).unwrap();
        for client in 0..100 {
            tally.error("A", "first words");
            tally.error(&format!("B{client}"), "words");
        }
        let counts = tally.counts();
        assert_eq!(counts.errors.total(), 200);
        let kinds: Vec<_> = counts.errors.iter().collect();
        assert_eq!(kinds[0], ("A", 100, "first words"));
        assert!(kinds.len() <= MOST_KINDS + 1);
    }
}
