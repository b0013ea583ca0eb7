//! Histories with holds that outlast rights or connections, and with losses that no fault explains.

use leasehold_checker::checks::Kind;
use serde_json::json;

use crate::history::History;

#[test]
fn a_loss_or_a_refusal_without_a_fault_that_disturbed_the_client_is_found() {
    let refused =
        |client: &str, ask: u64| json!({"client": client, "ask": ask, "outcome": "refused"});
    for (effects, expected) in [
        (json!({"disturbs": ["a"]}), &[][..]),
        (json!({"disturbs": ["*"]}), &[]),
        (
            json!({"disturbs": ["b"]}),
            &[Kind::Unexplained, Kind::Unexplained],
        ),
        // A change of credentials that is done right.
        (json!({}), &[Kind::Unexplained, Kind::Unexplained]),
    ] {
        let mut history = History::default();
        history.fault(500, 1500, &effects);
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.lost(2000, "a", 1);
        history.asked(2100, "a", 2, "x", "exclusive");
        history.line(2200, "ended", refused("a", 2));
        history.finds(expected);
    }
    // The fault was over for long.
    let mut history = History::default();
    history.fault(10, 20, &json!({"disturbs": ["*"]}));
    history.asked(14_000, "a", 1, "x", "exclusive");
    history.line(14_100, "ended", refused("a", 1));
    history.finds(&[Kind::Unexplained]);
}

#[test]
fn a_hold_without_rights_is_found() {
    let revoked = json!({"revokes": ["a"], "disturbs": ["a"]});
    for (granted, released, expected) in [
        (900, 6900, &[][..]),
        (900, 7100, &[Kind::WithoutRights]),
        (8000, 8100, &[Kind::WithoutRights]),
        (10_100, 10_200, &[]),
    ] {
        let mut history = History::default();
        history.fault(1000, 10_000, &revoked);
        history.cycle(800, 850, "b", 1, "x", 1);
        history.asked(granted, "a", 1, "x", "exclusive");
        history.granted(granted, "a", 1, 2);
        for at in (granted + 1000..released).step_by(1000) {
            history.extended(at, "a", 1);
        }
        history.about(released, "releasing", "a", 1);
        history.finds(expected);
    }
}

#[test]
fn a_hold_that_outlasts_the_clients_connections_is_found() {
    for (released, also, expected) in [
        (2900, None, &[][..]),
        (3500, None, &[Kind::Disconnected]),
        (3500, Some("*"), &[]),
        (3500, Some("b"), &[Kind::Disconnected]),
    ] {
        let mut history = History::default();
        history.fault(
            2000,
            6000,
            &json!({"disconnects": ["a"], "disturbs": ["a"]}),
        );
        history.cycle(1000, released, "a", 1, "x", 1);
        if let Some(clients) = also {
            history.fault(3000, 3200, &json!({"disturbs": [clients]}));
        }
        history.finds(expected);
    }
}
