//! Counters that the clients of a run share.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

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
    /// All cycles, for the progress bar.
    all: AtomicU64,
    by_client: Vec<AtomicU64>,
    /// Several shards, so that clients do not queue here.
    shards: Vec<Mutex<Counts>>,
}

/// Completed cycle.
pub(super) struct Cycle {
    pub(super) asked: Instant,
    pub(super) granted: Instant,
    pub(super) hand_off: Option<Duration>,
    pub(super) releasing: Instant,
    pub(super) released: Instant,
}

/// Counts. Times are in nanoseconds, to three digits.
pub(super) struct Counts {
    pub(super) acquire: Histogram<u64>,
    pub(super) hand_off: Histogram<u64>,
    pub(super) release: Histogram<u64>,
    pub(super) cycle: Histogram<u64>,
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
        let shards = thread::available_parallelism().map_or(1, usize::from);
        let shards = (0..shards).map(|_| Counts::new().map(Mutex::new));
        Ok(Self {
            window,
            all: AtomicU64::new(0),
            by_client: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            shards: shards.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns the cycles since the beginning, warm-up included.
    pub(super) fn cycles_so_far(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    pub(super) fn cycle(&self, client: usize, cycle: &Cycle) {
        self.all.fetch_add(1, Ordering::Relaxed);
        if cycle.released < self.window.begin || cycle.released > self.window.end {
            return;
        }
        if let Some(count) = self.by_client.get(client) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.with(client, |counts| {
            let held = cycle.releasing - cycle.granted;
            counts.held += held;
            record(&mut counts.acquire, cycle.granted - cycle.asked);
            record(&mut counts.release, cycle.released - cycle.releasing);
            record(&mut counts.cycle, cycle.released - cycle.asked);
            if let Some(hand_off) = cycle.hand_off {
                record(&mut counts.hand_off, hand_off);
            }
        });
    }

    /// Counts an acquire without an answer at the end of the measured time, or at an early end of the run.
    pub(super) fn unfinished(&self, client: usize, asked: Instant) {
        let end = Instant::now().min(self.window.end);
        if asked > end {
            return;
        }
        self.with(client, |counts| {
            counts.unfinished += 1;
            counts.longest_unfinished = counts.longest_unfinished.max(end - asked);
        });
    }

    /// Counts a failed request, at any time.
    pub(super) fn error(&self, client: usize, kind: &str, message: &str) {
        self.with(client, |counts| counts.errors.add(kind, message));
    }

    /// Counts the loss of a held lock, at any time.
    pub(super) fn lost(&self, client: usize, kind: &str, reason: &str) {
        self.with(client, |counts| counts.lost.add(kind, reason));
    }

    /// Returns the sum of all counts, and each client's number of cycles. Call it when all workers have ended.
    pub(super) fn total(&self) -> anyhow::Result<(Counts, Vec<u64>)> {
        let mut total = Counts::new()?;
        for shard in &self.shards {
            total.add(&lock(shard))?;
        }
        let by_client = self.by_client.iter();
        let by_client = by_client.map(|count| count.load(Ordering::Relaxed));
        Ok((total, by_client.collect()))
    }

    fn with(&self, client: usize, count: impl FnOnce(&mut Counts)) {
        if let Some(shard) = self.shards.get(client % self.shards.len().max(1)) {
            count(&mut lock(shard));
        }
    }
}

fn lock(shard: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // The histogram grows as needed: any number fits.
    histogram.record(nanos).ok();
}

impl Counts {
    fn new() -> anyhow::Result<Self> {
        let histogram = || Histogram::new(3);
        Ok(Self {
            acquire: histogram()?,
            hand_off: histogram()?,
            release: histogram()?,
            cycle: histogram()?,
            held: Duration::ZERO,
            unfinished: 0,
            longest_unfinished: Duration::ZERO,
            errors: Kinds::default(),
            lost: Kinds::default(),
        })
    }

    fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.acquire.add(&other.acquire)?;
        self.hand_off.add(&other.hand_off)?;
        self.release.add(&other.release)?;
        self.cycle.add(&other.cycle)?;
        self.held += other.held;
        self.unfinished += other.unfinished;
        self.longest_unfinished = self.longest_unfinished.max(other.longest_unfinished);
        self.errors.merge(&other.errors);
        self.lost.merge(&other.lost);
        Ok(())
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
        self.add_many(name, 1, example);
    }

    fn merge(&mut self, other: &Self) {
        for (name, count, example) in other.iter() {
            self.add_many(name, count, example);
        }
    }

    fn add_many(&mut self, name: &str, count: u64, example: &str) {
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
        kind.count += count;
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
        let (counts, by_client) = tally.total().unwrap();
        assert_eq!(by_client, [1, 2]);
        assert_eq!(tally.cycles_so_far(), 5);
        assert_eq!(counts.held, ms(15));
        for (histogram, millis) in [
            (&counts.acquire, 3),
            (&counts.hand_off, 1),
            (&counts.release, 2),
            (&counts.cycle, 10),
        ] {
            assert_eq!(histogram.len(), 3);
            let off = histogram.max().abs_diff(millis * 1_000_000);
            assert!(off <= millis * 1_000, "{millis} ms is {off} ns off");
        }
    }

    #[test]
    fn long_times_are_kept() {
        let counts = &mut Counts::new().unwrap().cycle;
        record(counts, Duration::from_secs(7_200));
        assert_eq!(counts.max() / 10_000_000_000, 720);
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
        tally.unfinished(0, begin + ms(100));
        tally.unfinished(0, begin + ms(300));
        tally.unfinished(0, begin + ms(500));
        let (counts, _) = tally.total().unwrap();
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
            tally.error(client, "A", "first words");
            tally.error(client, &format!("B{client}"), "words");
        }
        let (counts, _) = tally.total().unwrap();
        assert_eq!(counts.errors.total(), 200);
        let kinds: Vec<_> = counts.errors.iter().collect();
        assert_eq!(kinds[0], ("A", 100, "first words"));
        assert!(kinds.len() <= MOST_KINDS + 1);
    }
}
