//! Detector of stalls of the machine, so that no bound on time depends on other load.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const NAP: Duration = Duration::from_millis(1);

/// Watches for stalls until it is dropped: threads that nap, and note how much later than asked for they are woken.
#[derive(Debug)]
pub struct Stalls {
    worst: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Stalls {
    /// Starts to watch, with a thread for each processor.
    pub fn watch() -> Self {
        let stalls = Self {
            worst: Arc::default(),
            stop: Arc::default(),
        };
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (worst, stop) = (Arc::clone(&stalls.worst), Arc::clone(&stalls.stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    thread::sleep(NAP);
                    let late = began.elapsed().saturating_sub(NAP).as_micros();
                    worst.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            });
        }
        stalls
    }

    /// The longest stall since this was asked last.
    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How long each thread of some processes was ready to run and did not, as no processor was free: what short naps do not
/// see, since the kernel prefers those who sleep.
#[derive(Clone, Debug)]
pub struct Waits {
    processes: Vec<u32>,
    /// By process and thread.
    waited: BTreeMap<(u32, String), Duration>,
}

impl Waits {
    /// What they have waited until now.
    pub fn of(processes: impl IntoIterator<Item = u32>) -> Self {
        let processes: Vec<u32> = processes.into_iter().collect();
        let waited = processes.iter().flat_map(|process| waited(*process));
        Self {
            waited: waited.collect(),
            processes,
        }
    }

    /// What a message that passes through all of them may have lost by it since: the longest that a thread of each has
    /// waited, one after the other.
    pub fn in_a_row(&self) -> Duration {
        let longest = |process: &u32| {
            let since = waited(*process).into_iter().map(|(thread, waited)| {
                let before = self.waited.get(&thread).copied().unwrap_or_default();
                waited.saturating_sub(before)
            });
            since.max().unwrap_or_default()
        };
        self.processes.iter().map(longest).sum()
    }
}

/// What the kernel counts of each thread of a process. One that has ended has no more to say.
fn waited(process: u32) -> Vec<((u32, String), Duration)> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let threads = threads.filter_map(|thread| {
        let thread = thread.ok()?;
        // Time on a processor, time waiting for one, and how often: nanoseconds.
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = counts.split_whitespace().nth(1)?.parse().ok()?;
        let name = thread.file_name().to_string_lossy().into_owned();
        Some(((process, name), Duration::from_nanos(nanos)))
    });
    threads.collect()
}
