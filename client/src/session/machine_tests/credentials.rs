//! Credentials that are not known any more.

use super::{
    moves::{heartbeat, opened},
    *,
};
use crate::lease::LockState;

#[test]
fn a_disowned_stream_suspends_what_is_held_whatever_the_grace() {
    let mut session = Session::holding(0);
    session.message(4_000, 0, heartbeat(0));
    session.stream_ends(5_000, StreamEnd::Disowned);
    assert_eq!(session.state(5_000), LockState::Suspended);
    assert!(session.machine.wants_connection());
    let resumes = session.connect(5_100).unwrap();
    let next = resumes[0].2.clone();
    assert_eq!(session.message(5_200, 1, opened(&[&next])), [Opened]);
    assert_eq!(session.held(5_200, 0), Ok(()));

    // It is kept for no longer than it was promised.
    session.stream_ends(6_000, StreamEnd::Disowned);
    assert_eq!(session.state(14_999), LockState::Suspended);
    assert_eq!(session.held(15_000, 0), Err(LostReason::Unauthenticated));
}

#[test]
fn waits_fail_when_no_coordinator_knows_the_client() {
    let mut session = Session::open_at(0);
    session.acquire(0, 2, None);
    session.stream_ends(10, StreamEnd::Disowned);
    let error = ConnectError::refused(
        "http://test".into(),
        Failure::from_status(tonic::Status::unauthenticated("who are you?")),
    );
    session.machine.connect_failed(at(20), &Arc::new(error));
    let Some(Output::Acquired(2, Err(error))) = session.machine.next_output() else {
        panic!("it goes on waiting");
    };
    assert!(
        matches!(error, AcquireError::Unauthenticated { .. }),
        "{error:?}"
    );
    // Later it may be known again.
    assert!(session.machine.wants_connection());
}
