//! `ls`, `get`, `release` and `status`.

use leasehold_client::Client;
use leasehold_tests::Coordinator;
use serde_json::Value;

use super::{output, stderr, stdout};

fn json(endpoint: &str, args: &[&str]) -> Value {
    let output = output(endpoint, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn locks_are_listed_by_prefix_and_shown_with_their_waiters() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let holder = Client::builder().client_name("holder\u{e9}");
    let holder = holder.connect(&endpoint).await.unwrap();
    let request = holder.lock("orders/1").value(b"step \xff\x1b[2J".to_vec());
    let guard = request.acquire().await.unwrap();
    let _other = holder.lock("users/1").acquire().await.unwrap();
    let waiter = Client::builder().client_name("waiter");
    let waiter = waiter.connect(&endpoint).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("orders/1").acquire());
    let admin = holder.admin();
    while admin.get_lock("orders/1").await.unwrap().waiter_count == 0 {
        tokio::task::yield_now().await;
    }

    let table = stdout(&output(&endpoint, &["ls", "orders/"]));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].starts_with("NAME      HOLDER   TOKEN"), "{table}");
    assert!(lines[1].starts_with("orders/1  holder\u{e9}  "), "{table}");
    assert!(lines[1].ends_with(" 1"), "{table}");

    let text = stdout(&output(&endpoint, &["get", "orders/1"]));
    assert!(text.contains(r"step \xff\u{1b}[2J"), "{text}");
    assert!(text.contains("1  waiter"), "{text}");

    let list = json(&endpoint, &["ls"]);
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(list[0]["name"], "orders/1");
    let lock = json(&endpoint, &["get", "orders/1"]);
    assert_eq!(lock["fencingToken"], guard.fencing_token().get());
    assert_eq!(lock["holders"][0]["clientName"], "holder\u{e9}");
    assert_eq!(lock["waiters"][0]["clientName"], "waiter");
    assert_eq!(lock["waiterCount"], 1);

    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lock_is_only_taken_by_force() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let guard = client.lock("orders/1").acquire().await.unwrap();

    let refused = output(&endpoint, &["release", "orders/1"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(stderr(&refused).contains("--force"));
    assert!(guard.is_held());

    let answer = json(&endpoint, &["release", "orders/1", "--force"]);
    assert_eq!(answer["released"], true);
    assert!(answer["fencingToken"].as_i64().unwrap() > guard.fencing_token().get());
    guard.lost().await;

    let answer = output(&endpoint, &["release", "orders/1", "--force"]);
    assert_eq!(stdout(&answer), "it was free; nothing was released\n");
}

#[tokio::test]
async fn the_status_counts_what_there_is() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let _guard = client.lock("orders/1").acquire().await.unwrap();
    let status = json(&endpoint, &["status"]);
    assert_eq!(status["serving"], true);
    assert_eq!(status["sessions"], 1);
    assert_eq!(status["locksHeld"], 1);
    let text = stdout(&output(&endpoint, &["status"]));
    assert!(text.contains("leasehold.v1.LockService"), "{text}");
}

#[test]
fn a_name_that_is_wrong_is_a_usage_error() {
    let coordinator = Coordinator::in_process();
    let long = "x".repeat(513);
    let refused = output(&coordinator.endpoint(), &["get", &long]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(stderr(&refused).contains("INVALID_FIELD"));
}

#[test]
fn many_locks_take_many_pages() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_client, _guards) = runtime.block_on(async {
        let client = Client::connect(&endpoint).await.unwrap();
        let mut guards = Vec::new();
        for number in 0..2_500 {
            guards.push(
                client
                    .lock(format!("many/{number}"))
                    .acquire()
                    .await
                    .unwrap(),
            );
        }
        (client, guards)
    });
    let list = json(&endpoint, &["ls", "many/"]);
    assert_eq!(list.as_array().unwrap().len(), 2_500);
}
