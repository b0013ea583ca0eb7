//! Rolling restart: every coordinator stops and comes back, one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_client::{Client, LockGuard, LockState};
use leasehold_tests::{Latencies, alone::alone, report};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::site::{Site, clients};

const CLIENTS: usize = 300;
const COORDINATORS: usize = 3;
/// Contended by so many clients each.
const TOGETHER: usize = 6;
/// Longer than a client may take to acquire anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Record of the clients' events.
#[derive(Default)]
struct Seen {
    cycles: AtomicU64,
    /// The longest wait for a lock, in µs.
    longest: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_no_lock_and_fails_no_acquire() {
    let _alone = alone().await;
    let mut site = Site::start(COORDINATORS);
    let builder = Client::builder()
        .client_name("rolling")
        .ttl(Duration::from_secs(20));
    let clients = clients(&builder, &site.endpoints(), CLIENTS).await;
    let seen = Arc::<Seen>::default();
    let stop = CancellationToken::new();
    let mut work = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let held = client.lock(format!("held/{number}")).await.unwrap();
        work.spawn(keep(held, stop.clone()));
        let name = format!("contended/{}", number / TOGETHER);
        work.spawn(cycle(client.clone(), name, Arc::clone(&seen), stop.clone()));
    }
    let mut drained = Latencies::new("a coordinator's drain");
    let begun = Instant::now();
    for at in 0..COORDINATORS {
        let before = seen.cycles.load(Ordering::Relaxed);
        drained.record(site.restart(at).await);
        // The clients go on before the next one goes away.
        while seen.cycles.load(Ordering::Relaxed) < before + 2 * CLIENTS as u64 {
            assert!(begun.elapsed() < PATIENCE * 2, "the clients stand still");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    stop.cancel();
    while let Some(ended) = work.join_next().await {
        ended.unwrap();
    }
    drained.print();
    report(format_args!(
        "rolling restart of {COORDINATORS} coordinators in {:.1?}: {CLIENTS} clients, 0 locks lost, 0 acquires failed of {}, \
         the longest took {:?}",
        begun.elapsed(),
        seen.cycles.load(Ordering::Relaxed),
        Duration::from_micros(seen.longest.load(Ordering::Relaxed)),
    ));
}

/// Holds on to a lock, which is to be held all the time.
async fn keep(guard: LockGuard, stop: CancellationToken) {
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
async fn cycle(client: Client, name: String, seen: Arc<Seen>, stop: CancellationToken) {
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
