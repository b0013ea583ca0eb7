//! The memory store's rules against the Redis scripts: the same random histories give the same answers, and report the same to
//! followers of the lock.
//!
//! Each script returns the time it used, and the state machine is fed that. A command that would fall within 5 ms of a
//! deadline, where milliseconds in Redis and microseconds here may differ, is put off; a history in which one fell there
//! all the same, or in which Redis says that it was interrupted for as long as explains a difference (the machine was
//! busy), ends before that command.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod again;
mod compare;
mod crowd;
mod ended;
mod full;
mod history;
mod interruptions;
mod limits;
mod pair;
mod random;
mod readers;
mod resumed;
mod run_out;
mod seen;
mod stepping;
mod strangers;
mod stripped;
mod together;
mod told;
mod wake_ups;
mod waves;

use std::time::Duration;

use history::{History, Verdict};
use interruptions::Interruptions;
use leasehold_core::id::CoordinatorId;
use leasehold_store::{Options, Status, Store, WakeUp};
use leasehold_tests::RedisServer;
use seen::Seen;
use tokio::{sync::mpsc, task::JoinSet};
use told::Ears;

/// Commands that must have been compared.
const COMMANDS: usize = 50_000;
/// Commands of one history.
const LENGTH: usize = 600;
/// Histories that must have had so many.
const COMPLETE: usize = 20;
/// Commands that must have been told of.
const TOLD: usize = 10_000;
/// Histories that may be begun at most.
const MOST: u64 = 2_000;
/// Histories that run side by side: most of their time is spent waiting for leases to run out.
const AT_ONCE: usize = 96;

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_agree() {
    let redis = RedisServer::start();
    // Databases hear nothing of one another: in the first, nobody follows anything.
    let unwatched = connect(&redis).await;
    let watched = connect_to(&redis, 1).await.0;
    let ears = Ears::of_everything(&watched).await;
    let named = connect_to(&redis, 2).await.0;
    let ears_of_names = Ears::of_names(&named).await;
    let stores = [
        (unwatched, None),
        (watched, Some(ears)),
        (named, Some(ears_of_names)),
    ];
    let interruptions = Interruptions::watch(&redis).await;
    let mut running = JoinSet::new();
    let mut seeds = 0;
    let (mut compared, mut complete, mut told) = (0, 0, 0);
    let mut seen = Seen::default();
    // Some cases occur twice or thrice in so many commands: without the last condition, one in ten runs would miss one.
    while compared < COMMANDS || complete < COMPLETE || !seen.missing().is_empty() {
        while running.len() < AT_ONCE {
            seeds += 1;
            let (store, ears) = stores
                .iter()
                .cycle()
                .nth(seeds as usize % 3)
                .unwrap()
                .clone();
            let history = History::new(seeds);
            running.spawn(history.run(store, interruptions.clone(), LENGTH, ears));
        }
        let (history, verdict) = running.join_next().await.unwrap().unwrap();
        match verdict {
            Verdict::Agreed => complete += 1,
            Verdict::Ambiguous => {}
            Verdict::Differed(what) => panic!("seed {}: {what}", history.seed()),
        }
        compared += history.commands();
        told += history.told();
        seen.add(history.seen());
        assert!(
            seeds < MOST,
            "only {complete} of {seeds} histories came to their end; no history came by {:?}",
            seen.missing()
        );
    }
    println!(
        "{compared} commands agreed, in {seeds} histories, of which {complete} came to their end; {told} were told of; {seen:?}"
    );
    assert!(told > TOLD, "only {told} were told of");
}

async fn connect(redis: &RedisServer) -> Store {
    connect_and_listen(redis).await.0
}

async fn connect_and_listen(redis: &RedisServer) -> (Store, mpsc::Receiver<WakeUp>) {
    connect_to(redis, 0).await
}

async fn connect_to(redis: &RedisServer, database: u32) -> (Store, mpsc::Receiver<WakeUp>) {
    let (store, wake_ups) = leasehold_store::open(Options {
        url: format!("{}/{database}", redis.url()),
        tls: leasehold_store::TlsFiles::default(),
        key_prefix: "lock:".into(),
        timeout: Duration::from_secs(5),
        connections: 1,
        acknowledgement: None,
        coordinator: CoordinatorId::new("watching"),
        max_hold: Duration::from_secs(7200),
        meter: leasehold_store::measure::Meter::default(),
    })
    .unwrap();
    let mut status = store.status();
    let up = status.wait_for(|status| matches!(status, Status::Up { .. }));
    tokio::time::timeout(Duration::from_secs(10), up)
        .await
        .unwrap()
        .unwrap();
    (store, wake_ups)
}
