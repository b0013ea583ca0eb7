//! Histories with writes that a fenced register should have answered differently.

use leasehold_checker::checks::Kind;

use crate::history::History;

#[test]
fn an_old_write_that_was_accepted_is_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.cycle(30, 40, "b", 1, "x", 101);
    history.wrote(35, "b", "x", 101, true);
    history.wrote(36, "a", "x", 100, true);
    history.finds(&[Kind::OldWrite]);
}

#[test]
fn a_write_that_was_refused_without_need_is_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.wrote(15, "a", "x", 100, false);
    history.finds(&[Kind::RefusedWrite]);
}

#[test]
fn a_write_with_a_token_of_nobody_is_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.wrote(15, "b", "x", 100, true);
    history.finds(&[Kind::StrangeWrite]);
}
