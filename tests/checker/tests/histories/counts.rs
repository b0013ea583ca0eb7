//! Histories with losses that coordinators counted.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::History;

fn counted(history: &mut History, at: u64, client: Option<&str>, lock: &str) {
    let fields = json!({"coordinator": "c", "client": client, "lock": lock, "reason": "forced"});
    history.line(at, "counted", fields);
}

/// A hold of `a` that is lost at two seconds by these effects of a fault.
fn lost_by(effects: &serde_json::Value) -> History {
    let mut history = History::default();
    history.fault(500, 1900, effects);
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.lost(2000, "a", 1);
    history
}

#[test]
fn a_loss_is_counted_once_and_for_the_client_that_had_it() {
    let disturbed = json!({"disturbs": ["*"]});
    for client in [Some("a"), None] {
        let mut history = lost_by(&disturbed);
        counted(&mut history, 2100, client, "x");
        history.finds(&[]);
    }
    for (at, client, lock) in [(2100, "b", "x"), (2100, "a", "y"), (15_000, "a", "x")] {
        let mut history = lost_by(&disturbed);
        counted(&mut history, at, Some(client), lock);
        history.finds(&[Kind::Miscounted]);
    }
    let mut history = lost_by(&disturbed);
    counted(&mut history, 2100, None, "x");
    counted(&mut history, 2200, Some("a"), "x");
    history.finds(&[Kind::Miscounted]);
}

/// The first loss fits both acquires of the client, the second one only that which was lost.
#[test]
fn a_loss_that_fits_two_acquires_leaves_the_next_its_own() {
    for (released, expected) in [(2900, &[][..]), (4500, &[Kind::Miscounted])] {
        let mut history = lost_by(&json!({"disturbs": ["*"]}));
        history.asked(2300, "a", 2, "x", "exclusive");
        history.granted(2310, "a", 2, 2);
        history.about(released, "releasing", "a", 2);
        let fields = json!({"client": "a", "ask": 2, "held": true});
        history.line(released, "released", fields);
        counted(&mut history, 3000, Some("a"), "x");
        counted(&mut history, 6000, Some("a"), "x");
        history.finds(expected);
    }
}

#[test]
fn a_hold_that_was_given_back_is_counted_only_if_the_loss_crossed_it() {
    for (at, answered, held, expected) in [
        (2100, 2001, true, &[][..]),
        (3500, 2001, true, &[Kind::Miscounted]),
        (3500, 4000, true, &[]),
        (3500, 2001, false, &[]),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.about(2000, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": held});
        history.line(answered, "released", fields);
        counted(&mut history, at, Some("a"), "x");
        history.finds(expected);
    }
}

#[test]
fn a_client_that_waits_or_gave_up_may_not_have_heard_of_its_grant() {
    for (ended, times, expected) in [
        (1000, 1, &[][..]),
        (1000, 2, &[Kind::Miscounted]),
        // It waits on, and may be granted again.
        (30_000, 2, &[]),
        // Longer ago than anybody keeps a place.
        (80, 1, &[Kind::Miscounted]),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.ended(ended, "a", 1);
        for _ in 0..times {
            counted(&mut history, 12_500, Some("a"), "x");
        }
        history.finds(expected);
    }
}

#[test]
fn a_loss_that_an_operator_alone_explains_is_counted() {
    let (forced, more) = (
        json!({"forces": true, "disturbs": ["*"]}),
        json!({"disturbs": ["a"]}),
    );
    for (also, counts, expected) in [
        (None, true, &[][..]),
        (None, false, &[Kind::Miscounted]),
        (Some(&more), false, &[]),
    ] {
        let mut history = lost_by(&forced);
        if let Some(also) = also {
            history.fault(700, 800, also);
        }
        if counts {
            counted(&mut history, 2100, Some("a"), "x");
        }
        // Something that was counted, so that it is known that coordinators do.
        history.asked(30_000, "b", 1, "y", "exclusive");
        history.granted(30_001, "b", 1, 2);
        history.about(30_002, "killed", "b", 0);
        counted(&mut history, 30_003, None, "y");
        history.finds(expected);
    }
}
