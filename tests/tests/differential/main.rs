//! The memory store's rules against the Redis scripts: the same random histories give the same answers.
//!
//! Each script returns the time it used, and the state machine is fed that. A command that would fall within 5 ms of a
//! deadline, where milliseconds in Redis and microseconds here may differ, is put off; a history in which one fell there
//! all the same, or in which Redis says that it was interrupted for as long as explains a difference (the machine was
//! busy), is thrown away and not counted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod compare;
mod crowd;
mod full;
mod history;
mod interruptions;

use std::time::Duration;

use history::{History, Seen, Verdict};
use interruptions::Interruptions;
use leasehold_core::id::CoordinatorId;
use leasehold_store::{LockStore, Options, Status, Store};
use leasehold_tests::RedisServer;
use tokio::task::JoinSet;

/// Commands that must have been compared.
const COMMANDS: usize = 24_000;
/// Commands of one history.
const LENGTH: usize = 600;
/// Histories that run side by side: most of their time is spent waiting for leases to run out.
const AT_ONCE: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_agree() {
    let redis = RedisServer::start();
    let store = connect(&redis).await;
    let interruptions = Interruptions::watch(redis.async_connection().await).await;
    let mut running = JoinSet::new();
    let mut seeds = 0;
    let (mut compared, mut thrown_away) = (0, 0);
    let mut seen = Seen::default();
    while compared < COMMANDS {
        while running.len() < AT_ONCE {
            seeds += 1;
            running.spawn(History::new(seeds).run(store.clone(), interruptions.clone(), LENGTH));
        }
        let (history, verdict) = running.join_next().await.unwrap().unwrap();
        match verdict {
            Verdict::Agreed => compared += LENGTH,
            Verdict::Ambiguous => thrown_away += 1,
            Verdict::Differed(what) => panic!("seed {}: {what}", history.seed()),
        }
        seen.add(history.seen());
        assert!(
            thrown_away < 40 + seeds,
            "too many histories were thrown away: {thrown_away} of {seeds}"
        );
    }
    println!(
        "{compared} commands agreed; {thrown_away} of {seeds} histories thrown away; {seen:?}"
    );
    seen.assert_everything_happened();
}

async fn connect(redis: &RedisServer) -> Store {
    let (store, _wake_ups) = leasehold_store::open(Options {
        url: redis.url(),
        ca: None,
        key_prefix: "lock:".into(),
        timeout: Duration::from_secs(5),
        connections: 1,
        coordinator: CoordinatorId::new("watching"),
    })
    .unwrap();
    let mut status = store.status();
    let up = status.wait_for(|status| matches!(status, Status::Up { .. }));
    tokio::time::timeout(Duration::from_secs(10), up)
        .await
        .unwrap()
        .unwrap();
    store
}
