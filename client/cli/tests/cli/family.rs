//! `run` with shared locks, semaphores and several names.

use std::{collections::HashMap, process::Stdio};

use leasehold_client::{Admin, Client, LockView};
use leasehold_tests::{ChildProcess, wait};

use super::{LIMIT, Ran, leasehold, output, served, start, started};

/// Waits until a lock looks as wanted.
async fn until(endpoint: &str, name: &str, wanted: impl Fn(&LockView) -> bool) {
    let admin = Admin::connect(endpoint).unwrap();
    wait::until("a state of the lock", LIMIT, || async {
        let view = admin.get_lock(name).await.unwrap();
        if wanted(&view) { Ok(()) } else { Err(view) }
    })
    .await;
}

#[tokio::test]
async fn a_command_is_told_how_many_permits_are_left_for_it() {
    let (_coordinator, endpoint, client) = served().await;
    let _held = client.semaphore("a", 5).permits(3).await.unwrap();
    let told = |options: &[&str]| {
        let command = ["--", "sh", "-c", "echo permits: $LEASEHOLD_PERMITS"];
        let args = [&["run", "a", "--wait", "0"], options, &command].concat();
        let ran = output(&endpoint, &args);
        (ran.code, ran.out)
    };
    let all = ["--semaphore", "5", "--permits", "5"];
    assert_eq!(told(&all), (Some(75), String::new()));
    for (least, code, permits) in [
        ("1", 0, "permits: 2\n"),
        ("2", 0, "permits: 2\n"),
        ("3", 75, ""),
    ] {
        let left = [&all[..], &["--permits-at-least", least]].concat();
        assert_eq!(told(&left), (Some(code), permits.to_owned()));
        let beside = [&left[..], &["--with-shared", "b"]].concat();
        assert_eq!(told(&beside), (Some(code), permits.to_owned()));
    }
    let one = ["--semaphore", "5"];
    assert_eq!(told(&one), (Some(0), "permits: 1\n".to_owned()));
    // A lock has none, whatever a `run` around this one has.
    let alone = [
        "run",
        "b",
        "--",
        "sh",
        "-c",
        "echo ${LEASEHOLD_PERMITS-none}",
    ];
    assert_eq!(output(&endpoint, &alone).out, "none\n");
}

#[tokio::test]
async fn another_limit_is_refused_with_the_one_in_force() {
    let (_coordinator, endpoint, client) = served().await;
    let _held = client.semaphore("a", 3).permits(1).await.unwrap();
    let args = ["run", "a", "--semaphore", "2", "--", "echo", "ran"];
    let refused = output(&endpoint, &args);
    refused.ended(64);
    let said = refused.err;
    assert!(
        said.contains("\"a\": its limit is 3") && said.contains("LIMIT_MISMATCH"),
        "{said}"
    );
    assert_eq!(refused.out, "");

    // Unless it has a greater revision; an acquire without one uses that in force.
    let args = [
        "run",
        "a",
        "--semaphore",
        "2",
        "--limit-revision",
        "7",
        "--wait",
        "0",
        "--",
        "true",
    ];
    assert_eq!(output(&endpoint, &args).code, Some(0));
    let view = client.admin().get_lock("a").await.unwrap();
    assert_eq!((view.limit, view.limit_revision), (Some(2), 7));
    let _beside = client.semaphore("a", 3).permits(1).await.unwrap();
    assert_eq!(output(&endpoint, &args).code, Some(75));
}

#[test]
fn the_command_is_told_all_its_locks_and_their_tokens() {
    let (_coordinator, endpoint) = started();
    let script =
        "echo \"${LEASEHOLD_LOCK_NAME-none} ${LEASEHOLD_FENCING_TOKEN-none} $LEASEHOLD_LOCKS\"";
    let told = |names: &[&str]| {
        let args = [&["run"], names, &["--", "sh", "-c", script]].concat();
        // As if it ran under another `run`.
        let mut command = leasehold(&endpoint, &args);
        command
            .env("LEASEHOLD_LOCK_NAME", "outer")
            .env("LEASEHOLD_FENCING_TOKEN", "1")
            .env("LEASEHOLD_LOCKS", "{\"outer\":1}");
        let ran = Ran::of(&mut command);
        ran.ended(0);
        let text = ran.out;
        let words: Vec<_> = text.trim().splitn(3, ' ').map(str::to_owned).collect();
        let locks: HashMap<String, i64> = serde_json::from_str(&words[2]).unwrap();
        (words[0].clone(), words[1].clone(), locks)
    };

    let (name, token, locks) = told(&["a"]);
    assert_eq!(name, "a");
    assert_eq!(locks, HashMap::from([("a".into(), token.parse().unwrap())]));

    let odd = "b \"{}\" \u{e9}";
    let (name, token, together) = told(&["a", odd, "--value", "v", "c"]);
    assert_eq!((name.as_str(), token.as_str()), ("none", "none"));
    assert_eq!(together.len(), 3);
    assert!(together["a"] > locks["a"]);
    assert!(together[odd] > 0 && together["c"] > 0);
}

#[tokio::test]
async fn several_names_are_taken_all_together_or_not_at_all() {
    let (_coordinator, endpoint) = started();
    let client = Client::builder().client_name("the other");
    let client = client.connect(&endpoint).await.unwrap();
    let held = client.lock("b").await.unwrap();
    // The wait covers the connection as well: it has to be longer than that may take.
    for wait in ["0", "3s"] {
        let args = ["run", "a", "b", "--wait", wait, "--", "echo", "ran"];
        let busy = output(&endpoint, &args);
        busy.ended(75).says(&["\"the other\""]);
        assert_eq!(busy.out, "");
        until(&endpoint, "a", |lock| lock.holder_count == 0).await;
    }
    let (run, mut lines) = start(&endpoint, "a", &["b"], "echo ran");
    until(&endpoint, "b", |lock| lock.waiter_count == 1).await;
    held.release().await.unwrap();
    lines.expect("ran", LIMIT).await;
    drop(run);

    output(&endpoint, &["run", "a", "a", "--", "echo", "ran"])
        .ended(64)
        .says(&["INVALID_FIELD"]);
}

#[tokio::test]
async fn a_lock_is_shared_beside_one_that_is_not() {
    let (_coordinator, endpoint) = started();
    let script = "echo ready $LEASEHOLD_LOCKS; sleep 600";
    let beside = ["--with-shared", "config", "--with-shared", "prices"];
    let (_first, mut lines) = start(&endpoint, "account/7", &beside, script);
    let (_, line) = lines.expect("ready", LIMIT).await;
    let tokens: HashMap<String, i64> =
        serde_json::from_str(line.trim_start_matches("ready ")).unwrap();
    assert_eq!(tokens.len(), 3, "{line}");
    let semaphore = ["--semaphore", "2", "--with-shared", "config"];
    let (_second, mut lines) = start(&endpoint, "gpu", &semaphore, script);
    lines.expect("ready", LIMIT).await;
    until(&endpoint, "config", |lock| lock.holder_count == 2).await;
    until(&endpoint, "gpu", |lock| lock.permits_taken == 1).await;
    let try_with = |args: &[&str]| {
        let args = [&["run", "--wait", "0"], args, &["--", "true"]].concat();
        output(&endpoint, &args).code
    };
    assert_eq!(try_with(&["config"]), Some(75), "others read it");
    assert_eq!(try_with(&["--with-shared", "account/7", "b"]), Some(75));
    assert_eq!(
        try_with(&["--with-shared", "prices", "--shared", "config"]),
        Some(0)
    );
    assert_eq!(try_with(&["--with-shared", "b", "b"]), Some(64), "twice");
}

#[tokio::test]
async fn the_loss_of_one_of_several_locks_stops_the_command_and_frees_the_others() {
    let (_coordinator, endpoint) = started();
    let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
    let args = ["run", "a", "b", "c", "--", "sh", "-c", script];
    let mut command = leasehold(&endpoint, &args);
    command.stdout(Stdio::piped());
    let errors = tempfile::NamedTempFile::new().unwrap();
    command.stderr(errors.reopen().unwrap());
    let mut run = ChildProcess::spawn("leasehold run", command);
    run.take_lines().expect("ready", LIMIT).await;
    let admin = Admin::connect(&endpoint).unwrap();
    assert!(admin.force_release("b").await.unwrap().released);
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
    let said = std::fs::read_to_string(errors.path()).unwrap();
    assert!(said.contains("lock \"b\" was lost"), "{said}");
    // Released rather than left to expire, or closed for the lock-delay.
    for name in ["a", "c"] {
        until(&endpoint, name, |lock| lock.holder_count == 0).await;
        let view = admin.get_lock(name).await.unwrap();
        assert_eq!(view.closed_for, None, "{name}");
    }
}
