//! Leader on generated stubs, through rolling restarts of all coordinators under load.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use leasehold_client::{Admin, Client};
use leasehold_tests::{alone::alone, report, soak};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::load::{self, Seen};
use crate::restarts::{
    program::{PATIENCE, Program, parse},
    site::{Site, clients},
};

const COORDINATORS: usize = 3;
const ROUNDS: usize = 3;
/// Contended by so many clients each.
const TOGETHER: usize = 6;
/// Time for which a client holds a contended lock.
const HOLD: Duration = Duration::from_millis(5);
/// Candidates that wait behind the leader all the time.
const CANDIDATES: usize = 5;
const TTL: Duration = Duration::from_secs(10);
const ELECTION: &str = "python/rolling";

/// Reads the leaders that an observer at one coordinator sees, over its restarts. Returns one for each change.
fn observe(endpoint: &str, stop: CancellationToken) -> JoinHandle<Vec<(i64, Vec<u8>)>> {
    let mut observer = Admin::connect(endpoint).unwrap().observe(ELECTION);
    tokio::spawn(async move {
        let mut seen = Vec::new();
        loop {
            let change = tokio::select! {
                () = stop.cancelled() => return seen,
                change = observer.next() => change.unwrap().unwrap(),
            };
            let leader = change.leader.expect("somebody leads all the time");
            let token = leader.fencing_token.expect("it has a token");
            seen.push((token.get(), leader.value));
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_its_token_and_its_term_through_three_rolling_restarts_under_load() {
    let _alone = alone().await;
    let mut site = Site::start(COORDINATORS);
    let endpoints = site.endpoints();
    let mut leader = Program::start(ELECTION, "leader", TTL, &endpoints).await;
    let token = leader.leads().await;
    let term = client_of(&site, 0).await.election(ELECTION).leader().await;
    let term = term.unwrap().unwrap();
    let stop = CancellationToken::new();
    let observers: Vec<_> = (0..COORDINATORS)
        .map(|at| observe(&site.endpoint(at), stop.clone()))
        .collect();

    let number = soak::either(200, 60);
    let builder = Client::builder()
        .client_name("load")
        .ttl(Duration::from_secs(20));
    let clients = clients(&builder, &endpoints, number).await;
    let seen = Arc::<Seen>::default();
    let mut work = load::begin(&clients, TOGETHER, HOLD, &seen, &stop).await;
    let mut candidates = JoinSet::new();
    for client in clients.iter().take(CANDIDATES) {
        let client = client.clone();
        candidates.spawn(async move { client.election(ELECTION).campaign("other").await });
    }
    site.until_waiting(ELECTION, CANDIDATES).await;

    let begun = Instant::now();
    let (mut moves, mut least) = (0, TTL);
    for _ in 0..ROUNDS {
        let mut moves_in_round = 0;
        for at in 0..COORDINATORS {
            let before = seen.cycles.load(Ordering::Relaxed);
            site.restart(at).await;
            // The load goes on, and the next coordinator is not stopped before it does.
            let back = Instant::now();
            while seen.cycles.load(Ordering::Relaxed) < before + 2 * number as u64 {
                assert!(back.elapsed() < PATIENCE, "the clients stand still");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for line in leader.lines.ready() {
                let moved = line.strip_prefix("moved ");
                let moved = moved.unwrap_or_else(|| panic!("the leader said {line:?}"));
                let (_, left) = parse(moved);
                least = least.min(left);
                moves_in_round += 1;
            }
            let shown = client_of(&site, at).await.election(ELECTION).leader().await;
            let shown = shown.unwrap().unwrap();
            assert_eq!(shown.fencing_token.unwrap().get(), token);
            assert_eq!(shown.elected_at, term.elected_at);
        }
        // Whichever it was at, that one was restarted.
        assert!(moves_in_round > 0, "the leader has not moved");
        moves += moves_in_round;
    }
    assert!(candidates.try_join_next().is_none(), "another one leads");
    stop.cancel();
    for observer in observers {
        let seen = observer.await.unwrap();
        assert_eq!(seen, [(token, b"leader".to_vec())]);
    }
    while let Some(ended) = work.join_next().await {
        ended.unwrap();
    }
    leader.resign().await;
    let next = tokio::time::timeout(PATIENCE, candidates.join_next()).await;
    let next = next.unwrap().unwrap().unwrap().unwrap();
    assert!(next.fencing_token().get() > token);
    report(format_args!(
        "a leader on generated stubs through {ROUNDS} rolling restarts of {COORDINATORS} coordinators in {:.1?}: it moved \
         {moves} times, in one term, with {least:.1?} left at the least; beside it {} acquires",
        begun.elapsed(),
        seen.cycles.load(Ordering::Relaxed),
    ));
}

async fn client_of(site: &Site, at: usize) -> Client {
    Client::connect(site.endpoint(at)).await.unwrap()
}
