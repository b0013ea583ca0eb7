//! Restart of the only coordinator: it drains, and comes back at the same address.

use std::{
    process::{Command, Stdio},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use leasehold_client::{Client, LostReason};
use leasehold_tests::{
    Latencies,
    alone::alone,
    binaries,
    process::{ChildProcess, Lines},
    report, soak,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::load::{self, PATIENCE, Seen};
use crate::restarts::site::{Site, clients};

const CLIENTS: usize = 100;
/// Contended by so many clients each.
const TOGETHER: usize = 5;
const TTL: Duration = Duration::from_secs(10);
/// Time that it drains. It has nowhere to send its clients, so all of this time passes in each restart.
const DRAIN: Duration = Duration::from_secs(1);
/// Time for which a client holds a contended lock.
const HOLD: Duration = Duration::from_millis(20);

/// Returns how many restarts, and how long the coordinator is gone between its end and the start of the next one at most. In
/// the short form that is a second, which leaves a busy machine some time; in the full one it makes three seconds together with
/// the start.
fn restarts() -> (u32, Duration) {
    soak::either(
        (20, Duration::from_millis(2_700)),
        (2, Duration::from_secs(1)),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_no_lock_fails_no_acquire_and_stops_no_job() {
    let _alone = alone().await;
    let mut site = Site::draining_for(1, DRAIN);
    let builder = Client::builder().client_name("lone").ttl(TTL);
    let clients = clients(&builder, &site.endpoints(), CLIENTS).await;
    let (mut job, mut ticks) = job(&site.endpoint(0));
    ticks.expect("tick 1", PATIENCE).await;
    let seen = Arc::<Seen>::default();
    let stop = CancellationToken::new();
    let mut work = load::begin(&clients, TOGETHER, HOLD, &seen, &stop).await;
    let mut stopped = Latencies::new("SIGTERM to exit of the only coordinator");
    let begun = Instant::now();
    let (restarts, longest) = restarts();
    for number in 1..=restarts {
        let before = seen.cycles.load(Ordering::Relaxed);
        // Now at once, now as late as it may.
        let gone = if number % 2 == 1 {
            longest
        } else {
            longest / 10
        };
        stopped.record(site.restart_after(0, gone).await);
        // The clients go on before it goes away once more.
        let back = Instant::now();
        while seen.cycles.load(Ordering::Relaxed) < before + 2 * CLIENTS as u64 {
            assert!(back.elapsed() < PATIENCE, "the clients stand still");
            if let Some(ended) = work.try_join_next() {
                ended.unwrap();
                unreachable!("work ends only when it is told to");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(job.try_wait(), None, "the job has ended");
    }
    stop.cancel();
    while let Some(ended) = work.join_next().await {
        ended.unwrap();
    }
    // The job was there all the time, the same one, and goes on.
    let ticked = last_tick(&mut ticks);
    ticks
        .expect(&format!("tick {}", ticked + 1), PATIENCE)
        .await;
    job.terminate();
    let ended = job.wait(PATIENCE).await;
    assert_eq!(ended.code(), Some(128 + 15), "{ended:?}");
    stopped.print();
    report(format_args!(
        "{restarts} restarts of a lone coordinator in {:.1?}: {CLIENTS} clients, 0 locks lost, 0 acquires failed of {}, the \
         longest took {:?}; the least left of a hold was {:?}; the job ticked {ticked} times and was not stopped",
        begun.elapsed(),
        seen.cycles.load(Ordering::Relaxed),
        Duration::from_micros(seen.longest.load(Ordering::Relaxed)),
        Duration::from_micros(seen.least.load(Ordering::Relaxed)),
    ));
}

/// Starts `leasehold run` with a job that prints a number now and then.
fn job(endpoint: &str) -> (ChildProcess, Lines) {
    let ticking = "n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.1; done";
    let mut command = Command::new(binaries::path("leasehold"));
    command
        .args(["--endpoint", endpoint, "run", "--ttl", "10s", "job"])
        .args(["--", "sh", "-c", ticking])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut job = ChildProcess::spawn("leasehold run", command);
    let lines = job.take_lines();
    (job, lines)
}

/// Returns the number that was printed last; all before it must have been printed in turn.
fn last_tick(ticks: &mut Lines) -> u64 {
    let mut last = 1;
    for line in ticks.ready() {
        assert_eq!(line, format!("tick {}", last + 1));
        last += 1;
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_is_not_back_in_time_loses_each_lock_at_its_deadline() {
    let _alone = alone().await;
    let mut site = Site::draining_for(1, Duration::from_millis(200));
    let builder = Client::builder().ttl(Duration::from_secs(4));
    let client = builder.connect(site.endpoint(0)).await.unwrap();
    let held = client.lock("held").await.unwrap();
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.lock("held").await });
    let gone = site.stop(0).await;
    let left = held.valid_for();
    assert!(held.is_held(), "it is held on, with {left:?} left");
    let reason = tokio::time::timeout(PATIENCE, held.lost()).await.unwrap();
    assert_eq!(reason, LostReason::Expired);
    assert!(!held.is_held());
    assert!(gone.elapsed() >= left, "lost before its deadline");
    // Whoever waits goes on waiting, and is granted what nobody holds any more.
    site.start_again(0);
    let next = tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    let next = next.unwrap().unwrap();
    assert!(next.fencing_token() > held.fencing_token());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_the_places_of_its_waiters() {
    let _alone = alone().await;
    let mut site = Site::draining_for(1, Duration::from_millis(200));
    let clients = clients(&Client::builder().ttl(TTL), &site.endpoint(0), 6).await;
    let held = clients[0].lock("queue").await.unwrap();
    let (granted, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate().skip(1) {
        let granted = granted.clone();
        waiting.spawn(async move {
            let guard = client.lock("queue").await.unwrap();
            granted.send(number).unwrap();
            guard.release().await.unwrap();
        });
        site.until_waiting("queue", number).await;
    }
    let queue = site.queue("queue").await;
    site.stop(0).await;
    assert_eq!(site.queue("queue").await, queue, "no place was given up");
    site.start_again(0);
    assert!(held.is_held());
    held.release().await.unwrap();
    while let Some(ended) = waiting.join_next().await {
        ended.unwrap();
    }
    drop(granted);
    let mut seen = Vec::new();
    while let Some(number) = order.recv().await {
        seen.push(number);
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}
