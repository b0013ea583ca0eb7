//! Soak tests, which `make test` leaves to `make soak`: restarts of every coordinator under load. The torture run has them too, but
//! excuses losses for a while after each.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use leasehold_client::Client;
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer, report};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::load::{self, PATIENCE, Seen};

const CLIENTS: usize = 300;
const ROUNDS: usize = 2;
/// Contended by so many clients each.
const TOGETHER: usize = 6;
/// Time for which a client holds a contended lock.
const HOLD: Duration = Duration::from_millis(5);
const TTL: Duration = Duration::from_secs(20);

fn start(redis: &RedisServer, listen: &str, drain: &str) -> CoordinatorProcess {
    Coordinator::process()
        .store(redis.url())
        .arguments(["--listen", listen, "--drain-timeout", drain])
        .start()
}

/// Restarts so many coordinators one after the other, as an orchestrator does: SIGTERM, and this long after each has ended another
/// one in its place.
async fn restarts(coordinators: usize, drain: &str, pause: Duration) {
    let redis = RedisServer::start();
    let mut coordinators: Vec<_> = (0..coordinators)
        .map(|_| start(&redis, "127.0.0.1:0", drain))
        .collect();
    let endpoints: Vec<_> = coordinators
        .iter()
        .map(CoordinatorProcess::endpoint)
        .collect();
    let builder = Client::builder().ttl(TTL);
    let connecting = (0..CLIENTS).map(|_| builder.clone().connect(endpoints.join(",")));
    let clients = futures_util::future::try_join_all(connecting).await;
    let seen = Arc::<Seen>::default();
    let stop = CancellationToken::new();
    let mut work = load::begin(&clients.unwrap(), TOGETHER, HOLD, &seen, &stop).await;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        for old in &mut coordinators {
            let before = seen.cycles.load(Ordering::Relaxed);
            old.terminate();
            let status = old.child().wait(PATIENCE).await;
            assert!(status.success(), "{status:?}\n{}", old.log());
            tokio::time::sleep(pause).await;
            let address = old.endpoint();
            let address = address.trim_start_matches("http://");
            *old = block_in_place(|| start(&redis, address, drain));
            // The clients go on before the next one goes away.
            let back = Instant::now();
            while seen.cycles.load(Ordering::Relaxed) < before + 2 * CLIENTS as u64 {
                assert!(back.elapsed() < PATIENCE, "the clients stand still");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    stop.cancel();
    while let Some(ended) = work.join_next().await {
        ended.unwrap();
    }
    report(format_args!(
        "{ROUNDS} restarts of {} coordinators in {:.1?}: {CLIENTS} clients, 0 locks lost, 0 acquires failed of {}, the longest \
         took {:?}; the least left of a hold was {:?}",
        coordinators.len(),
        begun.elapsed(),
        seen.cycles.load(Ordering::Relaxed),
        Duration::from_micros(seen.longest.load(Ordering::Relaxed)),
        Duration::from_micros(seen.least.load(Ordering::Relaxed)),
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_three_coordinators_lose_no_lock_and_fail_no_acquire() {
    restarts(3, "10s", Duration::ZERO).await;
}

/// Its clients have nowhere to go: all of its drain time-out passes, and they hold on until it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_the_only_coordinator_lose_no_lock_and_fail_no_acquire() {
    restarts(1, "1s", Duration::from_secs(2)).await;
}
