//! `run`: ends the command before another client can hold the lock.

use std::time::{Duration, Instant};

use leasehold_client::{Client, LockGuard};
use leasehold_tests::{Coordinator, FaultProxy, process::Lines, proxy::Cut};
use tokio::{task::JoinHandle, time::timeout};

use super::{LIMIT, served, spawn_merged, start, started};

/// Says `ready`, then `term` at every TERM and `alive` all the time, and does not end by itself. Between TERM and KILL it needs the
/// processor once: on a busy machine a second or more may pass until then, so that leases and bounds here are long.
const STUBBORN: &str =
    "trap 'echo term' TERM; echo ready; while :; do echo alive; sleep 0.005; done";

/// Returns what the command says until the last process of its group has ended, and when it said the last of it. Panics
/// if a process of the group outlives [`LIMIT`]: the command was not stopped, and would go on for ever.
async fn rest(mut lines: Lines) -> (Vec<String>, Instant) {
    let read = async {
        let (mut said, mut last) = (Vec::new(), Instant::now());
        while let Some((at, line)) = lines.next(LIMIT).await {
            last = at;
            said.push(line);
        }
        (said, last)
    };
    let ended = timeout(LIMIT, read).await;
    ended.unwrap_or_else(|_| panic!("the command still runs after {LIMIT:?}"))
}

/// Acquires the lock that the command holds, and tells when that was granted.
fn next_holder(client: &Client) -> JoinHandle<(Instant, LockGuard)> {
    let request = client.lock("a");
    tokio::spawn(async move {
        let guard = request.await.unwrap();
        (Instant::now(), guard)
    })
}

fn has(said: &[String], word: &str) -> bool {
    said.iter().any(|line| line == word)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_force_release_kills_at_once() {
    let (_coordinator, endpoint, client) = served().await;
    let (mut run, mut lines) = start(&endpoint, "a", &[], STUBBORN);
    lines.expect("ready", LIMIT).await;
    client.admin().force_release("a").await.unwrap();
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
    assert!(!has(&rest(lines).await.0, "term"));
}

/// The command is asked to end ahead of the bound, and is gone before it, although the coordinator is well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_terminates_and_then_kills_before_the_next_grant() {
    let (_coordinator, endpoint, client) = served().await;
    let options = ["--max-hold", "15s", "--ttl", "3s", "--lock-delay", "0s"];
    let begun = Instant::now();
    let (mut run, mut lines) = start(&endpoint, "a", &options, STUBBORN);
    lines.expect("ready", LIMIT).await;
    let next = next_holder(&client);
    let (said, last) = rest(lines).await;
    let (granted, _guard) = timeout(LIMIT, next).await.unwrap().unwrap();
    assert!(has(&said, "term"));
    assert!(last < granted);
    // Longer than without renewals.
    assert!(granted - begun > Duration::from_secs(3));
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
}

/// A bound that is shorter than the TTL leaves the command nearly all of its time too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_bound_is_the_time_that_it_says() {
    let (_coordinator, endpoint) = started();
    let script = format!("exec 2>&1; {STUBBORN}");
    let args = ["run", "a", "--max-hold", "2s", "--", "sh", "-c", &script];
    let begun = Instant::now();
    let (mut run, mut lines) = spawn_merged(&endpoint, &args);
    lines.expect("ready", LIMIT).await;
    let (asked, said) = lines.expect("leasehold:", LIMIT).await;
    assert!(
        said.contains("lock \"a\" will soon have been held for as long as it may be"),
        "{said}"
    );
    // From before the grant on: at least the bound, less 1 % and the 200 ms to end in.
    assert!(asked - begun > Duration::from_millis(1_750));
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_terminates_and_then_kills_before_the_next_grant() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let options = ["--ttl", "9s", "--lock-delay", "0s"];
    let (mut run, mut lines) = start(&proxy.endpoint(), "a", &options, STUBBORN);
    lines.expect("ready", LIMIT).await;
    let next = next_holder(&client);
    proxy.black_hole();
    let (said, last) = rest(lines).await;
    let (granted, _guard) = timeout(LIMIT, next).await.unwrap().unwrap();
    assert!(has(&said, "term"));
    assert!(last < granted, "the next one was granted before");
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_heeds_the_term_is_not_killed() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let script = "trap 'echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let (mut run, mut lines) = start(&proxy.endpoint(), "a", &["--lock-delay", "10s"], script);
    lines.expect("ready", LIMIT).await;
    proxy.cut(Cut::Rst).await;
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
    assert!(has(&rest(lines).await.0, "cleaned up"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_stopped_for_longer_than_its_lease_kills_when_it_goes_on() {
    let (_coordinator, endpoint, client) = served().await;
    let (mut run, mut lines) = start(&endpoint, "a", &["--ttl", "1s"], STUBBORN);
    lines.expect("ready", LIMIT).await;
    run.stop();
    // Granted when the lease of the stopped one, and its lock-delay, have run out.
    let (_, _guard) = timeout(LIMIT, next_holder(&client)).await.unwrap().unwrap();
    run.cont();
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
    assert!(!has(&rest(lines).await.0, "term"));
}
