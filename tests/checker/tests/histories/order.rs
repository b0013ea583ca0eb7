//! Histories with waiters that were overtaken, and with the faults and queues that excuse it.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::History;

/// A history in which c is served before b, which began before it. Later, b is granted, times out, or has no end.
fn overtaken([of_b, of_c]: [&str; 2], end: &str) -> History {
    let mut history = History::default();
    history.cycle(10, 3000, "a", 1, "x", 1);
    for (at, client, queue) in [(100, "b", of_b), (1200, "c", of_c)] {
        let fields =
            json!({"client": client, "ask": 1, "lock": "x", "mode": "exclusive", "queue": queue});
        history.line(at, "asked", fields);
    }
    history.granted(3000, "c", 1, 2);
    history.about(5000, "releasing", "c", 1);
    match end {
        "granted" => {
            history.granted(5000, "b", 1, 3);
            history.about(5001, "releasing", "b", 1);
        }
        "ended" => history.ended(5000, "b", 1),
        _ => history.line(5000, "killed", json!({"client": "b"})),
    }
    history
}

#[test]
fn a_waiter_that_was_overtaken_is_found() {
    for end in ["granted", "ended", "killed"] {
        let verdict = overtaken(["", ""], end).finds(&[Kind::Overtaken]);
        let sentence = &verdict.violations[0].sentence;
        assert!(sentence.starts_with("c (acquire 1"), "{sentence}");
    }
}

#[test]
fn a_waiter_that_a_fault_disturbed_may_be_overtaken() {
    let found = &[Kind::Overtaken][..];
    for (client, expected) in [("b", &[][..]), ("c", found), ("*", &[])] {
        let mut history = overtaken(["", ""], "granted");
        history.fault(2000, 2100, &json!({"disturbs": [client]}));
        history.finds(expected);
    }
}

#[test]
fn queues_have_no_common_order() {
    for (queue, expected) in [("one", &[Kind::Overtaken][..]), ("another", &[])] {
        overtaken(["one", queue], "granted").finds(expected);
    }
}

#[test]
fn a_client_that_a_fault_disturbed_may_have_joined_another_queue() {
    for (queue, expected) in [("one", &[][..]), ("", &[Kind::Overtaken])] {
        let mut history = overtaken([queue, queue], "granted");
        history.fault(1100, 1300, &json!({"disturbs": ["c"]}));
        history.finds(expected);
    }
}
