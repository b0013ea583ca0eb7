//! Bounds of the model, and its variants.

use super::{EXCLUSION, Flaw, HandOffs, SERVED};
use crate::explore::{deeper, holds, is_caught};

/// A holder at one coordinator, and a waiter at each.
fn three_clients() -> HandOffs {
    HandOffs {
        clients: vec![0, 1, 0],
        ttl: 3,
        ticks: 3 + deeper(),
        losses: 1,
        may_die: false,
        may_give_up: false,
        flaw: None,
    }
}

#[test]
fn hand_offs_survive_lost_messages() {
    holds("hand-off, losses", three_clients());
}

#[test]
fn hand_offs_survive_clients_that_give_up() {
    let gives_up = HandOffs {
        losses: 0,
        may_give_up: true,
        ..three_clients()
    };
    holds("hand-off, giving up", gives_up);
}

#[test]
fn hand_offs_survive_a_coordinator_that_dies() {
    let dies = HandOffs {
        losses: 0,
        may_die: true,
        ..three_clients()
    };
    holds("hand-off, a death", dies);
}

#[test]
fn flaws_of_hand_offs_are_found() {
    for (flaw, property) in [(Flaw::Unconfirmed, EXCLUSION), (Flaw::NoRefresh, SERVED)] {
        let flawed = HandOffs {
            flaw: Some(flaw),
            ..three_clients()
        };
        is_caught(&format!("hand-off, {flaw:?}"), flawed, property);
    }
}
