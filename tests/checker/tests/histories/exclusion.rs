//! Histories with holds that overlap, with the faults that excuse an overlap, and with permits above the limit.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::{History, MS};

#[test]
fn two_holders_at_once_are_found() {
    for (first, second) in [
        ("exclusive", "exclusive"),
        ("exclusive", "shared"),
        ("shared", "exclusive"),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", first);
        history.asked(20, "b", 1, "x", second);
        history.granted(30, "a", 1, 1);
        history.granted(40, "b", 1, 2);
        history.about(41, "releasing", "a", 1);
        history.about(50, "releasing", "b", 1);
        let verdict = history.finds(&[Kind::Overlap]);
        let sentence = &verdict.violations[0].sentence;
        let names = [
            "\"x\"",
            "a (acquire 1, token 1)",
            "b (acquire 1, token 2)",
            "1000 µs",
            "0.040000 s",
        ];
        for name in names {
            assert!(sentence.contains(name), "{sentence}");
        }
    }
}

#[test]
fn a_hold_that_is_resumed_after_another_grant_is_found() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.about(1000, "suspended", "a", 1);
    history.cycle(1100, 3000, "b", 1, "x", 2);
    let resumed = json!({"client": "a", "ask": 1, "until": 9000 * MS});
    history.line(2000, "resumed", resumed);
    history.about(4000, "releasing", "a", 1);
    history.finds(&[Kind::Overlap]);
}

#[test]
fn a_hold_ends_at_its_deadline() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.cycle(5012, 6000, "b", 1, "x", 2);
    history.lost(5300, "a", 1);
    history.fault(2000, 3000, &json!({"disturbs": ["a"]}));
    history.finds(&[]);
}

#[test]
fn an_overlap_is_excused_by_lost_data_or_leases_alone_and_only_at_its_time() {
    let overlap = |history: &mut History| {
        history.cycle(1000, 4000, "a", 1, "x", 1);
        history.cycle(2000, 5000, "b", 1, "x", 2);
    };
    for (begin, end, effects, excused) in [
        (1500, 4000, json!({"loses_data": true}), true),
        (1500, 4000, json!({"cuts_leases": true}), true),
        (1500, 1600, json!({"cuts_leases": true}), false),
        // The holder of before was not told in time.
        (1500, 1600, json!({"loses_data": true}), false),
        (100, 200, json!({"loses_data": true}), false),
        (2500, 2600, json!({"loses_data": true}), false),
        (
            1500,
            1600,
            json!({"disturbs": ["*"], "stops": ["*"]}),
            false,
        ),
        // Not for so long.
        (1500, 2600, json!({"resets": ["*"]}), false),
    ] {
        let mut history = History::default();
        overlap(&mut history);
        history.fault(begin, end, &effects);
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overlap] };
        let verdict = history.finds(expected);
        assert_eq!(verdict.excused.len(), usize::from(excused));
    }
}

#[test]
fn a_moment_is_excused_by_a_reset_of_the_older_holder() {
    for (client, excused) in [("a", true), ("b", false), ("*", true)] {
        let mut history = History::default();
        history.cycle(1000, 2010, "a", 1, "x", 1);
        history.cycle(2000, 5000, "b", 1, "x", 2);
        history.fault(1999, 2000, &json!({"resets": [client]}));
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overlap] };
        history.finds(expected);
    }
}

#[test]
fn permits_above_the_limit_are_found() {
    let mut history = History::default();
    for (ask, permits, token) in [(1, 2, 1), (2, 2, 2), (3, 1, 3)] {
        history.asked_permits(10, "a", ask, permits);
        history.granted(10 + ask, "a", ask, token);
        history.about(100, "releasing", "a", ask);
    }
    let verdict = history.finds(&[Kind::Limit]);
    let sentence = &verdict.violations[0].sentence;
    assert!(sentence.starts_with("5 permits of \"pool\""), "{sentence}");
}

#[test]
fn a_holder_that_an_operator_deposed_is_told_within_a_moment() {
    let forced = json!({"forces": true, "disturbs": ["*"]});
    for (next, released, also, expected) in [
        (2000, 2500, None, &[][..]),
        (2000, 4000, None, &[Kind::Overlap]),
        (2000, 4000, Some("a"), &[]),
        (2000, 4000, Some("b"), &[Kind::Overlap]),
        // Nobody asked before the operator was done.
        (2300, 2500, None, &[]),
        (2300, 4000, None, &[Kind::Overlap]),
        (2300, 4000, Some("a"), &[]),
        (2300, 4000, Some("b"), &[Kind::Overlap]),
        (15_000, 15_500, None, &[Kind::Overlap]),
    ] {
        let mut history = History::default();
        history.fault(1900, 2100, &forced);
        history.asked(1000, "a", 1, "x", "exclusive");
        history.granted(1000, "a", 1, 1);
        for at in (2000..released).step_by(1000) {
            history.extended(at, "a", 1);
        }
        history.about(released, "releasing", "a", 1);
        history.cycle(next, released + 1000, "b", 1, "x", 2);
        if let Some(client) = also {
            history.fault(1950, 2200, &json!({"disturbs": [client]}));
        }
        history.finds(expected);
    }
}
