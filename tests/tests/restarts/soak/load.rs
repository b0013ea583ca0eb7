//! Load beside a restart: locks that are held all the time, and locks that several clients take in turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_client::{Client, LockGuard, LockState};
use tokio_util::sync::CancellationToken;

/// Longer than a client may take to acquire anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Record of the clients' events.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) cycles: AtomicU64,
    /// The longest wait for a lock, in µs.
    pub(super) longest: AtomicU64,
}

/// Holds on to a lock, which is to be held all the time.
pub(super) async fn keep(guard: LockGuard, stop: CancellationToken) {
    let token = guard.fencing_token();
    while !stop.is_cancelled() {
        assert_eq!(guard.state(), LockState::Held, "{}", guard.name());
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    }
    assert_eq!(guard.fencing_token(), token);
    guard.release().await.unwrap();
}

/// Takes and gives back a lock that others want as well.
pub(super) async fn cycle(client: Client, name: String, seen: Arc<Seen>, stop: CancellationToken) {
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
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(guard.state(), LockState::Held, "{name}");
        guard
            .release()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
