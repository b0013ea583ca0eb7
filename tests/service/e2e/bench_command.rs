//! `leasehold bench`: its counts add up, and a violation ends it.

use std::{
    fs::File,
    io::Read,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use leasehold_client::Client;
use leasehold_tests::{ChildProcess, Coordinator, RedisServer, binaries, wait};
use redis::AsyncCommands;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

fn start(endpoint: &str, options: &str) -> ChildProcess {
    start_with(endpoint, options, Stdio::inherit())
}

fn start_with(endpoint: &str, options: &str, stderr: Stdio) -> ChildProcess {
    let mut command = Command::new(binaries::path("leasehold"));
    command
        .args(["--endpoint", endpoint, "bench", "--json"])
        .args(options.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr);
    ChildProcess::spawn("leasehold bench", command)
}

/// Waits for the end of the command, and returns its exit status and its JSON.
async fn end(mut bench: ChildProcess) -> (ExitStatus, Value) {
    let mut printed = String::new();
    let mut out = bench.take_stdout();
    let status = bench.wait(LIMIT).await;
    out.read_to_string(&mut printed).unwrap();
    let json = serde_json::from_str(&printed);
    (
        status,
        json.unwrap_or_else(|_| panic!("{status}: {printed}")),
    )
}

/// Returns what a number, a count or a duration says, in seconds.
fn number(json: &Value, field: &str) -> f64 {
    let number = match &json[field] {
        Value::String(text) => text.trim_end_matches('s').parse().ok(),
        other => other.as_f64(),
    };
    number.unwrap_or_else(|| panic!("no number {field} in {json}"))
}

#[tokio::test]
async fn two_holders_of_one_lock_end_the_run() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    // The holder does not hear of it while it holds: the TTL's third is longer.
    let options = "--contended --clients 2 --names t/ --ttl 10m --hold 1m --duration 1m";
    let directory = tempfile::tempdir().unwrap();
    let complaints = directory.path().join("stderr");
    let stderr = File::create(&complaints).unwrap().into();
    let bench = start_with(&coordinator.endpoint(), options, stderr);
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    wait::until("one to hold and one to wait", LIMIT, || async {
        let view = client.admin().get_lock("t/contended").await.unwrap();
        if view.waiter_count == 1 && !view.holders.is_empty() {
            Ok(())
        } else {
            Err(view)
        }
    })
    .await;
    // What somebody else's code does: delete the key, and the waiter gets the lock.
    let mut redis = redis.async_connection().await;
    let deleted: u64 = redis.del("lock:t/contended").await.unwrap();
    assert_eq!(deleted, 1);
    let (status, json) = end(bench).await;
    let complaint = std::fs::read_to_string(&complaints).unwrap();
    assert_eq!(status.code(), Some(76), "{complaint}");
    let told: Value = serde_json::from_str(&complaint).unwrap();
    let message = told["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("exclusion was violated: lock \"t/contended\""),
        "{complaint}"
    );
    assert_eq!(json["violation"], message);
}

#[tokio::test]
async fn a_coordinator_that_goes_away_leaves_acquires_unfinished() {
    let mut coordinator = Coordinator::process().start();
    let options = "--clients 2 --names t/ --warm-up 0 --duration 4s";
    let bench = start(&coordinator.endpoint(), options);
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    // Granted anew, so that the cycle before was completed.
    let mut before = None;
    for _ in 0..3 {
        before = wait::until("another grant", LIMIT, || async {
            let view = client.admin().get_lock("t/0/0").await.unwrap();
            if view.fencing_token > before {
                Ok(view.fencing_token)
            } else {
                Err(view)
            }
        })
        .await;
    }
    coordinator.kill();
    let (status, json) = end(bench).await;
    assert_eq!(status.code(), Some(0), "{json}");
    assert!(number(&json, "cycles") > 0.0);
    assert_eq!(number(&json, "unfinishedAcquires"), 2.0, "{json}");
    let longest = number(&json, "longestUnfinishedAcquire");
    assert!(longest > number(&json, "acquireMax"), "{json}");
    assert_eq!(json["measured"], "4s");
}
