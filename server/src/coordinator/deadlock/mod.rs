//! Detector of deadlocks: the registry of actors that wait here while they hold something, and the task that looks at what they
//! wait for.
//!
//! A lock that is free costs nothing more because of it, and neither does a wait of an actor that holds nothing. While an actor
//! waits that holds something, the coordinators exchange such waits every 300 ms, read who holds and who waits for the names in
//! question, and compare with the pass before. `leasehold_core::deadlock` says what a deadlock is and which wait has to end;
//! every coordinator reaches the same verdict, and each ends its own waits.
//!
//! Everything is bounded: what a session, a caller and a coordinator publish ([`leasehold_core::deadlock::share`]), and what a pass reads (`look`).
//! A bound never causes a false accusation: an actor is published with all of its waits or not at all, and whatever is not seen
//! counts as able to go on. A bound can only delay the detection of deadlocks among clients that exceed it.

mod blocked;
mod look;
#[cfg(test)]
mod tests;

use std::{hash::RandomState, time::Duration};

pub use leasehold_core::deadlock::share::BOUNDS;
use leasehold_core::deadlock::{Deadlock, Pass, Publication, find, share::Omitted};
use leasehold_store::StoreError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::blocked::{Blocked, BlockedHere};
use super::Coordinator;

/// Time from the beginning of one pass to that of the next, unless a pass takes more than two thirds of it. A deadlock is found
/// by the second pass after it closed.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Passes for which a lot stands while something is left out: two see the same actors even at coordinators that are out of
/// step.
const PASSES_OF_A_LOT: u32 = 4;
/// Time between two warnings of bounds.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Coordinator as its detector sees it.
trait Site {
    /// Publishes, and carries one pass out. Notes what its bounds leave out.
    fn look(
        &mut self,
        mine: Publication,
        lot: &RandomState,
        omitted: &mut Omitted,
    ) -> impl Future<Output = Result<Pass, StoreError>> + Send;

    /// Takes note of a deadlock that was ended here.
    fn ended(&mut self, deadlock: &Deadlock);

    /// Takes note of what was left out of a pass.
    fn bounded(&mut self, omitted: Omitted);
}

/// Looks for deadlocks until it is stopped.
pub async fn run(coordinator: Coordinator, stop: CancellationToken) {
    let blocked = coordinator.blocked().clone();
    let site = Here {
        coordinator,
        warned: None,
    };
    stop.run_until_cancelled(detect(blocked, site)).await;
}

async fn detect(blocked: Blocked, mut site: impl Site) {
    let mut before = None;
    let mut told = false;
    let mut lot = RandomState::new();
    let mut passes = 0;
    let mut begun = Instant::now();
    loop {
        if !told {
            blocked.any().await;
            begun = Instant::now();
        }
        tokio::time::sleep(rest(begun.elapsed())).await;
        begun = Instant::now();
        let (all, of_now) = (blocked.clone(), lot.clone());
        let chosen = off_the_runtime(move || all.publication(&of_now)).await;
        let Some((mine, mut omitted)) = chosen else {
            continue;
        };
        if mine.is_empty() && !told {
            continue;
        }
        told = !mine.is_empty();
        // Where the store does not answer, two passes have to be made again.
        let now = site.look(mine, &lot, &mut omitted).await.ok();
        before = match (before, now) {
            (Some(before), Some(now)) => {
                // One at a time: the next pass begins after this has ended.
                let found = off_the_runtime(move || (find(&before, &now), now)).await;
                let (deadlocks, now) = found.unzip();
                for deadlock in deadlocks.into_iter().flatten() {
                    if blocked.end(&deadlock) {
                        site.ended(&deadlock);
                    }
                }
                now
            }
            (_, now) => now,
        };
        before = before.filter(|_| told);
        passes += 1;
        if omitted != Omitted::default() {
            site.bounded(omitted);
            if passes >= PASSES_OF_A_LOT {
                (lot, passes) = (RandomState::new(), 0);
            }
        }
    }
}

/// Returns how long the detector rests after a pass that took so long: for the rest of the interval, and for at least half as
/// long as the pass took, so that others have the processors.
fn rest(pass: Duration) -> Duration {
    LOOK_EVERY
        .saturating_sub(pass)
        .max((pass / 2).min(LOOK_EVERY))
}

/// Carries out on a thread of its own what may take a while. `None` if it panicked.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// A coordinator as its detector sees it.
struct Here {
    coordinator: Coordinator,
    /// Time of its last warning of bounds.
    warned: Option<Instant>,
}

impl Site for Here {
    async fn look(
        &mut self,
        mine: Publication,
        lot: &RandomState,
        omitted: &mut Omitted,
    ) -> Result<Pass, StoreError> {
        look::look(&self.coordinator, mine, lot, omitted).await
    }

    fn ended(&mut self, deadlock: &Deadlock) {
        self.coordinator.metrics().deadlocks.inc();
        tracing::info!(%deadlock, "ended a deadlock");
    }

    fn bounded(&mut self, omitted: Omitted) {
        for (bound, _) in omitted.each() {
            self.coordinator.metrics().count_deadlock_bound(bound);
        }
        let warned = self.warned.map(|warned| warned.elapsed());
        if warned.is_none_or(|warned| warned >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            let Omitted {
                session,
                caller,
                coordinator,
                names,
                edges,
                time,
            } = omitted;
            tracing::warn!(
                session,
                caller,
                coordinator,
                names,
                edges,
                time,
                "deadlock detection left out actors or names because of its bounds; deadlocks among the clients with the most waits are found later"
            );
        }
    }
}
