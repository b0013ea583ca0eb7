//! `leader`, `observe` and `watch`.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
};

use leasehold_client::Client;
use leasehold_tests::{Coordinator, FaultProxy, process::Lines, proxy::Cut};
use rustix::process::Signal;
use serde_json::Value;

use super::{LIMIT, json, output, spawn_merged, started};

async fn line(lines: &mut Lines) -> String {
    lines.next(LIMIT).await.unwrap().1
}

async fn document(lines: &mut Lines) -> Value {
    let line = line(lines).await;
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[tokio::test]
async fn the_leader_is_shown_and_having_none_has_a_code_of_its_own() {
    let (_coordinator, endpoint) = started();
    let nobody = output(&endpoint, &["leader", "e"]);
    nobody.ended(4);
    assert_eq!(nobody.out, "election  e\nleader    nobody leads\n");
    let nobody = output(&endpoint, &["leader", "e", "--json"]);
    nobody.ended(4);
    assert_eq!(nobody.out, "{\n  \"leader\": null\n}\n");

    let client = Client::builder().client_name("me");
    let client = client.connect(&endpoint).await.unwrap();
    let value = b"10.0.0.7 \xff\x1b".to_vec();
    let leadership = client.election("e").campaign(value).await.unwrap();
    let info = client.default_session().info().unwrap();
    let somebody = output(&endpoint, &["leader", "e"]);
    somebody.ended(0);
    let text = somebody.out;
    for fact in [
        "leader       me",
        &format!("token        {}", leadership.fencing_token()),
        &format!("session      {}", info.session_id),
        &format!("coordinator  {}", info.coordinator),
        r"value        10.0.0.7 \xff\u{1b}",
    ] {
        assert!(text.lines().any(|line| line == fact), "{fact}: {text}");
    }
    let leader = &json(&endpoint, &["leader", "e"])["leader"];
    assert_eq!(
        leader["fencingToken"],
        leadership.fencing_token().to_string()
    );
    assert_eq!(leader["value"], "MTAuMC4wLjcg/xs=");
    assert_eq!(leader["clientName"], "me");
    assert_eq!(leader["sessionId"], info.session_id);
    assert_eq!(leader["coordinator"], info.coordinator);
    assert!(leader["electedAt"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn every_change_of_the_leader_is_a_line_at_once() {
    let (_coordinator, endpoint) = started();
    let client = Client::builder().client_name("me");
    let client = client.connect(&endpoint).await.unwrap();
    let (observe, mut lines) = spawn_merged(&endpoint, &["observe", "e"]);
    let (_json, mut documents) = spawn_merged(&endpoint, &["observe", "e", "--json"]);
    assert!(line(&mut lines).await.ends_with("  nobody leads"));
    let none = document(&mut documents).await;
    assert_eq!(none, serde_json::json!({"leader": null, "skipped": false}));
    let leadership = client.election("e").campaign("one").await.unwrap();
    let token = leadership.fencing_token();
    let leads = line(&mut lines).await;
    let expected = format!("Z  leads  {token}  me  one");
    assert!(leads.ends_with(&expected), "{leads}");
    let leads = document(&mut documents).await;
    assert_eq!(leads["leader"]["fencingToken"], token.to_string());
    assert_eq!(leads["leader"]["value"], "b25l");
    leadership.proclaim("two").await.unwrap();
    assert!(line(&mut lines).await.ends_with("  me  two"));
    leadership.resign().await.unwrap();
    assert!(line(&mut lines).await.ends_with("  nobody leads"));

    // As with `tail -f`, there is nothing to be tidied up.
    let mut observe = observe;
    for signal in [Signal::INT, Signal::TERM] {
        observe.signal(signal);
        let ended = observe.wait(LIMIT).await;
        assert_eq!(ended.signal(), Some(signal.as_raw()));
        (observe, lines) = spawn_merged(&endpoint, &["observe", "e"]);
        line(&mut lines).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observing_outlives_the_coordinator() {
    let mut first = Coordinator::process().start();
    let endpoint = first.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let _leadership = client.election("e").campaign("before").await.unwrap();
    let (_observe, mut lines) = spawn_merged(&endpoint, &["observe", "e"]);
    assert!(line(&mut lines).await.ends_with("  before"));
    first.kill();
    let said = line(&mut lines).await;
    assert!(
        said.starts_with("leasehold: ") && said.contains("retrying until a coordinator serves"),
        "{said}"
    );
    let address = endpoint.trim_start_matches("http://").to_owned();
    let _second = Coordinator::process()
        .arguments(["--listen", &address])
        .start();
    assert_eq!(line(&mut lines).await, "leasehold: connected again");
    let told = line(&mut lines).await;
    assert!(told.ends_with("  nobody leads (skipped)"), "{told}");
    let _leadership = client.election("e").campaign("after").await.unwrap();
    let after = line(&mut lines).await;
    assert!(after.ends_with("  after"), "{after}");
}

#[tokio::test]
async fn events_of_locks_follow_the_snapshot() {
    let (_coordinator, endpoint) = started();
    let client = Client::builder().client_name("me");
    let client = client.connect(&endpoint).await.unwrap();
    let guard = client.lock("a/1").await.unwrap();
    let token = guard.fencing_token();
    let _elsewhere = client.lock("b/1").await.unwrap();
    let proxy = FaultProxy::before(&endpoint).await;
    let (_watch, mut lines) = spawn_merged(&proxy.endpoint(), &["watch", "a/"]);
    let (_json, mut documents) = spawn_merged(&endpoint, &["watch", "a/", "--json"]);
    let held = line(&mut lines).await;
    assert!(
        held.contains(&format!("Z  held           a/1  {token}  me")),
        "{held}"
    );
    let ready = line(&mut lines).await;
    assert!(
        ready.contains("  ready ") && ready.ends_with("  1 lock"),
        "{ready}"
    );
    assert_eq!(document(&mut documents).await["lock"]["name"], "a/1");
    assert_eq!(document(&mut documents).await["ready"]["lockCount"], "1");

    let waiting = tokio::spawn(client.lock("a/1").into_future());
    let queued = line(&mut lines).await;
    assert!(queued.contains("Z  queued         a/1  -  me"), "{queued}");
    guard.release().await.unwrap();
    let released = line(&mut lines).await;
    assert!(
        released.contains(&format!("Z  released       a/1  {token}  me")),
        "{released}"
    );
    let guard = waiting.await.unwrap().unwrap();
    let token = guard.fencing_token();
    let granted = line(&mut lines).await;
    assert!(
        granted.contains(&format!("Z  granted        a/1  {token}  me")),
        "{granted}"
    );
    for kind in ["QUEUED", "RELEASED", "GRANTED"] {
        let event = document(&mut documents).await;
        assert_eq!(event["event"]["kind"], format!("LOCK_EVENT_KIND_{kind}"));
        assert_eq!(event["event"]["name"], "a/1");
    }
    guard.set_value("new").await.unwrap();
    assert!(line(&mut lines).await.ends_with("  me, value new"));

    proxy.cut(Cut::Rst).await;
    let gap = line(&mut lines).await;
    assert!(gap.contains("  gap "), "{gap}");
    let (_, held) = lines.expect("2", LIMIT).await;
    assert!(held.contains("  held "), "{held}");
    assert!(line(&mut lines).await.contains("  ready "));
}

#[tokio::test]
async fn a_reader_that_has_had_enough_ends_it_quietly_though_nothing_happens() {
    let coordinator = Coordinator::in_process();
    for args in [&["watch"][..], &["observe", "e"]] {
        let mut command = super::leasehold(&coordinator.endpoint(), args);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = leasehold_tests::ChildProcess::spawn("leasehold", command);
        let mut reader = BufReader::new(child.take_stdout());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        drop(reader);
        assert_eq!(child.wait(LIMIT).await.code(), Some(0), "{args:?}");
    }
}
