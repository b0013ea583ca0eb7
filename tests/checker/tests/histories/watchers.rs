//! Histories with events that a watcher saw out of order or missed.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::History;

#[test]
fn a_watcher_whose_events_contradict_each_other_is_found() {
    for events in [
        [("granted", 2), ("ended", 2), ("granted", 1)],
        [("granted", 2), ("granted", 2), ("ended", 2)],
        [("granted", 2), ("ended", 2), ("ended", 2)],
        [("ended", 3), ("granted", 3), ("granted", 4)],
    ] {
        let mut history = History::default();
        for (at, (event, token)) in (10..).zip(events) {
            history.watched(at, "a", event, token);
        }
        let lines = history.lines.clone();
        history.finds(&[Kind::Disordered]);
        let mut history = History { lines, sequence: 0 };
        history.fault(5, 20, &json!({"loses_data": true}));
        history.finds(&[]);
    }
}

#[test]
fn a_watcher_that_saw_the_end_of_a_hold_that_stood_is_found() {
    for (at, held, expected) in [
        (400, true, &[Kind::Disordered][..]),
        (400, false, &[][..]),
        (600, true, &[][..]),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.watched(12, "w", "granted", 1);
        history.watched(at, "w", "ended", 1);
        history.about(500, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": held});
        history.line(501, "released", fields);
        history.fault(5, 700, &json!({"loses_data": true}));
        let lines = history.lines.clone();
        history.finds(expected);
        // It was at a master that was replaced, and has left that.
        let mut history = History { lines, sequence: 0 };
        history.line(at + 10, "watch_gap", json!({"watcher": "w"}));
        history.finds(&[]);
    }
}

#[test]
fn a_release_that_was_sent_again_does_not_say_whether_the_hold_stood() {
    let disturbing = |client: &str| json!({"disturbs": [client]});
    for (ends, again, expected) in [
        ("forces", disturbing("a"), &[][..]),
        ("cuts_leases", disturbing("a"), &[]),
        ("forces", json!({"moves": true}), &[]),
        ("forces", disturbing("b"), &[Kind::Disordered]),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.watched(12, "w", "granted", 1);
        history.watched(400, "w", "ended", 1);
        history.about(1600, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": true});
        history.line(1700, "released", fields);
        history.fault(399, 401, &json!({ends: true}));
        history.fault(300, 1650, &again);
        history.finds(expected);
    }
}

#[test]
fn a_watcher_that_missed_a_release_is_found() {
    for (saw, held, expected) in [
        (false, true, &[Kind::Missed][..]),
        (false, false, &[]),
        (true, true, &[]),
    ] {
        let mut history = History::default();
        history.line(0, "watch_ready", json!({"watcher": "w"}));
        history.asked(20_000, "a", 1, "x", "exclusive");
        history.granted(20_001, "a", 1, 1);
        history.watched(20_002, "w", "granted", 1);
        history.about(20_500, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": held});
        history.line(20_501, "released", fields);
        if saw {
            history.watched(20_502, "w", "ended", 1);
        }
        history.finds(expected);
    }
}

#[test]
fn a_watcher_that_missed_an_event_is_found_unless_it_knows_of_a_gap() {
    for (ready, gap, expected) in [
        (true, None, &[Kind::Missed][..]),
        (true, Some(29_000), &[][..]),
        (false, None, &[][..]),
    ] {
        let mut history = History::default();
        for watcher in ["a", "b"] {
            if ready || watcher == "b" {
                history.line(10, "watch_ready", json!({"watcher": watcher}));
            }
            history.watched(20_000, watcher, "granted", 1);
        }
        history.watched(30_000, "b", "ended", 1);
        if let Some(at) = gap {
            history.line(at, "watch_gap", json!({"watcher": "a"}));
        }
        history.finds(expected);
    }
}
