//! `wait` and `check-token`, and the pages of `ls`.

use leasehold_client::Client;
use leasehold_tests::{Coordinator, RedisServer};
use serde_json::Value;

use super::{LIMIT, json, output, served, spawn_merged};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_when_the_lock_is_free_or_held() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::in_process_with(["--store", &redis.url()]);
    coordinator.ready().await;
    let endpoint = coordinator.endpoint();
    assert_eq!(output(&endpoint, &["wait", "a"]).out, "a is free\n");
    let client = Client::connect(&endpoint).await.unwrap();
    // Another name with this one as its prefix is another lock.
    let _longer = client.lock("ab").await.unwrap();
    assert_eq!(json(&endpoint, &["wait", "a"])["held"], false);

    let late = output(&endpoint, &["wait", "a", "--held", "--timeout", "100ms"]);
    late.ended(75);
    let told = "leasehold: lock \"a\" is still free after 100ms\n";
    assert_eq!(late.err, told);

    let (mut waiting, mut lines) = spawn_merged(&endpoint, &["wait", "a", "--held"]);
    let guard = client.lock("a").await.unwrap();
    lines.expect("a is held", LIMIT).await;
    assert!(waiting.wait(LIMIT).await.success());

    let late = output(&endpoint, &["wait", "a", "--timeout", "100ms", "--json"]);
    late.ended(75);
    let error: Value = serde_json::from_str(&late.err).unwrap();
    assert_eq!(error["error"]["code"], "DEADLINE_EXCEEDED");

    let (mut waiting, mut lines) = spawn_merged(&endpoint, &["wait", "a"]);
    guard.release().await.unwrap();
    lines.expect("a is free", LIMIT).await;
    assert!(waiting.wait(LIMIT).await.success());

    output("http://127.0.0.1:1", &["wait", "a"]).ended(69);
}

#[tokio::test]
async fn a_token_is_current_until_the_next_grant() {
    let (_coordinator, endpoint, client) = served().await;
    let guard = client.lock("a").await.unwrap();
    let old = guard.fencing_token().to_string();
    let check = |token: &str| output(&endpoint, &["check-token", "a", token]);
    let current = check(&old);
    current.ended(0);
    guard.release().await.unwrap();
    let newer = client.lock("a").await.unwrap().fencing_token();
    let outdated = check(&old);
    outdated.ended(5);
    let told = format!("not current: the newest token is {newer}\n");
    assert_eq!(outdated.out, told);
    let unknown = output(&endpoint, &["check-token", "b", "1", "--json"]);
    unknown.ended(5);
    let answer = unknown.json();
    assert_eq!(
        (&answer["current"], &answer["newestToken"]),
        (&false.into(), &"0".into())
    );
    assert_eq!(check("0").code, Some(64));
}

#[tokio::test]
async fn pages_of_locks_follow_one_another() {
    let (_coordinator, endpoint, client) = served().await;
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
    assert_eq!(first.out.lines().count(), 11);
    first.says(&["--page-token "]);
    for size in ["0", "1001", "x"] {
        output(&endpoint, &["ls", "--page-size", size]).ended(64);
    }
}
