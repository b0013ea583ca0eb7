//! Several names, the other modes, and the refusals of a coordinator.

use super::{life::draining, *};

/// Returns the acquire that is sent next.
fn sent_acquire(session: &mut Session) -> v1::SessionAcquire {
    let Some(Output::Send(_, request)) = session.machine.next_output() else {
        panic!("expected a request");
    };
    match request.request {
        Some(Request::Acquire(acquire)) => acquire,
        other => panic!("expected an acquire, got {other:?}"),
    }
}

fn refusal(code: tonic::Code, reason: &str) -> v1::SessionFailure {
    v1::SessionFailure {
        code: code as i32,
        reason: reason.into(),
        ..Default::default()
    }
}

#[test]
fn several_names_are_asked_for_and_granted_together_in_the_order_named() {
    let mut session = Session::open_at(0);
    let spec = exclusive(&[3, 1, 2]);
    session.machine.acquire(at(0), 1, spec, 1);
    let acquire = sent_acquire(&mut session);
    assert_eq!(acquire.name, "");
    assert_eq!(acquire.names, ["lock3", "lock1", "lock2"]);

    let granted = session.grant_all(1, 2, &[(3, 30, 1), (1, 10, 1), (2, 20, 1)], 0);
    assert_eq!(granted, [Acquired(1)]);
    let names: Vec<_> = session
        .leases
        .iter()
        .map(|(_, lease)| &*lease.name)
        .collect();
    assert_eq!(names, ["lock3", "lock1", "lock2"]);
    // From here on each has its own fate.
    assert_eq!(session.release(2, 1, Some(80)), [Release(3, 10)]);
    assert_eq!(session.held(2, 0), Ok(()));
    assert_eq!(session.held(2, 1), Err(LostReason::Released));
    assert_eq!(session.held(2, 2), Ok(()));
}

#[test]
fn several_names_granted_otherwise_than_asked_are_all_given_back_and_reported() {
    for (granted, given_back) in [
        (
            vec![(2, 20, 1), (1, 10, 1)],
            vec![Release(3, 20), Release(4, 10)],
        ),
        (vec![(1, 10, 1)], vec![Release(3, 10)]),
        (
            vec![(1, 10, 1), (2, 20, 1), (2, 21, 1)],
            vec![Release(3, 10), Release(4, 20), Release(5, 21)],
        ),
        (vec![], vec![]),
    ] {
        let mut session = Session::open_at(0);
        session.ask(0, 1, exclusive(&[1, 2]));
        let mut expected = given_back;
        expected.push(Failed(1, "refused"));
        assert_eq!(session.grant_all(1, 2, &granted, 0), expected);
        assert!(session.machine.holds.is_empty());
    }
}

#[test]
fn no_names_are_never_granted() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, exclusive(&[]));
    assert_eq!(session.grant_all(1, 2, &[], 0), [Failed(1, "refused")]);
}

#[test]
fn several_names_that_cross_a_cancellation_are_all_given_back() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, exclusive(&[1, 2]));
    assert_eq!(session.cancel(1, 1), [Cancel(2)]);
    let seen = session.grant_all(2, 2, &[(1, 10, 1), (2, 20, 1)], 0);
    assert_eq!(seen, [Release(4, 10), Release(5, 20)]);
}

#[test]
fn several_names_that_come_too_late_are_given_back_and_asked_for_again() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, exclusive(&[1, 2]));
    let seen = session.grant_all(9_900, 2, &[(1, 10, 1), (2, 20, 1)], 0);
    let again = Acquire {
        id: 5,
        name: "lock1,lock2".into(),
        wait: None,
    };
    assert_eq!(seen, [Release(3, 10), Release(4, 20), again]);
}

#[test]
fn one_of_several_names_is_lost_alone() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, exclusive(&[1, 2]));
    session.grant_all(1, 2, &[(1, 10, 1), (2, 20, 1)], 0);
    let lost = lost(2, 20, v1::LostReason::Deleted);
    session.message(2, 0, lost);
    assert_eq!(session.held(2, 0), Ok(()));
    assert_eq!(session.held(2, 1), Err(LostReason::Deleted));
}

#[test]
fn everything_that_was_asked_is_asked_again_on_the_next_stream() {
    let permits = Mode::Semaphore {
        permits: 2,
        at_least: Some(1),
        limit: 5,
        revision: 9,
    };
    let semaphore = AcquireSpec {
        wait: Some(ms(5_000)),
        value: b"who".to_vec(),
        lock_delay: ms(700),
        max_hold: Some(ms(60_000)),
        ..in_mode(permits, reentrant(&[1], 77))
    };
    let shared = AcquireSpec {
        actor: 78,
        ..in_mode(Mode::Shared, exclusive(&[2, 3]))
    };
    let specs = [
        LockSpec::exclusive("lock4"),
        LockSpec::shared("lock5"),
        LockSpec::permits("lock6", 2, 5)
            .limit_revision(9)
            .permits_at_least(2),
        LockSpec::permits("lock7", 1, 1),
    ];
    let each = AcquireSpec::new(Locks::All(specs.into()));
    let mut session = Session::open_at(0);
    session.machine.acquire(at(0), 1, semaphore, 1);
    session.machine.acquire(at(0), 2, shared, 2);
    session.machine.acquire(at(0), 3, each, 3);
    let first: [_; 3] = std::array::from_fn(|_| sent_acquire(&mut session));
    assert_eq!(
        first[0],
        v1::SessionAcquire {
            name: "lock1".into(),
            mode: v1::LockMode::Semaphore.into(),
            wait: wire_ms(5_000),
            value: b"who".to_vec(),
            lock_delay: wire_ms(700),
            names: Vec::new(),
            permits: 2,
            limit: 5,
            actor: 77,
            reentrant: true,
            max_hold: wire_ms(60_000),
            limit_revision: 9,
            locks: Vec::new(),
            permits_at_least: 1,
        }
    );
    assert_eq!(
        first[1],
        v1::SessionAcquire {
            mode: v1::LockMode::Shared.into(),
            lock_delay: wire_ms(0),
            names: vec!["lock2".into(), "lock3".into()],
            actor: 78,
            ..Default::default()
        }
    );
    let lock = |name: &str, mode: v1::LockMode, permits, limit, limit_revision| v1::LockSpec {
        name: name.into(),
        mode: mode.into(),
        permits,
        limit,
        limit_revision,
        permits_at_least: if limit > 1 { permits } else { 0 },
    };
    assert_eq!(
        first[2],
        v1::SessionAcquire {
            lock_delay: wire_ms(0),
            locks: vec![
                lock("lock4", v1::LockMode::Exclusive, 0, 0, 0),
                lock("lock5", v1::LockMode::Shared, 0, 0, 0),
                lock("lock6", v1::LockMode::Semaphore, 2, 5, 9),
                lock("lock7", v1::LockMode::Semaphore, 1, 1, 0),
            ],
            ..Default::default()
        }
    );

    session.stream_ended(1_000);
    session.stream = session.machine.connected(at(1_000), "http://test".into());
    assert_eq!(session.seen(), [Open]);
    let opened = Response::Opened(v1::SessionOpened::default());
    session.say(1_000, session.stream, 1, opened);
    assert!(matches!(
        session.machine.next_output(),
        Some(Output::Opened(..))
    ));
    let mut again = first;
    again[0].wait = wire_ms(4_000);
    let resent: [_; 3] = std::array::from_fn(|_| sent_acquire(&mut session));
    assert_eq!(resent, again);
}

#[test]
fn refusals_are_told_by_their_reason() {
    let failed_precondition = |reason| refusal(tonic::Code::FailedPrecondition, reason);
    let limit = v1::SessionFailure {
        metadata: [("limit".to_owned(), "3".to_owned())].into(),
        ..failed_precondition("LIMIT_MISMATCH")
    };
    for (failure, told, retryable) in [
        (failed_precondition("SELF_DEADLOCK"), "self-deadlock", false),
        (failed_precondition("UPGRADE_REFUSED"), "upgrade", false),
        (limit, "limit", false),
        // A limit that can't be read is no limit.
        (failed_precondition("LIMIT_MISMATCH"), "refused", false),
        (refusal(tonic::Code::Aborted, "DEADLOCK"), "deadlock", true),
    ] {
        let mut session = Session::open_at(0);
        session.acquire(0, 1, None);
        session.say(1, session.stream, 2, Response::Error(failure));
        let Some(Output::Acquired(1, Err(error))) = session.machine.next_output() else {
            panic!("expected the acquire to fail");
        };
        assert_eq!(acquire_error(&error), told);
        assert_eq!(error.is_retryable(), retryable);
        assert!(error.failure().is_some());
        if let AcquireError::LimitMismatch { limit, .. } = error {
            assert_eq!(limit, 3);
        }
    }
}

#[test]
fn a_deadlock_is_told_although_the_coordinator_is_going_away() {
    let mut session = Session::holding(0);
    session.acquire(1, 2, None);
    session.acquire(1, 3, None);
    session.message(2, 0, draining());
    let deadlock = refusal(tonic::Code::Aborted, "DEADLOCK");
    let seen = session.message(3, 3, Response::Error(deadlock));
    assert_eq!(seen, [Failed(2, "deadlock")]);
    // What another coordinator may serve waits for that one.
    let leaving = refusal(tonic::Code::Unavailable, "DRAINING");
    assert_eq!(session.message(3, 4, Response::Error(leaving)), []);
}

#[test]
fn a_change_of_the_mode_or_the_permits_is_confirmed_or_finds_the_hold_lost() {
    let downgraded = |downgraded| Response::Downgraded(v1::SessionDowngraded { downgraded });
    let reduced = |reduced| Response::Reduced(v1::SessionReduced { reduced });
    let downgrade = (|| Change::Downgrade) as fn() -> Change;
    let reduce = || Change::Reduce(4);
    for (change, sent, yes, no) in [
        (downgrade, Downgrade(3), downgraded(true), downgraded(false)),
        (reduce, Reduce(3, 4), reduced(true), reduced(false)),
    ] {
        let mut session = Session::holding(0);
        assert_eq!(session.change(2, 0, change(), 70), [sent]);
        assert_eq!(session.message(3, 3, yes), [Done(70)]);
        assert_eq!(session.held(3, 0), Ok(()));

        session.change(4, 0, change(), 71);
        assert_eq!(session.message(5, 4, no), [HoldFailed(71, "lost")]);
        assert_eq!(session.held(5, 0), Err(LostReason::Unknown));
        assert_eq!(session.change(6, 0, change(), 72), [HoldFailed(72, "lost")]);
    }
}

#[test]
fn a_guard_says_how_many_permits_it_was_granted() {
    let between = Mode::Semaphore {
        permits: 5,
        at_least: Some(2),
        limit: 8,
        revision: 0,
    };
    // A coordinator that knows of no choice grants all of them, and names no number.
    for (mode, told, has) in [
        (between, 3, Some(3)),
        (between, 0, Some(5)),
        (Mode::Exclusive, 0, None),
    ] {
        let mut session = Session::open_at(0);
        session
            .machine
            .acquire(at(0), 1, in_mode(mode, exclusive(&[1])), 1);
        session.seen();
        let lock = v1::GrantedLock {
            permits: told,
            ..granted_lock((1, 1, 1))
        };
        let granted = v1::SessionGranted {
            locks: vec![lock],
            valid_for: wire_ms(9_900),
            ..Default::default()
        };
        let seen = session.message(1, 2, Response::Granted(granted));
        assert_eq!(seen, [Acquired(1)]);
        assert_eq!(session.lease(0).permits, has);
    }
}
