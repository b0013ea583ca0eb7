//! Reading of histories that are torn, contradict themselves, or go on after a kill or the end of the run.

use leasehold_checker::{Story, checks::Kind, parse};
use serde_json::json;

use crate::history::History;

#[test]
fn a_torn_last_line_is_dropped_and_any_other_refused() {
    let whole = "{\"at\":1,\"kind\":\"finished\",\"client\":\"a\"}\n";
    let lines = parse("history", &format!("{whole}{{\"at\":2,\"ki")).unwrap();
    assert_eq!(lines.len(), 1);
    let error = parse("history", &format!("{whole}{{\"at\":2,\"ki\n{whole}")).unwrap_err();
    assert!(error.to_string().starts_with("history:2: "), "{error}");
}

#[test]
fn a_contradictory_history_is_refused() {
    let mut history = History::default();
    history.granted(10, "a", 1, 1);
    let lines = parse("history", &history.text()).unwrap();
    let error = Story::tell(lines).unwrap_err();
    assert_eq!(error.to_string(), "a never asked as number 1");
}

#[test]
fn a_client_may_write_a_little_after_the_harness_said_that_it_kills_it() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.asked(10, "a", 2, "y", "exclusive");
    history.granted(11, "a", 2, 1);
    history.line(20, "killed", json!({"client": "a"}));
    history.granted(20, "a", 1, 2);
    history.wrote(20, "a", "x", 2, true);
    history.about(20, "releasing", "a", 2);
    history.asked(20, "a", 3, "z", "exclusive");
    history.cycle(21, 30, "b", 1, "x", 3);
    history.finds(&[]);
}

#[test]
fn a_run_that_was_broken_off_is_checked_up_to_there() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 100);
    history.asked(20, "b", 1, "x", "exclusive");
    history.line(500, "broken_off", json!({"why": "the harness panicked"}));
    // The processes end a little later, in any order.
    history.granted(501, "b", 1, 101);
    history.asked(502, "b", 2, "x", "exclusive");
    let verdict = history.check();
    assert!(verdict.violations.is_empty(), "{:?}", verdict.violations);

    let mut history = History::default();
    history.cycle(10, 400, "a", 1, "x", 100);
    history.cycle(20, 300, "b", 1, "x", 101);
    history.line(500, "broken_off", json!({"why": "the harness panicked"}));
    let kinds: Vec<Kind> = history
        .check()
        .violations
        .iter()
        .map(|found| found.kind)
        .collect();
    assert_eq!(kinds, [Kind::Overlap]);
}
