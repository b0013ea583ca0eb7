//! Bounds of the model, and its variant.

use super::{EXCLUSION, Resuming};
use crate::explore::{deeper, holds, is_caught};

/// A hold that moves twice, within the time of one TTL and a half.
fn moves() -> Resuming {
    Resuming {
        streams: 2,
        ticks: 2 + deeper(),
        ttl: 2,
        repeats: true,
        keeps_owner: false,
    }
}

#[test]
fn a_resumed_hold_is_its_new_owners_alone() {
    holds("resume", moves());
    let twice = Resuming {
        streams: 3,
        ticks: 2,
        ttl: 1,
        repeats: false,
        ..moves()
    };
    holds("resume, twice", twice);
}

#[test]
fn a_resume_that_keeps_the_owner_id_is_found() {
    let flawed = Resuming {
        keeps_owner: true,
        ..moves()
    };
    is_caught("resume, keeps the owner id", flawed, EXCLUSION);
}
