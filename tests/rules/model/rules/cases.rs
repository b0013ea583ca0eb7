//! Bounds of the model, and its variants.

use leasehold_core::mode::{Mode, Permits};

use super::{EXCLUSION, Flaw, Plan, Rules, SERVED, TOKENS, UNBROKEN};
use crate::explore::{deeper, holds, is_caught};

fn permits(number: u32, limit: u32) -> Mode {
    Mode::Semaphore(Permits::new(number, limit).unwrap())
}

fn client(coordinator: usize, acquires: &[(Mode, bool)]) -> Plan {
    Plan {
        coordinator,
        acquires: acquires.to_vec(),
    }
}

/// Two clients, one at each coordinator, that wait for the lock twice; holds expire.
fn two_clients() -> Rules {
    let twice = [(Mode::Exclusive, true), (Mode::Exclusive, true)];
    Rules {
        clients: vec![client(0, &twice), client(1, &twice)],
        ttl: 2,
        lock_delay: 0,
        memory: 4,
        ticks: 4,
        step_back: 0,
        has_floors: false,
        may_die: false,
        flaw: None,
    }
}

/// Three clients of which one does not wait, in different modes.
fn modes() -> Rules {
    Rules {
        clients: vec![
            client(0, &[(Mode::Exclusive, true), (Mode::Shared, false)]),
            client(0, &[(Mode::Shared, true), (Mode::Exclusive, true)]),
            client(1, &[(Mode::Shared, true)]),
        ],
        ticks: 2 + deeper(),
        ..two_clients()
    }
}

/// Three clients that take permits of a semaphore of two.
fn semaphore() -> Rules {
    Rules {
        clients: vec![
            client(0, &[(permits(1, 2), true), (permits(2, 2), true)]),
            client(0, &[(permits(2, 2), true)]),
            client(1, &[(permits(1, 2), true)]),
        ],
        ticks: 3,
        ..two_clients()
    }
}

/// A coordinator dies, with holds that last for longer than a claim.
fn deaths() -> Rules {
    let once = [(Mode::Exclusive, true)];
    Rules {
        clients: vec![client(0, &once), client(0, &once), client(1, &once)],
        ttl: 10,
        ticks: 3 + deeper(),
        may_die: true,
        ..two_clients()
    }
}

/// The store's clock steps back by more than the memory of tokens.
fn clock() -> Rules {
    Rules {
        step_back: 20,
        memory: 3,
        ticks: 3 + deeper(),
        ..two_clients()
    }
}

fn flawed(rules: Rules, flaw: Flaw) -> Rules {
    Rules {
        flaw: Some(flaw),
        ..rules
    }
}

#[test]
fn clients_of_two_coordinators_exclude_each_other() {
    holds("rules, two clients", two_clients());
}

#[test]
fn modes_exclude_each_other() {
    holds("rules, modes", modes());
}

#[test]
fn permits_are_never_more_than_the_limit() {
    holds("rules, semaphore", semaphore());
}

#[test]
fn lock_delays_keep_the_lock_closed() {
    let rules = Rules {
        lock_delay: 1,
        ..two_clients()
    };
    holds("rules, lock-delay", rules);
}

#[test]
fn a_coordinator_that_dies_costs_its_claim_and_no_more() {
    holds("rules, a death", deaths());
}

#[test]
fn tokens_rise_though_the_clock_steps_back() {
    holds("rules, clock", clock());
    let rules = Rules {
        has_floors: true,
        ..clock()
    };
    holds("rules, clock and floors", rules);
}

#[test]
fn known_flaws_are_found() {
    let deaths_without_expiry = Rules { ttl: 2, ..deaths() };
    for (rules, flaw, property) in [
        (deaths_without_expiry, Flaw::ExpiryFollows, SERVED),
        (two_clients(), Flaw::NoOwner, EXCLUSION),
        (two_clients(), Flaw::CompareThenDelete, EXCLUSION),
        (deaths(), Flaw::NoClaimTime, SERVED),
        (clock(), Flaw::RecordFromNow, TOKENS),
        (two_clients(), Flaw::RenewalSets, UNBROKEN),
    ] {
        is_caught(&format!("rules, {flaw:?}"), flawed(rules, flaw), property);
    }
}
