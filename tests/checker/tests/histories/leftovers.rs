//! Histories with keys that were left in the store.

use leasehold_checker::checks::Kind;

use crate::history::History;

#[test]
fn keys_that_were_left_are_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 1);
    history.left(30, &["lock:x"]);
    let verdict = history.check();
    assert_eq!(verdict.violations.len(), 1);
    assert_eq!(verdict.violations[0].kind, Kind::Left);
    assert!(verdict.violations[0].sentence.contains("lock:x"));
}

#[test]
fn a_history_that_does_not_say_what_was_left_is_no_clean_one() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 1);
    let verdict = history.check();
    assert_eq!(verdict.violations.len(), 1);
    assert_eq!(verdict.violations[0].kind, Kind::Left);
}
