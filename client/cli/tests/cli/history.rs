//! `history`, and the audit logs that it reads: their story is that of a watcher.

mod site;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, SystemTime},
};

use leasehold_client::{Client, LockEvent, LockEventKind, LockWatchEvent, LockWatcher};
use leasehold_tests::{
    ChildProcess,
    raw::{self, RawCandidate},
    wait,
};
use serde_json::Value;

use self::site::Site;
use super::{LIMIT, leasehold, output};

/// Returns the events of holds until one of this name has ended.
async fn watched(watcher: &mut LockWatcher, last: &str) -> Vec<LockEvent> {
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(LIMIT, watcher.next()).await;
        let LockWatchEvent::Event(event) = next.unwrap().unwrap().unwrap() else {
            continue;
        };
        let is_last = event.name == last && event.kind == LockEventKind::Released;
        if event.holder.is_some() && kind(event.kind).is_some() {
            events.push(event);
        }
        if is_last {
            return events;
        }
    }
}

/// Returns what an audit log calls an event of a watcher.
fn kind(of: LockEventKind) -> Option<&'static str> {
    Some(match of {
        LockEventKind::Granted => "granted",
        LockEventKind::Released => "released",
        LockEventKind::Expired => "expired",
        LockEventKind::Lost => "lost",
        LockEventKind::Forced => "force_released",
        _ => return None,
    })
}

/// An event of a hold: its name, its token, and what happened.
type Event = (String, i64, String);

/// Returns the events of holds that the lines tell, each with its time. None may be told twice. A release through another
/// coordinator than that of the grant has no token: it is that of `unary`.
fn told(lines: &[Value], unary: i64) -> BTreeMap<Event, SystemTime> {
    let mut told = BTreeMap::new();
    for line in lines {
        let event = match line["event"].as_str().unwrap() {
            "elected" => "granted",
            event @ ("granted" | "released" | "expired" | "lost" | "force_released") => event,
            _ => continue,
        };
        let name = line["lock"].as_str().or(line["election"].as_str()).unwrap();
        let token = line["token"].as_i64().unwrap_or(unary);
        let time: prost_types::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        let key = (name.to_owned(), token, event.to_owned());
        let before = told.insert(key, time.try_into().unwrap());
        assert_eq!(before, None, "told twice: {line}");
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_of_all_coordinators_tell_what_a_watcher_sees() {
    let site = Site::new();
    let (one, two) = (site.start("one"), site.start("two"));
    let watching = site.client(&two.endpoint(), "ops", "watcher").await;
    let mut watcher = watching.admin().watch_locks("");
    loop {
        if let LockWatchEvent::Ready = watcher.next().await.unwrap().unwrap() {
            break;
        }
    }
    let (first, second) = (one.endpoint(), two.endpoint());
    let here = site.client(&first, "ops", "here").await;
    let there = site.client(&second, "ops", "there").await;

    // A grant and a release; a hand-off to a waiter of the other coordinator, and one at the same.
    here.lock("plain").await.unwrap().release().await.unwrap();
    let held = here.lock("passed").await.unwrap();
    let (mut waiting, also) = (Vec::new(), site.client(&first, "ops", "also").await);
    for (client, waiters) in [(&there, 1), (&also, 2)] {
        let client = client.clone();
        waiting.push(tokio::spawn(async move {
            let guard = client.lock("passed").await.unwrap();
            guard.release().await.unwrap();
        }));
        wait::until("the waiter", LIMIT, || async {
            let lock = watching.admin().get_lock("passed").await.unwrap();
            (lock.waiter_count == waiters).then_some(()).ok_or(lock)
        })
        .await;
    }
    held.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap();
    }

    // A client that is killed.
    let mut victim = leasehold(
        &first,
        &[
            "run",
            "killed",
            "--",
            "sh",
            "-c",
            "echo held; exec sleep 100",
        ],
    );
    victim.env("LEASEHOLD_TOKEN", &site.tokens["ops"]);
    victim.stdout(Stdio::piped());
    let mut victim = ChildProcess::spawn("leasehold run", victim);
    victim.take_lines().expect("held", LIMIT).await;
    victim.kill();

    // An expiry, of a lock that nobody renews; and such a lock that is released.
    let forgotten = here.detached_lock("forgotten").ttl(Duration::from_secs(1));
    let forgotten = forgotten.acquire().await.unwrap();
    let detached = here.detached_lock("detached").acquire().await.unwrap();
    detached.release().await.unwrap();

    // A force release, by an operator of the other coordinator.
    let forced = here.lock("forced").await.unwrap();
    let released = there.admin().force_release("forced").await.unwrap();
    assert!(released.released);
    forced.lost().await;

    // Elections: of a candidate on a stream of its own, which goes away, and of one on a session.
    let (channel, token) = (
        raw::connect(&second).await,
        Some(site.tokens["ops"].as_str()),
    );
    let ttl = Duration::from_secs(5);
    let candidate = RawCandidate::try_campaign_as(channel, token, ("term", b""), ttl);
    let mut candidate = candidate.await.unwrap();
    candidate.elected(LIMIT).await;
    drop(candidate);
    let leadership = there.election("leader").campaign("me").await.unwrap();
    leadership.resign().await.unwrap();

    // Attempts that are denied: a permission is missing, an identity is.
    let denied = site.client(&first, "ci", "intruder").await;
    denied.lock("secret").await.unwrap_err();
    let nobody = Client::connect(first.as_str()).await;
    assert!(nobody.is_err() || nobody.unwrap().lock("plain").await.is_err());

    // Several names, one of which is not to be had.
    let held = there.lock("several/b").await.unwrap();
    let several = here.lock_all(["several/a", "several/b"]);
    let several = several.wait(Duration::from_millis(100));
    several.await.unwrap_err();
    held.release().await.unwrap();

    // Nobody renewed it.
    let end = |line: &Value| line["lock"] == "forgotten" && line["event"] != "granted";
    let end = site.line("one", end).await;
    assert_eq!(
        (&end["event"], &end["why"]),
        (&"expired".into(), &"not_seen".into())
    );
    drop(forgotten);

    // What is there of the unary calls when their coordinator stops is left, like a session's.
    let kept = here.detached_lock("kept").acquire().await.unwrap();

    // A hold that moves to the other coordinator, because its own stops.
    let both = format!("{first},{second}");
    // Clients choose among the coordinators at random.
    let moving = loop {
        let moving = site.client(&both, "ops", "moving").await;
        let session = moving.default_session().info();
        if session.is_some_and(|info| info.coordinator.starts_with("one")) {
            break moving;
        }
    };
    let moves = moving.lock("moved").await.unwrap();
    let token = moves.fencing_token().get();
    site.line("one", |line| line["lock"] == "moved").await;
    one.terminate();
    let is_resumed = |line: &Value| line["event"] == "resumed" && line["token"] == token;
    site.line("two", is_resumed).await;
    moves.release().await.unwrap();
    let mut one = one;
    one.child().wait(LIMIT).await;

    let released = there.attach_detached_lock("kept", kept.fencing_token(), kept.owner_id());
    released.release().await.unwrap();
    there.lock("last").await.unwrap().release().await.unwrap();
    site.line("two", |line| {
        line["lock"] == "last" && line["event"] == "released"
    })
    .await;

    let events = watched(&mut watcher, "last").await;
    let lines = [site.lines("one"), site.lines("two")].concat();
    let told = told(&lines, kept.fencing_token().get());
    let seen = events.iter().map(|event| {
        let token = event.fencing_token.unwrap().get();
        let kind = kind(event.kind).unwrap().to_owned();
        ((event.name.clone(), token, kind), event.time.unwrap())
    });
    let seen: BTreeMap<Event, SystemTime> = seen.collect();
    let (told_events, seen_events): (Vec<_>, Vec<_>) =
        (told.keys().collect(), seen.keys().collect());
    assert_eq!(told_events, seen_events);
    for (event, told) in &told {
        let seen = seen[event];
        // What the coordinator's own command did has the very time of the store.
        if event.0 == "plain" || event.0 == "detached" || event.0 == "leader" {
            assert_eq!(*told, seen, "{event:?}");
        }
    }
    // Every grant has one end.
    for (name, token, _) in told.keys().filter(|(_, _, event)| event == "granted") {
        let ends = told
            .keys()
            .filter(|(_, of, event)| of == token && event != "granted");
        assert_eq!(ends.count(), 1, "{name}");
    }

    let line = |event: &str, name: &str| {
        let is_it = |line: &&Value| {
            line["event"] == event && (line["lock"] == name || line["election"] == name)
        };
        lines.iter().find(is_it).cloned().unwrap_or_default()
    };
    assert_eq!(line("released", "killed")["why"], "client_gone");
    assert_eq!(line("released", "several/a")["why"], "given_back");
    assert_eq!(line("released", "plain")["why"], "client");
    assert_eq!(line("force_released", "forced")["why"], "operator");
    assert_eq!(line("elected", "term")["client"], "raw");
    assert_eq!(line("released", "term")["why"], "client_gone");
    assert_eq!(line("granted", "leader")["client"], "there");
    assert_eq!(line("left", "kept")["token"], kept.fencing_token().get());
    assert_eq!(
        line("released", "moved")["coordinator"],
        line("resumed", "moved")["coordinator"]
    );
    let operator = line("operator", "forced");
    assert_eq!(
        (&operator["action"], &operator["effect"]),
        (&"force_release".into(), &true.into())
    );
    assert_eq!(operator["identity"], "token:ops");
    let denied = line("denied", "secret");
    assert_eq!(
        (&denied["permission"], &denied["identity"]),
        (&"acquire".into(), &"token:ci".into())
    );
    let unknown = lines
        .iter()
        .find(|line| line["reason"] == "UNAUTHENTICATED");
    assert!(unknown.unwrap()["peer"].is_string());
    let waited = line("granted", "passed")["waited_ms"].as_f64().unwrap();
    assert!(waited >= 0.0);

    // Nothing secret is in it: no token of a bearer, and nothing else that long.
    let text = fs::read_to_string(site.file("one.log")).unwrap();
    for secret in site.tokens.values() {
        assert!(!text.contains(secret.as_str()));
    }
    shown(&site, token);
}

/// Checks what `history` shows of the same logs.
fn shown(site: &Site, moved: i64) {
    let logs = ["one.log", "two.log"].map(|name| site.file(name));
    // As logrotate does.
    let rotated = Path::new(&logs[0]).with_extension("log.1");
    fs::rename(&logs[0], rotated).unwrap();
    fs::write(&logs[0], "{\"torn\n").unwrap();
    let history = |args: &[&str]| {
        let files = ["--file", &logs[0], "--file", &logs[1]];
        let output = output("", &[&["history"], args, &files].concat());
        output.ended(0);
        output
    };
    let document =
        |name: &str| -> Value { serde_json::from_str(&history(&[name, "--json"]).out).unwrap() };
    let passed = document("passed");
    let holders = passed["holds"].as_array().unwrap().iter();
    let holders: Vec<_> = holders
        .map(|hold| hold["clientName"].as_str().unwrap())
        .collect();
    assert_eq!(holders, ["here", "there", "also"]);
    let holds = passed["holds"].as_array().unwrap();
    assert!(
        holds
            .iter()
            .all(|hold| hold["end"] == "released" && hold["why"] == "client")
    );
    assert_eq!(passed["skippedLines"], "1");
    let moved_hold = &document("moved")["holds"][0];
    assert_eq!(moved_hold["fencingToken"], moved.to_string());
    assert_eq!(
        (&moved_hold["end"], &moved_hold["why"]),
        (&"released".into(), &"client".into())
    );
    assert_eq!(moved_hold["resumedAt"].as_array().unwrap().len(), 1);
    let kept = &document("kept")["holds"][0];
    assert_eq!(
        (&kept["end"], &kept["why"]),
        (&"released".into(), &"client".into())
    );
    assert_eq!(document("term")["holds"][0]["isElection"], true);
    assert_eq!(document("secret")["others"][0]["identity"], "token:ci");

    let output = history(&["forced"]);
    let text = &output.out;
    for part in [
        "GRANTED",
        "here",
        "token:ops",
        "force-released",
        "(operator)",
        "force_release",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    output.says(&["skipped 1 lines"]);
    let none = history(&["plain", "--since", "0s"]).out;
    assert_eq!(none, "these logs tell nothing of \"plain\"\n");
}

#[test]
fn a_log_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("audit.log").display().to_string();
    output("", &["history", "a", "--file", &missing])
        .ended(1)
        .says(&[&missing]);
}
