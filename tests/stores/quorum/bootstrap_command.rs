//! The command `leasehold-server quorum-bootstrap`.

use std::process::{Command, Output};

use leasehold_tests::{Masters, binaries};

use crate::quorum::{
    offered::{session, start},
    site::{PROMPT, acquire, store, take},
};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binaries::path("leasehold-server"));
    let output = command.arg("quorum-bootstrap").args(arguments).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test]
async fn an_operator_declares_a_first_start_and_coordinators_serve() {
    let masters = Masters::start(3);
    let url = format!("redis+quorum://{}", masters.hosts());
    let (code, stdout, stderr) = run(&["--store", &url]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        stdout,
        "marked 3 masters: they vote as soon as a coordinator reaches them\n"
    );
    let (code, stdout, _) = run(&["--store", &url]);
    assert_eq!(code, Some(0));
    assert_eq!(stdout, "all masters are marked already\n");
    let coordinator = start(&masters);
    let mut session = session(&coordinator).await;
    let id = session.ask("first", Some(PROMPT)).await;
    session.granted(id, PROMPT).await;
}

#[tokio::test]
async fn masters_that_know_grants_are_refused() {
    let mut masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, acquire(1)).await;
    drop(store);
    masters.restart_empty(1);
    let url = format!("redis+quorum://u:hunter2@{}", masters.hosts());
    for server in masters.servers() {
        let mut user = redis::cmd("ACL");
        user.arg(&["SETUSER", "u", "on", ">hunter2", "~*", "&*", "+@all"]);
        user.exec(&mut server.connection()).unwrap();
    }
    let (code, stdout, stderr) = run(&["--store", &url]);
    assert_eq!(code, Some(1), "{stdout}");
    assert_eq!(stdout, "");
    assert!(stderr.contains("knows grants of locks"), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_store_of_another_kind_is_refused() {
    for store in ["memory:", "redis://127.0.0.1:1"] {
        let (code, _, stderr) = run(&["--store", store]);
        assert_eq!(code, Some(64), "{stderr}");
        assert!(stderr.contains("redis+quorum://"), "{stderr}");
    }
    // A coordinator has no such setting.
    let mut command = Command::new(binaries::path("leasehold-server"));
    let output = command.arg("--quorum-bootstrap").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}
