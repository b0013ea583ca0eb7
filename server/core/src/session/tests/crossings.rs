//! Answers and events that cross what the session did meanwhile, answers of another operation, and timers that fire early.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn heartbeat(acked_heartbeat: u64) -> Response {
    Response::Heartbeat {
        acked_heartbeat,
        valid_for: full(),
        rest: None,
    }
}

/// Queues for a lock that somebody else holds, and waits until the time for that is over.
fn timed_out() -> Scene {
    let mut scene = Scene::open();
    scene.other_takes("a");
    let asked = AcquireRequest {
        wait: Wait::For(SECOND),
        ..acquire("a")
    };
    scene.queue(2, asked);
    scene.pass(SECOND);
    assert_eq!(scene.ops(), ["release"]);
    scene
}

#[test]
fn a_renewal_says_nothing_of_a_hold_that_was_released_meanwhile() {
    let (mut scene, owner) = renewing_two();
    scene.release(5, "a", owner);
    scene.answer_with(Reply::Lost(Loss::Expired));
    scene.answer();
    assert_eq!(scene.said(), [(4, heartbeat(1))]);
    assert_eq!(scene.session.lease().sequence(), 1);
    assert!(scene.notes.contains(&renewal_ended(1, 0, 0)));
    scene.answer();
    assert!(scene.cleanups.is_empty());
}

#[test]
fn a_hold_that_is_found_lost_twice_is_told_once() {
    let (mut scene, owner) = renewing_two();
    scene.answer_with(Reply::Lost(Loss::Deleted));
    scene.event(owner, RegistryEvent::Lost(Loss::Forced));
    scene.answer();
    let said = scene.said();
    let [(0, Response::Lost(locks)), (4, Response::Heartbeat { .. })] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(locks[0].owner, owner);
    assert_eq!(locks[0].why, LostWhy::Store(Loss::Forced));
    assert_eq!(scene.session.holds(), 1);
}

#[test]
fn what_happens_to_a_place_that_is_being_left_changes_nothing() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, Request::Cancel(2));
    let now = scene.now;
    scene.event(ticket, granted_then(now));
    scene.event(ticket, RegistryEvent::Moved);
    scene.event(ticket, RegistryEvent::Lost(Loss::Forced));
    assert!(scene.said().is_empty() && scene.untracked.is_empty());
    assert_eq!((scene.ops(), scene.session.holds()), (vec!["release"], 0));
    scene.answer();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Cancelled);
    assert!(scene.registered.is_empty() && scene.cleanups.is_empty());
}

#[test]
fn a_wait_that_is_over_ends_also_if_the_holder_can_not_be_seen() {
    let mut scene = timed_out();
    scene.answer();
    assert_eq!(scene.ops(), ["view"]);
    // It is too late to cancel it, and it is no place any more.
    scene.ask(3, Request::Cancel(2));
    assert_eq!((scene.ops(), scene.said()), (vec!["view"], Vec::new()));
    scene.fail(indeterminate());
    let said = scene.said();
    let [(2, Response::NotGranted { why, holder, .. })] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!((*why, holder.is_none()), (NotGranted::TimedOut, true));
    assert!(scene.cleanups.is_empty() && scene.session.acquires() == 0);
}

#[test]
fn an_answer_of_another_operation_grants_nothing_and_what_was_asked_is_given_back() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    scene.answer_with(Reply::Renewed);
    let failure = Refused::Store(unexpected("acquire"));
    assert_eq!(refused(&mut scene, 2), failure);
    // The command has arrived.
    let cleanup = &scene.cleanups[0];
    assert_eq!((cleanup.end, cleanup.may_arrive_until), (End::Clean, None));
    assert_eq!((scene.session.holds(), scene.session.acquires()), (0, 0));
}

#[test]
fn a_command_that_does_not_wait_is_not_one_waiter_too_many() {
    let (mut scene, owner) = Scene::holding("a");
    let (name, value) = (name("a"), Value::default());
    scene.ask(3, Request::SetValue { name, owner, value });
    scene.fail_with(CommandFailure::TooManyWaiters);
    let failure = Refused::Store(unexpected("a command that does not wait"));
    assert_eq!(refused(&mut scene, 3), failure);
}

#[test]
fn a_timer_that_fires_early_changes_nothing() {
    let open = || Scene::holding("a").0;
    let detached = || {
        let mut scene = open();
        scene.end_stream(StreamEnd::ByPeer);
        scene.pass(Duration::ZERO);
        scene.answer();
        scene
    };
    let lingering = || {
        let mut scene = open();
        scene.end_stream(StreamEnd::Cut);
        scene
    };
    let closing = || {
        let mut scene = open();
        scene.ask(3, Request::Close(Closer::Client));
        scene
    };
    let ended = || {
        let mut scene = closing();
        scene.answer();
        scene
    };
    for (mut scene, phase) in [
        (open(), Phase::Open),
        (timed_out(), Phase::Open),
        (detached(), Phase::Detached),
        (lingering(), Phase::Lingering),
        (closing(), Phase::Closing),
        (ended(), Phase::Ended),
    ] {
        assert_eq!(scene.session.phase(), phase);
        let (before, cleanups) = (scene.session.clone(), scene.cleanups.len());
        scene.ring();
        assert_eq!(scene.session, before);
        assert_eq!(scene.cleanups.len(), cleanups);
    }
}
