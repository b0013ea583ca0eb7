//! One name: granted, queued, cancelled, timed out, refused; admission.

use super::*;

fn wait(wait: Wait) -> AcquireRequest {
    AcquireRequest {
        wait,
        ..acquire("a")
    }
}

pub(super) fn not_granted(scene: &mut Scene, request: u64) -> NotGranted {
    match &scene.said()[..] {
        [(id, Response::NotGranted { why, .. })] if *id == request => *why,
        other => panic!("{other:?}"),
    }
}

pub(super) fn refused(scene: &mut Scene, request: u64) -> Refused {
    match &scene.said()[..] {
        [(id, Response::Refused(refused))] if *id == request => refused.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_free_lock_is_granted_and_promised_for_no_longer_than_it_stands() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    assert_eq!(scene.ops(), vec!["acquire"]);
    assert_eq!(scene.sent[0].request, Some(2));
    scene.pass(Duration::from_secs(1));
    scene.answer();
    let (locks, valid_for) = scene.granted_for(2);
    // From the last heartbeat, which is the open: a TTL, less the margin for clocks.
    assert_eq!(valid_for, TTL - TTL / 100 - Duration::from_millis(2));
    let owner = locks.first().owner;
    assert_eq!(scene.registered.get(&owner), Some(&Interest::Held));
    assert_eq!((scene.session.holds(), scene.session.acquires()), (1, 0));
}

#[test]
fn a_waiter_is_told_its_place_and_granted_its_turn() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    assert!(scene.tracked.contains_key(&ticket));
    scene.other_releases("a");
    assert_eq!(scene.granted(2), [ticket]);
    assert_eq!(scene.untracked, [WaitEnd::Granted]);
    assert_eq!(scene.registered.get(&ticket), Some(&Interest::Held));
}

#[test]
fn a_grant_that_comes_before_the_answer_that_it_waits_counts() {
    let mut scene = Scene::open();
    scene.other_takes("a");
    scene.ask(2, Request::Acquire(acquire("a")));
    let (id, queued) = scene.execute_next();
    scene.other_releases("a");
    assert!(scene.said().is_empty());
    scene.reply(id, queued);
    assert_eq!(scene.said_in_short(), [(2, "queued"), (2, "granted")]);
}

#[test]
fn a_lock_that_is_not_free_is_busy_to_an_acquire_that_does_not_wait() {
    let mut scene = Scene::open();
    scene.other_takes("a");
    scene.ask(2, Request::Acquire(wait(Wait::No)));
    scene.answer();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Busy);
    assert!(scene.registered.is_empty());
}

#[test]
fn a_waiter_whose_time_is_over_leaves_the_queue_and_hears_who_holds_the_lock() {
    let (mut scene, ticket) = Scene::waiting_for("a", wait(Wait::For(Duration::from_secs(2))));
    scene.pass(Duration::from_millis(1999));
    assert!(scene.sent.is_empty());
    scene.pass(Duration::from_millis(1));
    // A trace of the request shows its acquire alone.
    assert_eq!(scene.ops(), vec!["release"]);
    assert_eq!(scene.sent[0].request, None);
    assert_eq!(scene.registered.get(&ticket), Some(&Interest::Settling));
    scene.answer();
    assert_eq!((scene.ops(), scene.sent[0].request), (vec!["view"], None));
    assert!(scene.registered.is_empty());
    scene.answer();
    let said = scene.said();
    let [(2, Response::NotGranted { why, holder, .. })] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(*why, NotGranted::TimedOut);
    assert!(holder.is_some());
    assert_eq!(scene.waiters("a"), 0);
    assert_eq!(&scene.untracked[..], &[WaitEnd::TimedOut][..]);
}

#[test]
fn a_wait_counts_from_the_request_wherever_it_is_spent() {
    let mut scene = Scene::open();
    scene.other_takes("a");
    scene.ask(2, Request::Acquire(wait(Wait::For(Duration::from_secs(2)))));
    // The answer takes longer than the wait.
    scene.pass(Duration::from_secs(3));
    scene.answer();
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), ["release"]);
}

#[test]
fn a_cancel_ends_a_wait_and_not_a_grant_that_is_on_its_way() {
    let (mut scene, _) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, Request::Cancel(2));
    assert_eq!(scene.ops(), ["release"]);
    scene.answer();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Cancelled);
    assert_eq!(scene.waiters("a"), 0);
    // On its way, a waiter is cancelled as soon as it is known to be one, and is told no place.
    scene.ask(4, Request::Acquire(acquire("a")));
    scene.ask(5, Request::Cancel(4));
    scene.answer_all();
    assert_eq!(not_granted(&mut scene, 4), NotGranted::Cancelled);
    scene.ask(6, Request::Acquire(acquire("b")));
    scene.ask(7, Request::Cancel(6));
    scene.answer_all();
    scene.granted(6);
    // Nothing is left to cancel.
    scene.ask(8, Request::Cancel(6));
    assert!(scene.said().is_empty() && scene.sent.is_empty());
}

#[test]
fn a_grant_that_crosses_a_cancel_is_given_back() {
    let (mut scene, _) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, Request::Cancel(2));
    scene.other_releases("a");
    scene.answer();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Cancelled);
    assert_eq!((scene.holders("a"), scene.waiters("a")), (0, 0));
}

#[test]
fn a_release_that_the_store_does_not_answer_goes_on_in_the_background() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, Request::Cancel(2));
    scene.fail(indeterminate());
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Cancelled);
    assert_eq!(scene.released(), [(ticket, End::Clean)]);
}

#[test]
fn a_place_that_cannot_be_left_is_released_for_as_long_as_it_may_come_to_a_grant() {
    let (mut scene, _) = Scene::waiting_for("a", acquire("a"));
    scene.end_stream(StreamEnd::Cut);
    // The coordinator's other waiters keep it, and it is granted at the last moment.
    let granted_until = scene.now.after(PLACES_KEPT + TTL);
    assert!(scene.cleanups[0].gone_at > granted_until);
}

#[test]
fn an_acquire_whose_answer_is_lost_is_released_until_it_can_have_arrived() {
    let mut scene = Scene::open();
    let began = scene.now;
    scene.ask(2, Request::Acquire(acquire("a")));
    scene.pass(STORE_TIMEOUT);
    scene.fail(indeterminate());
    assert_eq!(refused(&mut scene, 2), Refused::Store(indeterminate()));
    let cleanup = &scene.cleanups[0];
    let arrives = began.after(STORE_TIMEOUT * 3);
    assert_eq!(cleanup.may_arrive_until, Some(arrives));
    let gone = scene.now.after(PLACES_KEPT + TTL + STORE_TIMEOUT * 3);
    assert_eq!(cleanup.gone_at, gone);
    // One that was not sent leaves nothing.
    scene.ask(3, Request::Acquire(acquire("a")));
    scene.fail(unavailable());
    assert_eq!(refused(&mut scene, 3), Refused::Store(unavailable()));
    assert_eq!(scene.cleanups.len(), 1);
}

#[test]
fn a_wait_that_fails_is_refused_and_given_back() {
    let limit = Limit {
        number: 3,
        revision: 2,
    };
    let name = name("a");
    for (event, refusal) in [
        // A grant that does not count.
        (
            RegistryEvent::GrantFailed(indeterminate()),
            Refused::Store(indeterminate()),
        ),
        // It wants more permits than a lowered limit has.
        (
            RegistryEvent::OtherLimit(limit),
            Refused::OtherLimit { name, limit },
        ),
    ] {
        let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
        scene.event(ticket, event);
        assert_eq!(refused(&mut scene, 2), refusal);
        assert_eq!(scene.cleanups[0].owner, ticket);
        assert_eq!(scene.untracked, [WaitEnd::Failed]);
    }
}

#[test]
fn the_outcome_of_a_place_that_moved_is_sent_elsewhere() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    scene.event(ticket, RegistryEvent::Moved);
    assert!(scene.said().is_empty() && scene.cleanups.is_empty());
    assert_eq!(scene.untracked, [WaitEnd::Moved]);
    assert_eq!(scene.session.acquires(), 0);
    assert!(scene.registered.is_empty());
}

#[test]
fn an_acquire_that_would_be_one_waiter_too_many_is_refused_unsent() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    scene.fail_with(CommandFailure::TooManyWaiters);
    assert_eq!(refused(&mut scene, 2), Refused::TooManyWaiters(name("a")));
    assert!(scene.registered.is_empty());
}

#[test]
fn a_grant_whose_time_was_over_is_refused() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    let (id, granted) = scene.execute_next();
    for sequence in 1..=3 {
        scene.pass(TTL / 3);
        scene.ask(10 + sequence, Request::Heartbeat { sequence });
    }
    scene.said();
    scene.reply(id, granted);
    assert_eq!(refused(&mut scene, 2), Refused::TooLate);
    assert_eq!(scene.cleanups[0].end, End::Clean);
}

#[test]
fn acquires_wait_for_admission_in_their_order_and_leave_it_when_they_end() {
    let mut scene = Scene::open();
    scene.room = 2;
    for request in 2..=6 {
        let asked = AcquireRequest {
            wait: Wait::For(Duration::from_secs(request)),
            ..acquire(&format!("name {request}"))
        };
        scene.ask(request, Request::Acquire(asked));
    }
    assert_eq!(scene.ops(), ["acquire", "acquire"]);
    assert!(scene.session.has_admission_queue());
    scene.ask(9, Request::Cancel(5));
    assert_eq!(not_granted(&mut scene, 5), NotGranted::Cancelled);
    // The time of the first in line is over; nothing of it was sent.
    scene.pass(Duration::from_secs(4));
    assert_eq!(not_granted(&mut scene, 4), NotGranted::TimedOut);
    scene.answer();
    scene.granted(2);
    let last = scene.sent.back().unwrap();
    assert_eq!(last.name, name("name 6"));
    assert!(!scene.session.has_admission_queue());
}

#[test]
fn while_the_client_does_not_read_nothing_is_sent_and_nothing_is_said() {
    let mut scene = Scene::open();
    scene.handle(Input::Writable(false));
    scene.ask(2, Request::Acquire(wait(Wait::For(Duration::from_secs(1)))));
    scene.pass(Duration::from_secs(2));
    assert!(scene.sent.is_empty() && scene.said().is_empty());
    assert!(!scene.session.has_admission_queue());
    scene.handle(Input::Writable(true));
    // It goes out before its time is looked at, or is over: either way it is answered.
    scene.pass(Duration::ZERO);
    scene.answer_all();
    assert_eq!(scene.said().len(), 1);
}

#[test]
fn while_the_store_is_down_no_acquire_waits_for_admission() {
    let mut scene = Scene::open();
    scene.room = 0;
    scene.ask(2, Request::Acquire(acquire("a")));
    assert!(scene.sent.is_empty());
    scene.handle(Input::StoreUp(false));
    assert_eq!(scene.ops(), ["acquire"]);
}

#[test]
fn a_request_id_in_flight_is_not_taken_twice() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    scene.ask(2, Request::Acquire(acquire("b")));
    assert_eq!(refused(&mut scene, 2), Refused::RequestIdInUse(2));
}

#[test]
fn holds_and_acquires_together_are_bounded() {
    let mut scene = Scene::configured(|config| config.max_locks = 2);
    scene.hold(2, acquire("a"));
    scene.said();
    scene.ask(3, Request::Acquire(acquire("b")));
    scene.ask(4, Request::Acquire(acquire("c")));
    let (has, more, limit) = (2, 1, 2);
    assert_eq!(
        refused(&mut scene, 4),
        Refused::TooManyLocks { has, more, limit }
    );
}

#[test]
fn a_wait_that_an_operator_ends_leaves_nothing_whatever_it_has_come_to() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    scene.event(ticket, RegistryEvent::ForcedOut);
    // The store removed it, but it may have joined again, and have been granted the lock.
    assert_eq!(scene.ops(), ["release"]);
    scene.answer();
    assert_eq!(refused(&mut scene, 2), Refused::ForcedOut(name("a")));
    assert_eq!(scene.untracked, [WaitEnd::Forced]);
    // A second message changes nothing.
    scene.event(ticket, RegistryEvent::ForcedOut);
    assert!(scene.ops().is_empty() && scene.said().is_empty());
}

#[test]
fn what_may_not_be_held_any_more_is_refused_whatever_it_comes_to() {
    let (mut scene, _) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, Request::Acquire(acquire("b")));
    scene.revise(|_, _| false);
    scene.answer_all();
    let said = scene.said();
    let denied = |text| Response::Refused(Refused::PermissionDenied(name(text)));
    assert_eq!(said.len(), 2);
    assert!(said.contains(&(2, denied("a"))) && said.contains(&(3, denied("b"))));
    // The one that was granted is given back.
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.cleanups[0].name, name("b"));
}

#[test]
fn a_late_answer_to_what_was_let_go_of_changes_nothing() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    let (id, granted) = scene.execute_next();
    scene.terminate();
    scene.reply(id, granted);
    assert!(scene.said().is_empty());
    assert_eq!(scene.cleanups[0].owner, OwnerId::from_bytes([1; 16]));
}
