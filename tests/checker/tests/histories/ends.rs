//! Histories with acquires and holds that have no end.

use leasehold_checker::checks::Kind;

use crate::history::History;

#[test]
fn an_acquire_without_end_is_found() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.finds(&[Kind::Endless]);
}

#[test]
fn a_hold_without_end_is_found() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.finds(&[Kind::Forgotten]);
}
