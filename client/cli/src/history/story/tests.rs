#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use serde_json::{Value, json};

use super::*;

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

/// Returns what these lines tell of the lock `a`. Each is a second, an event, a token (0 for none), a coordinator, and more fields.
fn told(lines: &[(u64, &str, i64, &str, Value)], since: Option<u64>) -> Told {
    let mut story = Story::of("a");
    for (second, event, token, coordinator, more) in lines {
        let mut line = json!({
            "time": format!("1970-01-01T00:00:{second:02}Z"),
            "event": event,
            "lock": "a",
            "mode": "exclusive",
            "coordinator": coordinator,
        });
        if *token > 0 {
            line["token"] = json!(token);
        }
        for (key, value) in more.as_object().into_iter().flatten() {
            line[key] = value.clone();
        }
        assert!(story.hear(serde_json::from_value(line).unwrap()));
    }
    story.end(since.map(at))
}

fn session() -> Value {
    json!({"session": "s", "client": "c"})
}

fn why(why: &str) -> Value {
    json!({"session": "s", "client": "c", "why": why})
}

/// Returns of each hold its token, the kind of its end, why, and for how many seconds it was held.
fn ends(told: &Told) -> Vec<(i64, &str, &str, Option<u64>)> {
    let ends = told.holds.iter().map(|hold| {
        let end = hold.end.as_ref();
        let words = end.map_or(("", ""), |end| (end.event.as_str(), end.why.as_str()));
        let held = hold.held().map(|held| held.as_secs());
        (hold.token, words.0, words.1, held)
    });
    ends.collect()
}

#[test]
fn a_hold_has_its_grant_and_its_end_in_whatever_order_the_files_come() {
    let waited = json!({"session": "s", "client": "c", "waited_ms": 1500.5});
    let lines = [
        (9, "released", 7, "x", why("client")),
        (2, "granted", 7, "x", waited),
        (3, "granted", 8, "x", json!({"lock": "b"})),
    ];
    let told = told(&lines, None);
    assert_eq!(ends(&told), [(7, "released", "client", Some(7))]);
    let hold = &told.holds[0];
    assert_eq!(hold.waited, Some(Duration::from_micros(1_500_500)));
    assert_eq!((hold.client.as_str(), hold.granted_at), ("c", Some(at(2))));
}

#[test]
fn a_hold_that_moved_has_the_end_that_its_last_coordinator_tells() {
    let lines = [
        (1, "granted", 7, "x", session()),
        (2, "left", 7, "x", why("stopped")),
        (3, "resumed", 7, "y", session()),
        (5, "expired", 7, "y", why("not_renewed")),
    ];
    let moved = told(&lines, None);
    assert_eq!(ends(&moved), [(7, "expired", "not_renewed", Some(4))]);
    assert_eq!(moved.holds[0].resumed, [(at(3), "y".to_owned())]);
    // Its client has moved before its first coordinator noticed.
    let noticed = [
        (1, "granted", 7, "x", session()),
        (3, "resumed", 7, "y", session()),
        (4, "left", 7, "x", why("found_gone")),
    ];
    assert_eq!(ends(&told(&noticed, None)), [(7, "", "", None)]);
    let gone = [noticed[0].clone(), noticed[2].clone()];
    let gone = told(&gone, None);
    assert_eq!(ends(&gone), [(7, "left", "found_gone", Some(3))]);
    // One that goes on.
    let goes_on = told(&lines[..3], None);
    assert_eq!(ends(&goes_on), [(7, "", "", None)]);
    assert_eq!(goes_on.holds[0].over_by, None);
}

#[test]
fn a_hold_of_a_coordinator_that_died_is_over_by_the_next_grant() {
    let lines = [
        (1, "granted", 7, "x", session()),
        (6, "granted", 9, "y", session()),
        (7, "released", 9, "y", why("client")),
        (8, "granted", 10, "y", session()),
        (9, "left", 10, "y", why("stopped")),
        (20, "granted", 21, "z", session()),
    ];
    let told = told(&lines, None);
    let over: Vec<_> = told.holds.iter().map(|hold| hold.over_by).collect();
    assert_eq!(over, [Some(at(6)), None, Some(at(20)), None]);
    assert!(told.holds[2].is_open());
}

#[test]
fn a_shared_hold_is_not_over_by_another_grant() {
    let shared = || json!({"session": "s", "mode": "shared"});
    let lines = [
        (1, "granted", 7, "x", shared()),
        (2, "granted", 8, "x", shared()),
        (3, "granted", 9, "x", session()),
    ];
    let told = told(&lines, None);
    assert!(told.holds.iter().all(|hold| hold.over_by.is_none()));
}

#[test]
fn a_hold_without_its_grant_tells_when_that_was() {
    let more = json!({"session": "s", "why": "closed", "held_ms": 4000.0, "waited_ms": 5.0});
    let told = told(&[(9, "released", 7, "x", more)], None);
    assert_eq!(ends(&told), [(7, "released", "closed", Some(4))]);
    assert_eq!(told.holds[0].granted_at, Some(at(5)));
}

#[test]
fn a_release_through_another_coordinator_ends_the_hold_that_it_may_be_of() {
    let unary = || json!({"client": "cron"});
    let mut lines = vec![
        (1, "granted", 7, "x", unary()),
        (4, "released", 0, "y", json!({"identity": "token:cron"})),
        (11, "expired", 7, "x", json!({"why": "not_seen"})),
    ];
    let one = told(&lines, None);
    assert_eq!(ends(&one), [(7, "released", "", Some(3))]);
    assert!(one.others.is_empty());
    // Of two that share the lock, the logs do not tell which it was.
    lines.push((2, "granted", 8, "x", unary()));
    let two = told(&lines, None);
    assert_eq!(two.others.len(), 1);
    assert_eq!(two.others[0].identity.as_deref(), Some("token:cron"));
    // A session's hold is none that a call releases.
    let sessions = [
        (1, "granted", 7, "x", session()),
        (4, "released", 0, "y", json!({})),
    ];
    assert_eq!(told(&sessions, None).others.len(), 1);
}

#[test]
fn what_was_over_before_is_left_out() {
    let denied = json!({"reason": "PERMISSION_DENIED", "permission": "acquire"});
    let in_vain = json!({"action": "force_release", "effect": false});
    let lines = [
        (1, "granted", 7, "x", session()),
        (2, "released", 7, "x", why("client")),
        (3, "granted", 8, "x", session()),
        (6, "released", 8, "x", why("client")),
        (2, "denied", 0, "x", denied),
        (5, "operator", 0, "x", in_vain),
    ];
    let all = told(&lines, None);
    let whats: Vec<_> = all.others.iter().map(|other| other.what.as_str()).collect();
    let expected = ["PERMISSION_DENIED acquire", "force_release (nothing to do)"];
    assert_eq!(whats, expected);
    let since = told(&lines, Some(4));
    assert_eq!(ends(&since), [(8, "released", "client", Some(3))]);
    assert_eq!(since.others.len(), 1);
}

#[test]
fn lines_of_another_kind_are_refused() {
    let mut story = Story::of("a");
    for (time, event) in [("never", "granted"), ("1970-01-01T00:00:00Z", "sold")] {
        let line = json!({"time": time, "event": event, "lock": "a", "coordinator": "x"});
        assert!(!story.hear(serde_json::from_value(line).unwrap()));
    }
    let line =
        json!({"time": "1970-01-01T00:00:00Z", "event": "dropped", "lines": 3, "coordinator": "x"});
    assert!(story.hear(serde_json::from_value(line).unwrap()));
    assert_eq!(story.dropped().collect::<Vec<_>>(), [("x", 3)]);
}
