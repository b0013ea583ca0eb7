//! `bench`: early ends, counts, and the contents of its output streams.

use std::{collections::BTreeSet, io::Read, process::Stdio};

use leasehold_client::{Client, LockView};
use leasehold_tests::{ChildProcess, Coordinator, wait};
use rustix::process::Signal;
use serde_json::Value;

use super::{LIMIT, leasehold, output, served};

fn start(endpoint: &str, options: &str) -> ChildProcess {
    let args: Vec<_> = ["bench"].into_iter().chain(options.split(' ')).collect();
    let mut command = leasehold(endpoint, &args);
    command.stdout(Stdio::piped());
    ChildProcess::spawn("leasehold bench", command)
}

/// Ends it, and returns its exit code and all that it printed.
async fn interrupt(mut bench: ChildProcess, signal: Signal) -> (Option<i32>, String) {
    let mut printed = String::new();
    let mut out = bench.take_stdout();
    bench.signal(signal);
    let code = bench.wait(LIMIT).await.code();
    out.read_to_string(&mut printed).unwrap();
    (code, printed)
}

/// Returns what a count or a duration says.
fn number(text: &Value) -> f64 {
    let text = text.as_str().unwrap();
    text.trim_end_matches('s').parse().unwrap()
}

/// Waits for a lock to be as `wanted`.
async fn lock(client: &Client, name: &str, wanted: impl Fn(&LockView) -> bool) -> LockView {
    let admin = client.admin();
    wait::until("the lock to be as wanted", LIMIT, || async {
        let view = admin.get_lock(name).await.unwrap();
        if wanted(&view) { Ok(view) } else { Err(view) }
    })
    .await
}

/// Waits until a lock has been granted many times.
async fn many_grants(client: &Client, name: &str) {
    let mut before = None;
    for _ in 0..10 {
        before = lock(client, name, |view| view.fencing_token > before)
            .await
            .fencing_token;
    }
}

#[tokio::test]
async fn an_interrupted_run_prints_what_it_measured() {
    let (_coordinator, endpoint, client) = served().await;
    let bench = start(
        &endpoint,
        "--names t/ --clients 2 --warm-up 0 --duration 1h",
    );
    many_grants(&client, "t/0/0").await;
    let (code, printed) = interrupt(bench, Signal::INT).await;
    assert_eq!(code, Some(130));
    assert!(printed.starts_with("INTERRUPTED"), "{printed}");
    assert!(printed.contains("\nacquire "), "{printed}");

    let bench = start(
        &endpoint,
        "--names u/ --clients 2 --warm-up 0 --duration 1h --json",
    );
    many_grants(&client, "u/1/0").await;
    let (code, printed) = interrupt(bench, Signal::TERM).await;
    assert_eq!(code, Some(143));
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["interrupted"], true);
    assert!(number(&json["cycles"]) >= 5.0, "{json}");
    let measured = number(&json["measured"]);
    assert!(measured > 0.0 && measured < 3_600.0, "{json}");
    assert_eq!(client.admin().list_locks("").await.unwrap(), []);
}

#[tokio::test]
async fn an_interrupted_run_gives_back_its_places_in_the_queue() {
    let (_coordinator, endpoint, client) = served().await;
    // Held here: whether a holder of the bench had heard of its grant when it was interrupted could not be told.
    let held = client.lock("t/contended").await.unwrap();
    let options = "--names t/ --contended --clients 3 --warm-up 0 --hold 1h --duration 1h --json";
    let bench = start(&endpoint, options);
    lock(&client, "t/contended", |view| view.waiter_count == 3).await;
    let (code, printed) = interrupt(bench, Signal::INT).await;
    assert_eq!(code, Some(130));
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["cycles"], "0");
    assert_eq!(json["unfinishedAcquires"], "3");
    assert!(number(&json["longestUnfinishedAcquire"]) > 0.0);
    assert_eq!(json["acquireP99"], Value::Null);
    let view = client.admin().get_lock("t/contended").await.unwrap();
    assert_eq!((view.holders.len(), view.waiter_count), (1, 0));
    assert!(held.is_held());
}

#[tokio::test]
async fn a_lock_that_is_lost_is_counted_and_the_run_goes_on() {
    let (_coordinator, endpoint, client) = served().await;
    let options = "--names t/ --clients 1 --warm-up 0 --hold 1h --duration 1h --json";
    let bench = start(&endpoint, options);
    let held = lock(&client, "t/0/0", |view| !view.holders.is_empty()).await;
    client.admin().force_release("t/0/0").await.unwrap();
    lock(&client, "t/0/0", |view| {
        !view.holders.is_empty() && view.fencing_token > held.fencing_token
    })
    .await;
    let (_, printed) = interrupt(bench, Signal::INT).await;
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["lostLocks"], "1");
    assert_eq!(json["lostLocksByReason"]["forced"], "1");
    assert_eq!(json["violation"], Value::Null);
}

#[test]
fn nothing_is_said_besides_the_summary_where_there_is_no_terminal() {
    let coordinator = Coordinator::in_process();
    let args = ["bench", "--clients", "2", "--duration", "1s"];
    let ran = output(&coordinator.endpoint(), &args);
    ran.ended(0);
    assert_eq!(ran.err, "");
    let text = ran.out;
    assert!(text.starts_with("coordinator "), "{text}");
    assert!(text.contains("names         bench/"), "{text}");
    assert!(text.contains("\nno errors\nno lost locks\n"), "{text}");
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_there() {
    let coordinator = Coordinator::in_process();
    let args = ["bench", "--clients", "1", "--duration", "1s", "--json"];
    let ran = output(&coordinator.endpoint(), &args);
    let json = ran.json();
    let fields: BTreeSet<_> = json.as_object().unwrap().keys().cloned().collect();
    let page = include_str!("../../../../docs/bench.md");
    let table = page.split("| field | meaning |").nth(1).unwrap();
    let documented = table
        .lines()
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(ToOwned::to_owned);
    assert_eq!(documented.collect::<BTreeSet<_>>(), fields);
}
