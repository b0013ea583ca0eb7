//! Load beside a restart: locks that are held all the time, and locks that several clients take in turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_client::{Client, LockGuard, LockState};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longer than a client may take to acquire anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Record of the clients' events.
pub(super) struct Seen {
    pub(super) cycles: AtomicU64,
    /// The longest wait for a lock, in µs.
    pub(super) longest: AtomicU64,
    /// The least that was left of a hold that is kept, in µs.
    pub(super) least: AtomicU64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            cycles: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            least: AtomicU64::new(u64::MAX),
        }
    }
}

/// Has each client keep a lock of its own, and take a lock in turns with others, so many `together`, which each holds for
/// `hold`.
pub(super) async fn begin(
    clients: &[Client],
    together: usize,
    hold: Duration,
    seen: &Arc<Seen>,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut work = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let held = client.lock(format!("held/{number}")).await.unwrap();
        work.spawn(keep(held, Arc::clone(seen), stop.clone()));
        let (client, name) = (client.clone(), format!("contended/{}", number / together));
        work.spawn(cycle(client, name, hold, Arc::clone(seen), stop.clone()));
    }
    work
}

/// Holds on to a lock, which is to be held all the time.
async fn keep(guard: LockGuard, seen: Arc<Seen>, stop: CancellationToken) {
    let token = guard.fencing_token();
    while !stop.is_cancelled() {
        assert_eq!(guard.state(), LockState::Held, "{}", guard.name());
        let left = u64::try_from(guard.valid_for().as_micros()).unwrap();
        seen.least.fetch_min(left, Ordering::Relaxed);
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    }
    assert_eq!(guard.fencing_token(), token);
    guard.release().await.unwrap();
}

/// Takes a lock that others want as well, holds it for a while, and gives it back.
async fn cycle(
    client: Client,
    name: String,
    hold: Duration,
    seen: Arc<Seen>,
    stop: CancellationToken,
) {
    let mut last = None;
    while !stop.is_cancelled() {
        let asked = Instant::now();
        let guard = client.lock(&*name).wait(PATIENCE).await;
        let guard = guard.unwrap_or_else(|error| panic!("{name}: {error}"));
        let took = u64::try_from(asked.elapsed().as_micros()).unwrap();
        seen.longest.fetch_max(took, Ordering::Relaxed);
        seen.cycles.fetch_add(1, Ordering::Relaxed);
        assert!(last < Some(guard.fencing_token()), "tokens rise");
        last = Some(guard.fencing_token());
        tokio::time::sleep(hold).await;
        assert_eq!(guard.state(), LockState::Held, "{name}");
        guard
            .release()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
