//! Histories with fencing tokens out of order.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::History;

#[test]
fn a_token_that_does_not_rise_is_found() {
    for token in [99, 100] {
        let mut history = History::default();
        history.cycle(10, 20, "a", 1, "x", 100);
        history.cycle(30, 40, "b", 1, "x", token);
        // Lost data are no excuse.
        history.fault(25, 26, &json!({"loses_data": true, "disturbs": ["*"]}));
        history.finds(&[Kind::Token]);
    }
}

#[test]
fn tokens_of_other_locks_and_of_acquires_at_once_may_be_in_any_order() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.cycle(30, 40, "b", 1, "y", 50);
    history.asked(50, "a", 2, "z", "shared");
    history.asked(51, "b", 2, "z", "shared");
    history.granted(52, "a", 2, 8);
    history.granted(53, "b", 2, 7);
    history.about(60, "releasing", "a", 2);
    history.about(60, "releasing", "b", 2);
    history.finds(&[]);
}
