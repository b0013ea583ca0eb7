//! `wait` and `check-token`, and the pages of `ls`.

use leasehold_client::Client;
use leasehold_tests::{Coordinator, RedisServer};
use serde_json::Value;

use super::{LIMIT, inspect::json, output, spawn_merged, stderr, stdout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_when_the_lock_is_free_or_held() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::in_process_with(["--store", &redis.url()]);
    coordinator.ready().await;
    let endpoint = coordinator.endpoint();
    assert_eq!(stdout(&output(&endpoint, &["wait", "a"])), "a is free\n");
    let client = Client::connect(&endpoint).await.unwrap();
    // Another name with this one as its prefix is another lock.
    let _longer = client.lock("ab").await.unwrap();
    assert_eq!(json(&endpoint, &["wait", "a"])["held"], false);

    let late = output(&endpoint, &["wait", "a", "--held", "--timeout", "100ms"]);
    assert_eq!(late.status.code(), Some(75));
    let told = "leasehold: lock \"a\" is still free after 100ms\n";
    assert_eq!(stderr(&late), told);

    let (mut waiting, mut lines) = spawn_merged(&endpoint, &["wait", "a", "--held"]);
    let guard = client.lock("a").await.unwrap();
    lines.expect("a is held", LIMIT).await;
    assert!(waiting.wait(LIMIT).await.success());

    let late = output(&endpoint, &["wait", "a", "--timeout", "100ms", "--json"]);
    assert_eq!(late.status.code(), Some(75));
    let error: Value = serde_json::from_slice(&late.stderr).unwrap();
    assert_eq!(error["error"]["code"], "DEADLINE_EXCEEDED");

    let (mut waiting, mut lines) = spawn_merged(&endpoint, &["wait", "a"]);
    guard.release().await.unwrap();
    lines.expect("a is free", LIMIT).await;
    assert!(waiting.wait(LIMIT).await.success());

    let unreachable = output("http://127.0.0.1:1", &["wait", "a"]);
    assert_eq!(unreachable.status.code(), Some(69));
}

#[tokio::test]
async fn a_token_is_current_until_the_next_grant() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let old = guard.fencing_token().to_string();
    let check = |token: &str| output(&endpoint, &["check-token", "a", token]);
    let current = check(&old);
    assert_eq!(current.status.code(), Some(0), "{}", stderr(&current));
    guard.release().await.unwrap();
    let newer = client.lock("a").await.unwrap().fencing_token();
    let outdated = check(&old);
    assert_eq!(outdated.status.code(), Some(5));
    let told = format!("not current: the newest token is {newer}\n");
    assert_eq!(stdout(&outdated), told);
    let unknown = output(&endpoint, &["check-token", "b", "1", "--json"]);
    assert_eq!(unknown.status.code(), Some(5));
    let answer: Value = serde_json::from_slice(&unknown.stdout).unwrap();
    assert_eq!(
        (&answer["current"], &answer["newestToken"]),
        (&false.into(), &"0".into())
    );
    assert_eq!(check("0").status.code(), Some(64));
}

#[tokio::test]
async fn pages_of_locks_follow_one_another() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..25 {
        guards.push(client.lock(format!("many/{number}")).await.unwrap());
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let page = json(
            &endpoint,
            &["ls", "many/", "--page-size", "10", "--page-token", &token],
        );
        let locks = page["locks"].as_array().unwrap();
        names.extend(locks.iter().map(|lock| lock["name"].to_string()));
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert!(!token.is_empty());
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 25);
    let first = output(&endpoint, &["ls", "--page-size", "10"]);
    assert_eq!(stdout(&first).lines().count(), 11);
    assert!(
        stderr(&first).contains("--page-token "),
        "{}",
        stderr(&first)
    );
    for size in ["0", "1001", "x"] {
        let refused = output(&endpoint, &["ls", "--page-size", size]);
        assert_eq!(refused.status.code(), Some(64));
    }
}
