//! Detector of stalls of the machine, so that no bound on time depends on other load.

use std::{
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

    /// Returns the bound on something that takes so many turns of processes, each of which may have stood still for as long as the
    /// longest stall since the last call.
    pub fn stretch(&self, bound: Duration, turns: u32) -> Duration {
        bound + self.worst() * turns
    }

    /// Returns the longest stall since the last call.
    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
