//! `status`: a row for each coordinator, within its time, and an exit code that tells how many serve.

use std::{net::TcpListener, process::Command};

use leasehold_client::Client;
use leasehold_tests::{Coordinator, RedisServer, binaries, wait};
use serde_json::Value;

use super::{LIMIT, output, until_waiters};

/// Returns the rows, and the exit code.
fn status(endpoint: &str, options: &[&str]) -> (Vec<Value>, i32) {
    let output = output(endpoint, &[&["status", "--json"], options].concat());
    let rows = output.json()["coordinators"].as_array().unwrap().clone();
    (rows, output.code.unwrap())
}

/// Returns how the coordinator's configuration says that its name is shown, with a place for each character of its start.
fn shown_as(name: &str) -> String {
    let printed = Command::new(binaries::path("leasehold-server"))
        .args(["--print-config", "--name", name])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let line = printed.split("show it as ").nth(1).unwrap();
    line.split(':').next().unwrap().to_owned()
}

#[tokio::test]
async fn each_coordinator_has_a_row() {
    let redis = RedisServer::start();
    let store = redis.url();
    let coordinators = ["a", "b"].map(|name| {
        Coordinator::process()
            .store(&store)
            .arguments(["--name", name])
            .start()
    });
    let [one, other] = coordinators.each_ref().map(|one| one.endpoint());
    let client = Client::connect(&one).await.unwrap();
    let _guard = client.lock("orders/1").await.unwrap();
    let waiting = tokio::spawn(client.lock("orders/1").into_future());
    until_waiters(&client, "orders/1", 1).await;
    let both = format!("{one},{other}");
    let (rows, code) = status(&both, &[]);
    assert_eq!((rows.len(), code), (2, 0), "{rows:?}");
    for (row, name, counts) in [(&rows[0], "a-", [1, 1, 1]), (&rows[1], "b-", [0, 0, 0])] {
        let (shown, pattern) = (row["coordinator"].as_str().unwrap(), shown_as(&name[..1]));
        assert!(shown.starts_with(name), "{row}");
        assert_eq!(pattern, format!("{name}XXXXXXXX"));
        assert_eq!(shown.len(), pattern.len());
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"));
        assert!(row["uptime"].as_str().unwrap().ends_with('s'), "{row}");
        assert_eq!(
            (&row["serving"], &row["storeState"]),
            (&true.into(), &"STORE_STATE_UP".into())
        );
        let seen = ["sessionCount", "holdCount", "waiterCount"].map(|count| row[count].clone());
        assert_eq!(
            seen,
            counts.map(|count: u64| Value::from(count.to_string())),
            "{row}"
        );
    }
    assert_eq!(rows[0]["address"], one.replace("http://", ""));
    // The same one twice is one.
    assert_eq!(status(&format!("{one},{one}"), &[]).0.len(), 1);

    // Two of three are not there.
    let some = format!("{one},http://127.0.0.1:1,http://127.0.0.1:2");
    let told = output(&some, &["status"]);
    told.ended(3);
    let table = told.out;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(
        lines[0].starts_with("ADDRESS") && lines[1].contains("  serving  "),
        "{table}"
    );
    for line in &lines[2..] {
        assert!(
            line.contains("no answer") && line.contains("connection refused"),
            "{table}"
        );
    }
    waiting.abort();

    // Without its store a coordinator still answers, and says why it does not serve.
    drop(redis);
    let rows = wait::until("the coordinators to miss their store", LIMIT, || async {
        match status(&both, &[]) {
            (rows, 69) => Ok(rows),
            (rows, code) => Err((rows, code)),
        }
    })
    .await;
    for row in rows {
        assert_eq!(
            (&row["serving"], &row["storeState"]),
            (&false.into(), &"STORE_STATE_DOWN".into())
        );
        assert!(
            row["reason"]
                .as_str()
                .unwrap()
                .contains("Redis at 127.0.0.1"),
            "{row}"
        );
    }
}

#[test]
fn a_coordinator_that_never_answers_is_not_waited_for() {
    // The kernel accepts, and nobody ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let coordinator = Coordinator::in_process();
    let serving = coordinator.endpoint();
    for (endpoints, code) in [(silent.clone(), 69), (format!("{serving},{silent}"), 3)] {
        let told = output(&endpoints, &["status", "--timeout", "1s"]);
        told.ended(code);
        assert!(
            told.out.contains("did not answer within 1s"),
            "{}",
            told.out
        );
    }
}

#[test]
fn a_name_for_this_machine_is_one_coordinator() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint().replace("127.0.0.1", "localhost");
    let (rows, code) = status(&endpoint, &[]);
    assert_eq!((rows.len(), code), (1, 0), "{rows:?}");
}
