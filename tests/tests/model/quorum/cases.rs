//! Bounds of the model, and its variants.

use super::{EXCLUSION, Flaw, Quorum, TOKENS};
use crate::explore::{holds, is_caught};

/// Two clients that try once each, and a master that restarts. The clock of one master is ahead.
fn restart() -> Quorum {
    Quorum {
        clients: 2,
        attempts: 1,
        ttl: 1,
        ticks: 3,
        restarts: 1,
        losses: 0,
        takes_back: false,
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
    ] {
        let flawed = Quorum {
            flaw: Some(flaw),
            ..quorum
        };
        is_caught(&format!("quorum, {flaw:?}"), flawed, property);
    }
}
