//! Histories with waiters that were overtaken, and with the faults and queues that excuse it.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::History;

#[test]
fn a_waiter_that_was_overtaken_is_found() {
    // The one who was overtaken is granted later, times out later, or has no end.
    for end in ["granted", "ended", "killed"] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        history.asked(100, "b", 1, "x", "exclusive");
        history.asked(1200, "c", 1, "x", "exclusive");
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
        let verdict = history.finds(&[Kind::Overtaken]);
        let sentence = &verdict.violations[0].sentence;
        assert!(sentence.starts_with("c (acquire 1"), "{sentence}");
    }
}

#[test]
fn a_waiter_that_a_fault_disturbed_may_be_overtaken() {
    for (client, excused) in [("b", true), ("c", false), ("*", true)] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        history.asked(100, "b", 1, "x", "exclusive");
        history.asked(1200, "c", 1, "x", "exclusive");
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        history.granted(5000, "b", 1, 3);
        history.about(5001, "releasing", "b", 1);
        history.fault(2000, 2100, &json!({"disturbs": [client]}));
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overtaken] };
        history.finds(expected);
    }
}

#[test]
fn queues_have_no_common_order() {
    for (queue, expected) in [("one", &[Kind::Overtaken][..]), ("another", &[][..])] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        for (at, client, queue) in [(100, "b", "one"), (1200, "c", queue)] {
            let fields = json!({"client": client, "ask": 1, "lock": "x", "mode": "exclusive", "queue": queue});
            history.line(at, "asked", fields);
        }
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        history.granted(5000, "b", 1, 3);
        history.about(5001, "releasing", "b", 1);
        history.finds(expected);
    }
}

#[test]
fn a_client_that_a_fault_disturbed_may_have_joined_another_queue() {
    for (queue, excused) in [("one", true), ("", false)] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        for (at, client) in [(100, "b"), (1200, "c")] {
            let fields = json!({"client": client, "ask": 1, "lock": "x", "mode": "exclusive", "queue": queue});
            history.line(at, "asked", fields);
        }
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        history.granted(5000, "b", 1, 3);
        history.about(5001, "releasing", "b", 1);
        history.fault(1100, 1300, &json!({"disturbs": ["c"]}));
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overtaken] };
        history.finds(expected);
    }
}
