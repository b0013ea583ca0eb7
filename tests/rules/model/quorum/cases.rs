//! Bounds of the model, and its variants.

use super::{EXCLUSION, Flaw, Quorum, TOKENS, UNBROKEN};
use crate::explore::{deeper, holds, is_caught};

/// Two clients that try once each, and a master that restarts. The clock of one master is ahead.
fn restart() -> Quorum {
    Quorum {
        clients: 2,
        attempts: 1,
        ttl: 1,
        ticks: 2 + deeper(),
        restarts: 1,
        losses: 0,
        takes_back: false,
        renewals: 0,
        ahead: [1, 0, 0],
        flaw: None,
    }
}

/// Two clients that try once each; an answer is lost, and what takes failed attempts and holds back arrives late.
fn losses() -> Quorum {
    Quorum {
        ticks: 1,
        restarts: 0,
        losses: 1,
        takes_back: true,
        ..restart()
    }
}

/// The first client renews its hold while the other one tries for the lock, and a master restarts.
fn renewal() -> Quorum {
    Quorum {
        ttl: 2,
        ticks: 2,
        takes_back: true,
        renewals: 1,
        ..restart()
    }
}

#[test]
fn a_renewal_never_brings_back_a_hold_that_others_followed() {
    holds("quorum, renewal", renewal());
}

#[test]
fn a_master_that_forgets_grants_nothing_twice() {
    holds("quorum, a restart", restart());
}

#[test]
fn tokens_of_a_quorum_rise() {
    holds("quorum, losses", losses());
}

#[test]
fn flaws_of_a_quorum_are_found() {
    for (quorum, flaw, property) in [
        (losses(), Flaw::NoWriteBack, TOKENS),
        (restart(), Flaw::VotesAtOnce, EXCLUSION),
        (renewal(), Flaw::RestoresAnyway, UNBROKEN),
        (renewal(), Flaw::StandsForever, UNBROKEN),
    ] {
        let flawed = Quorum {
            flaw: Some(flaw),
            ..quorum
        };
        is_caught(&format!("quorum, {flaw:?}"), flawed, property);
    }
}
