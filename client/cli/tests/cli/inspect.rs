//! `ls`, `get` and `release`.

use leasehold_client::{AcquireError, Client, LostReason};
use leasehold_tests::wait;

use super::{LIMIT, json, output, served, started, until_waiters};

#[tokio::test]
async fn locks_are_listed_by_prefix_and_shown_with_their_waiters() {
    let (_coordinator, endpoint) = started();
    let holder = Client::builder().client_name("holder\u{e9}");
    let holder = holder.connect(&endpoint).await.unwrap();
    let request = holder.lock("orders/1").value(b"step \xff\x1b[2J".to_vec());
    let guard = request.await.unwrap();
    let _other = holder.lock("users/1").await.unwrap();
    let waiter = Client::builder().client_name("waiter");
    let waiter = waiter.connect(&endpoint).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("orders/1").into_future());
    until_waiters(&holder, "orders/1", 1).await;

    let table = output(&endpoint, &["ls", "orders/"]).out;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(
        lines[0].starts_with("NAME      MODE       HOLDER   TOKEN"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("orders/1  exclusive  holder\u{e9}  "),
        "{table}"
    );
    assert!(lines[1].ends_with(" 1"), "{table}");

    let text = output(&endpoint, &["get", "orders/1"]).out;
    assert!(text.contains(r"step \xff\u{1b}[2J"), "{text}");
    assert!(text.contains("1  waiter  exclusive  "), "{text}");

    let list = json(&endpoint, &["ls"]);
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(list[0]["name"], "orders/1");
    let lock = json(&endpoint, &["get", "orders/1"]);
    assert_eq!(lock["fencingToken"], guard.fencing_token().to_string());
    assert_eq!(lock["holders"][0]["clientName"], "holder\u{e9}");
    assert_eq!(lock["waiters"][0]["clientName"], "waiter");
    assert_eq!(lock["waiterCount"], "1");

    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_only_taken_by_force() {
    let (_coordinator, endpoint, client) = served().await;
    let guard = client.lock("orders/1").await.unwrap();

    output(&endpoint, &["release", "orders/1"])
        .ended(64)
        .says(&["--force"]);
    assert!(guard.is_held());

    let answer = json(&endpoint, &["release", "orders/1", "--force"]);
    assert_eq!(answer["released"], true);
    let token: i64 = answer["fencingToken"].as_str().unwrap().parse().unwrap();
    assert!(token > guard.fencing_token().get());
    guard.lost().await;

    let answer = output(&endpoint, &["release", "orders/1", "--force"]);
    assert_eq!(answer.ended(7).out, "it was free; nothing was released\n");
}

#[tokio::test]
async fn one_hold_or_wait_is_ended_by_what_get_shows_of_it() {
    let (_coordinator, endpoint, client) = served().await;
    let one = client.lock("docs").shared().await.unwrap();
    let other = client.lock("docs").shared().await.unwrap();
    let waiter = Client::connect(&endpoint).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("docs").into_future());
    until_waiters(&client, "docs", 1).await;

    let lock = json(&endpoint, &["get", "docs"]);
    let number = lock["waiters"][0]["number"].as_str().unwrap();
    let text = output(&endpoint, &["get", "docs"]).out;
    assert!(text.contains("NUMBER") && text.contains(number), "{text}");
    let answer = output(&endpoint, &["release", "docs", "--waiter", number]);
    assert_eq!(
        answer.out,
        format!("the wait of waiter {number} was ended\n")
    );
    let error = waiting.await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::ForceReleased { .. }),
        "{error}"
    );
    let answer = output(&endpoint, &["release", "docs", "--waiter", number]);
    assert_eq!(
        answer.ended(7).out,
        format!("no waiter has the number {number}; nothing was ended\n")
    );

    let token = one.fencing_token().to_string();
    let answer = json(&endpoint, &["release", "docs", "--holder", &token]);
    assert_eq!(answer["released"], true);
    assert_eq!(
        answer["fencingToken"],
        other.fencing_token().to_string(),
        "the other one's is the newest"
    );
    assert_eq!(one.lost().await, LostReason::Forced);
    assert!(other.is_held());
    let answer = output(&endpoint, &["release", "docs", "--holder", &token]);
    assert_eq!(
        answer.ended(7).out,
        format!("no holder has the token {token}; nothing was released\n")
    );
    for args in [
        &["--holder", "0"][..],
        &["--waiter", "0"],
        &["--holder", "7", "--force"],
        &["--holder", "7", "--waiter", "8"],
    ] {
        output(&endpoint, &[&["release", "docs"][..], args].concat()).ended(64);
    }
    assert!(other.is_held());
}

#[test]
fn many_locks_take_many_pages() {
    let (_coordinator, endpoint) = started();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_client, _guards) = runtime.block_on(async {
        let client = Client::connect(&endpoint).await.unwrap();
        let mut guards = Vec::new();
        for number in 0..1_100 {
            guards.push(client.lock(format!("many/{number}")).await.unwrap());
        }
        (client, guards)
    });
    let list = json(&endpoint, &["ls", "many/"]);
    assert_eq!(list.as_array().unwrap().len(), 1_100);
}

#[tokio::test]
async fn a_lock_closed_by_an_unclean_end_is_shown() {
    let (_coordinator, endpoint, client) = served().await;
    let _stays = client.semaphore("gpu", 3).permits(1).await.unwrap();
    for options in [&["gpu", "--semaphore", "3"][..], &["alone"]] {
        let closing = ["--lock-delay", "5m", "--", "sh", "-c", "kill -9 $PPID"];
        output(&endpoint, &[&["run"], options, &closing].concat());
    }
    for (name, wanted) in [
        ("alone", "state         closed for 4m 5"),
        ("gpu", "closed        the permits of lost holds, for 4m 5"),
        ("gpu", "state         2 of 3 permits taken\n"),
        ("gpu", "holders       1\n"),
    ] {
        wait::until_blocking("the end to be shown", LIMIT, || {
            let text = output(&endpoint, &["get", name]).out;
            if text.contains(wanted) {
                Ok(())
            } else {
                Err(text)
            }
        });
    }
    let locks = json(&endpoint, &["ls"]);
    assert_eq!(locks[1]["permitsTaken"], 2);
    assert!(locks[1]["closedFor"].is_string(), "{locks}");
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let (_coordinator, endpoint) = started();
    assert_eq!(output(&endpoint, &["sessions"]).out, "no sessions\n");
    let client = Client::builder().client_name("worker");
    let client = client.connect(&endpoint).await.unwrap();
    let guard = client.lock("orders/1").await.unwrap();
    let listed = json(&endpoint, &["sessions"]);
    assert_eq!(listed[0]["clientName"], "worker");
    assert_eq!(listed[0]["holdCount"], 1);
    let id = listed[0]["sessionId"].as_str().unwrap();
    let table = output(&endpoint, &["sessions"]).out;
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("SESSION "), "{table}");
    assert!(
        lines[1].starts_with(&format!("{id}  worker  127.0.0.1:")),
        "{table}"
    );

    for mistake in [
        &["sessions", "end"][..],
        &["sessions", id],
        &["sessions", "end", "x"],
    ] {
        output(&endpoint, mistake).ended(64);
    }
    let ended = output(&endpoint, &["sessions", "end", id]).out;
    assert_eq!(ended, "ended the session: 1 held, 0 waiting\n");
    let lost = guard.lost().await;
    assert_eq!(lost, LostReason::Forced);
    let ended = output(&endpoint, &["sessions", "end", id, "--json"]);
    assert_eq!(ended.ended(7).json()["ended"], false);
    let ended = output(&endpoint, &["sessions", "end", id]);
    assert_eq!(
        ended.ended(7).out,
        "there is no such session; nothing was ended\n"
    );
    // The client goes on with another one.
    drop(client.lock("orders/1").await.unwrap());
    let listed = json(&endpoint, &["sessions"]);
    assert_ne!(listed[0]["sessionId"], id);
}
