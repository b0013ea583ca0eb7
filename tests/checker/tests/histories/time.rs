//! Histories with holds that their clients relied on after the deadline.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::{History, MS};

#[test]
fn a_loss_that_was_told_late_is_found() {
    for (stopped, expected) in [("a", &[][..]), ("b", &[Kind::ToldLate][..])] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.lost(6000, "a", 1);
        let effects = json!({"stops": [stopped], "disturbs": ["a"]});
        history.fault(4000, 5900, &effects);
        history.finds(expected);
    }
}

#[test]
fn a_hold_that_outlived_its_deadline_is_found() {
    let mut history = History::default();
    history.cycle(10, 6000, "a", 1, "x", 1);
    history.finds(&[Kind::ToldLate]);
}

#[test]
fn who_gets_no_processor_may_tell_late() {
    let late = &[Kind::ToldLate, Kind::Unexplained][..];
    for (process, expected) in [("a", &[][..]), ("harness", &[]), ("b", late)] {
        let mut history = History::default();
        history.asked(0, "a", 1, "x", "exclusive");
        history.granted(0, "a", 1, 100);
        let stalled = json!({"process": process, "since": 4900 * MS});
        history.line(6000, "stalled", stalled);
        history.lost(6010, "a", 1);
        history.finds(expected);
    }
}
