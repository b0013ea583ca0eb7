//! `run` while it waits: its messages, and `--wait` as the bound of the whole wait.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use leasehold_client::Client;
use leasehold_tests::{Coordinator, RedisServer, ports::free_port};

use super::{LIMIT, output, served, spawn_merged, started, until_waiters};

#[tokio::test]
async fn a_wait_says_who_holds_the_lock_and_what_changes() {
    let (_coordinator, endpoint) = started();
    let connect = |name: &str| {
        let builder = Client::builder().client_name(name);
        builder.connect(&endpoint)
    };
    let (holder, next) = (
        connect("holder").await.unwrap(),
        connect("next").await.unwrap(),
    );
    let held = holder.lock("a").await.unwrap();
    let waiting = tokio::spawn(next.lock("a").into_future());
    until_waiters(&holder, "a", 1).await;
    let args = ["run", "a", "--", "echo", "begun"];
    let (mut run, mut lines) = spawn_merged(&endpoint, &args);
    let (_, line) = lines.next(LIMIT).await.unwrap();
    assert_eq!(
        line,
        "leasehold: waiting for lock \"a\": held by holder, place 2 in the queue"
    );
    held.release().await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    let (_, line) = lines.next(LIMIT).await.unwrap();
    let still = "leasehold: still waiting for lock \"a\": held by next, place 1 in the queue, ";
    assert!(
        line.starts_with(still) && line.ends_with(" so far"),
        "{line}"
    );
    held.release().await.unwrap();
    let (_, line) = lines.next(LIMIT).await.unwrap();
    assert_eq!(line, "begun");
    assert!(lines.next(LIMIT).await.is_none());
    assert!(run.wait(LIMIT).await.success());
}

#[tokio::test]
async fn a_quiet_wait_says_nothing() {
    let (_coordinator, endpoint, client) = served().await;
    let _held = client.lock("a").await.unwrap();
    let ran = output(
        &endpoint,
        &["run", "a", "--wait", "2s", "--quiet", "--", "true"],
    );
    ran.ended(75);
    assert_eq!(ran.err, "");
}

#[tokio::test]
async fn a_busy_lock_has_the_wanted_code_and_is_not_reported_if_quiet() {
    let (_coordinator, endpoint, client) = served().await;
    let held = client.lock("a").await.unwrap();
    let busy = |options: &[&str]| {
        let args = [&["run", "a"], options, &["--", "echo", "ran"]].concat();
        let ran = output(&endpoint, &args);
        assert_eq!(ran.out, "");
        (ran.code, ran.err.contains("lock \"a\""))
    };
    assert_eq!(busy(&["--wait", "0", "--busy-exit", "0"]), (Some(0), true));
    assert_eq!(busy(&["--wait", "0", "--quiet"]), (Some(75), false));
    // The wait covers the connection as well: the longer one has to be longer than that may take.
    for wait in ["0", "3s"] {
        let quiet = ["--wait", wait, "--busy-exit", "3", "--quiet"];
        assert_eq!(busy(&quiet), (Some(3), false));
    }
    held.release().await.unwrap();
    let options = ["run", "a", "--busy-exit", "3", "--", "sh", "-c", "exit 7"];
    output(&endpoint, &options).ended(7);
}

#[test]
fn only_a_busy_lock_has_the_code_for_busy_ones() {
    let options = ["--wait", "0", "--busy-exit", "0", "--quiet"];
    let args = [&["run", "a"], &options[..], &["--", "true"]].concat();
    output("http://127.0.0.1:1", &args)
        .ended(69)
        .says(&["127.0.0.1:1"]);
    let (_coordinator, endpoint) = started();
    let args = [&["run", "a\n"], &options[..], &["--", "true"]].concat();
    output(&endpoint, &args).ended(64).says(&["INVALID_FIELD"]);
}

#[tokio::test]
async fn a_wait_says_when_its_coordinator_goes_away_and_when_there_is_one_again() {
    let redis = RedisServer::start();
    let start = || Coordinator::process().store(redis.url()).start();
    let (first, second) = (start(), start());
    let client = Client::connect(second.endpoint()).await.unwrap();
    let held = client.lock("a").await.unwrap();
    // The other one is not there yet.
    let endpoints = format!("{},http://127.0.0.1:1", first.endpoint());
    let (mut run, mut lines) = spawn_merged(&endpoints, &["run", "a", "--", "echo", "begun"]);
    lines
        .expect("leasehold: waiting for lock \"a\": held by", LIMIT)
        .await;
    first.terminate();
    let (_, line) = lines.expect("leasehold: coordinator ", LIMIT).await;
    assert!(line.contains("is shutting down"), "{line}");
    lines
        .expect("leasehold: lost the connection to coordinator ", LIMIT)
        .await;
    run.terminate();
    assert_eq!(run.wait(LIMIT).await.code(), Some(143));
    held.release().await.unwrap();
}

#[test]
fn a_wait_goes_on_while_the_store_is_out_of_reach_and_ends_in_time() {
    let redis = RedisServer::start();
    let store = redis.url();
    drop(redis);
    let coordinator = Coordinator::in_process_with(["--store", &store]);
    let wait = Duration::from_secs(2);
    let begun = Instant::now();
    let ran = output(
        &coordinator.endpoint(),
        &["run", "a", "--wait", "2s", "--", "true"],
    );
    let told = ran.err;
    assert_eq!(ran.code, Some(69), "{told}");
    assert!(begun.elapsed() >= wait, "{:?}: {told}", begun.elapsed());
    assert!(
        told.contains("STORE_UNAVAILABLE") && told.contains("retrying until a coordinator serves"),
        "{told}"
    );
    assert!(told.contains("gave up after 2s"), "{told}");
}

#[test]
fn a_wait_bounds_the_attempt_to_connect() {
    // The kernel accepts, and nobody ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let ran = output(&endpoint, &["run", "a", "--wait", "1s", "--", "true"]);
    let told = ran.err;
    assert_eq!(ran.code, Some(69), "{told}");
    assert!(
        told.contains(&endpoint) && told.contains("within 1s"),
        "{told}"
    );
}

#[tokio::test]
async fn a_coordinator_that_stops_answering_does_not_hold_up_the_end_of_the_wait() {
    let coordinator = Coordinator::process().start();
    let endpoint = coordinator.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let _held = client.lock("a").await.unwrap();
    let args = ["run", "a", "--wait", "3s", "--", "true"];
    let (mut run, mut lines) = spawn_merged(&endpoint, &args);
    lines
        .expect("leasehold: waiting for lock \"a\": held by", LIMIT)
        .await;
    coordinator.stop();
    let (_, line) = lines.expect("leasehold: the coordinator", LIMIT).await;
    assert!(
        line.contains(&endpoint) && line.contains("did not answer within 3s"),
        "{line}"
    );
    assert_eq!(run.wait(LIMIT).await.code(), Some(69));
    coordinator.cont();
}

#[tokio::test]
async fn a_wait_goes_on_until_there_is_a_coordinator() {
    let address = format!("127.0.0.1:{}", free_port());
    let args = ["run", "a", "--wait", "1m", "--", "echo", "begun"];
    let (mut run, mut lines) = spawn_merged(&address, &args);
    let (_, line) = lines.expect("leasehold: ", LIMIT).await;
    assert!(
        line.contains("connection refused") && line.contains("retrying until a coordinator serves"),
        "{line}"
    );
    let _coordinator = Coordinator::process()
        .arguments(["--listen", &address])
        .start();
    lines.expect("leasehold: connected again", LIMIT).await;
    lines.expect("begun", LIMIT).await;
    assert!(run.wait(LIMIT).await.success());
}
