//! Kill of a coordinator.

use std::time::{Duration, Instant};

use leasehold_client::{Client, LockGuard, LockState};
use leasehold_tests::{Latencies, alone::alone};

use crate::restarts::site::{Site, clients};

const CLIENTS: usize = 200;
/// Tolerated delay of any event on a busy machine.
const LATE: Duration = Duration::from_secs(2);

async fn locks(clients: &[Client], prefix: &str) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let lock = client.lock(format!("{prefix}/{number}"));
        guards.push(lock.await.unwrap());
    }
    guards
}

/// Returns the time for which a guard was suspended; `None` if it was not within the limit.
async fn suspended(guard: &LockGuard, within: Duration) -> Option<Duration> {
    let until = Instant::now() + within;
    let mut since = None;
    while Instant::now() < until {
        match (guard.state(), since) {
            (LockState::Held, None) => {}
            (LockState::Held, Some(since)) => return Some(Instant::now() - since),
            (LockState::Suspended, _) => since = since.or(Some(Instant::now())),
            (state, _) => panic!("{}: {state:?}", guard.name()),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(since.is_none(), "{} stays suspended", guard.name());
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_grace_nothing_is_lost() {
    let _alone = alone().await;
    let mut site = Site::start(2);
    let ttl = Duration::from_secs(10);
    let builder = Client::builder().ttl(ttl).disconnect_grace(ttl);
    let clients = clients(&builder, &site.endpoints(), CLIENTS).await;
    let here = site.endpoint(0);
    let guards = locks(&clients, "grace").await;
    site.kill(0);
    let watching = guards.iter().map(|guard| suspended(guard, ttl / 2));
    let times = futures_util::future::join_all(watching).await;
    let mut latencies = Latencies::new("suspended after the kill of a coordinator");
    for time in times.into_iter().flatten() {
        latencies.record(time);
    }
    latencies.print();
    let moved = latencies.count();
    assert!(
        moved > CLIENTS as u64 / 4,
        "{moved} of {CLIENTS} were at {here}"
    );
    assert!(latencies.quantile(0.99) <= Duration::from_secs(1));
    for guard in guards {
        assert_eq!(guard.state(), LockState::Held);
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_grace_guards_say_lost_at_once_and_the_locks_end_with_their_ttl() {
    let _alone = alone().await;
    let mut site = Site::start(2);
    let ttl = Duration::from_secs(3);
    let builder = Client::builder().ttl(ttl);
    let doomed = clients(&builder, &site.endpoint(0), CLIENTS).await;
    let guards = locks(&doomed, "no grace").await;
    let other = builder.clone().connect(site.endpoint(1)).await.unwrap();
    let killed = Instant::now();
    site.kill(0);
    let mut lost = Latencies::new("told lost after the kill");
    for guard in &guards {
        tokio::time::timeout(LATE, guard.lost()).await.unwrap();
        lost.record(killed.elapsed());
    }
    lost.print();
    let mut free = Latencies::new(format!("free after the kill, TTL {ttl:?}"));
    let waiting = guards.iter().map(async |guard| {
        let lock = other.lock(guard.name()).wait(ttl + LATE);
        let next = lock.await.unwrap();
        assert!(next.fencing_token() > guard.fencing_token());
        (killed.elapsed(), next)
    });
    for (time, next) in futures_util::future::join_all(waiting).await {
        free.record(time);
        next.release().await.unwrap();
    }
    free.print();
    assert!(free.max() <= ttl + LATE, "{:?}", free.max());
}
