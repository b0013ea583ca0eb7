//! `release --ask`, and what `run` and `elect` do about it.

use rustix::process::Signal;

use super::{LIMIT, json, output, served, spawn_merged, start, started};

/// Says `ready`, and ends with 7 at a TERM, but only after a moment of work.
const POLITE: &str =
    "trap 'echo term; sleep 0.1; exit 7' TERM; echo ready; while :; do sleep 0.01; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_is_signalled_and_the_lock_handed_on_when_it_ends() {
    let (_coordinator, endpoint, client) = served().await;
    let args = ["run", "a", "--on-request", "TERM", "--", "sh", "-c", POLITE];
    let (mut run, mut lines) = spawn_merged(&endpoint, &args);
    lines.expect("ready", LIMIT).await;
    let next = tokio::spawn(client.lock("a").into_future());
    let ask = ["--ask", "--reason", "a node goes away", "--within", "30s"];
    let asked = json(&endpoint, &[&["release", "a"][..], &ask].concat());
    assert_eq!(asked["askedCount"], 1);
    let (_, line) = lines.expect("leasehold: an operator asks", LIMIT).await;
    assert!(
        line.contains("for the release of lock \"a\" within ")
            && line.ends_with(": a node goes away"),
        "{line}"
    );
    lines.expect("term", LIMIT).await;
    assert_eq!(run.wait(LIMIT).await.code(), Some(7));
    next.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_signal_the_request_is_reported_and_the_command_goes_on() {
    let (_coordinator, endpoint) = started();
    let (mut run, mut lines) =
        spawn_merged(&endpoint, &["run", "a", "b", "--", "sh", "-c", POLITE]);
    lines.expect("ready", LIMIT).await;
    let asked = output(&endpoint, &["release", "b", "--ask"]);
    assert_eq!(asked.out, "asked 1 holder to release it\n");
    let (_, line) = lines.expect("leasehold: an operator asks", LIMIT).await;
    assert!(line.ends_with("for the release of lock \"b\""), "{line}");
    run.terminate();
    lines.expect("term", LIMIT).await;
    assert_eq!(run.wait(LIMIT).await.code(), Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_goes_on_is_signalled_once_and_keeps_the_lock() {
    let (_coordinator, endpoint, client) = served().await;
    let script = "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done";
    let (run, mut lines) = start(&endpoint, "a", &["--on-request", "usr1"], script);
    lines.expect("ready", LIMIT).await;
    let token = client.admin().get_lock("a").await.unwrap().fencing_token;
    let token = token.unwrap().to_string();
    for args in [&["--ask"][..], &["--ask", "--holder", &token]] {
        let asked = output(&endpoint, &[&["release", "a"][..], args].concat());
        assert_eq!(asked.out, "asked 1 holder to release it\n");
    }
    lines.expect("usr1", LIMIT).await;
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    run.signal(Signal::KILL);
    let mut said = Vec::new();
    while let Some((_, line)) = lines.next(LIMIT).await {
        said.push(line);
    }
    assert!(said.is_empty(), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_asked_for_lets_the_next_candidate_lead_and_campaigns_again() {
    let (_coordinator, endpoint, client) = served().await;
    let script = "trap 'exit 7' TERM; echo leads; while :; do sleep 0.01; done";
    let args = |once| {
        let args = [
            "elect",
            "e",
            "--on-request",
            "TERM",
            "--",
            "sh",
            "-c",
            script,
        ];
        let (first, rest) = args.split_at(2);
        [first, once, rest].concat()
    };
    let (mut elect, mut lines) = spawn_merged(&endpoint, &args(&[]));
    lines.expect("leads", LIMIT).await;
    let next = tokio::spawn(client.election("e").campaign("other"));
    super::until_waiters(&client, "e", 1).await;
    output(&endpoint, &["release", "e", "--ask"]);
    let leadership = tokio::time::timeout(LIMIT, next).await;
    let leadership = leadership.unwrap().unwrap().unwrap();
    lines.expect("leasehold: campaigning again", LIMIT).await;
    leadership.resign().await.unwrap();
    lines.expect("leads", LIMIT).await;
    elect.terminate();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(7));

    let (mut elect, mut lines) = spawn_merged(&endpoint, &args(&["--once"]));
    lines.expect("leads", LIMIT).await;
    output(&endpoint, &["release", "e", "--ask"]);
    assert_eq!(elect.wait(LIMIT).await.code(), Some(7));
}

#[tokio::test]
async fn nobody_is_asked_for_what_no_session_holds() {
    let (_coordinator, endpoint) = started();
    let asked = output(&endpoint, &["release", "a", "--ask"]);
    let nobody = "no session holds it; nobody was asked\n";
    assert_eq!(asked.ended(7).out, nobody);
    let asked = output(&endpoint, &["release", "a", "--ask", "--holder", "7"]);
    let nobody = "no session holds it with the token 7; nobody was asked\n";
    assert_eq!(asked.ended(7).out, nobody);
    let long = "r".repeat(257);
    let refused = output(&endpoint, &["release", "a", "--ask", "--reason", &long]);
    refused.ended(64).says(&["INVALID_FIELD"]);
    for args in [
        &["--ask", "--force"][..],
        &["--ask", "--waiter", "7"],
        &["--force", "--reason", "why"],
        &["--force", "--within", "5s"],
    ] {
        let refused = output(&endpoint, &[&["release", "a"][..], args].concat());
        assert_eq!(refused.code, Some(64), "{args:?}");
    }
}
