//! Heartbeats, renewals, losses, revocations.

use super::*;

pub(super) fn beat(sequence: u64) -> Request {
    Request::Heartbeat { sequence }
}

/// Returns the answers to the last heartbeats: the request, the heartbeat and the time that is left.
pub(super) fn acks(scene: &mut Scene) -> Vec<(u64, u64, Duration)> {
    let said = scene.said().into_iter();
    let acks = said.map(|said| match said {
        (
            request,
            Response::Heartbeat {
                acked_heartbeat,
                valid_for,
                ..
            },
        ) => (request, acked_heartbeat, valid_for),
        other => panic!("{other:?}"),
    });
    acks.collect()
}

fn lost(scene: &mut Scene) -> Vec<LostLock> {
    match &scene.said()[..] {
        [(0, Response::Lost(locks))] => locks.clone(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn full() -> Duration {
    TTL - TTL / 100 - Duration::from_millis(2)
}

#[test]
fn a_heartbeat_is_answered_after_the_holds_that_are_due_were_renewed() {
    let (mut scene, _) = Scene::holding("a");
    scene.hold(3, acquire("b"));
    scene.pass(Duration::from_secs(1));
    scene.ask(4, beat(1));
    // Nothing is due, and the client is promised what stands.
    assert_eq!(acks(&mut scene), [(4, 1, full() - Duration::from_secs(1))]);
    scene.pass(Duration::from_secs(2));
    scene.ask(5, beat(2));
    assert_eq!(scene.ops(), ["renew", "renew"]);
    scene.answer();
    assert!(scene.said.is_empty());
    scene.answer();
    assert_eq!(acks(&mut scene), [(5, 2, full())]);
    assert!(scene.notes.contains(&renewal_ended(2, 0, 0)));
}

#[test]
fn a_hold_stands_in_the_store_for_as_long_as_heartbeats_come() {
    let (mut scene, _) = Scene::holding("a");
    for sequence in 1..=4 {
        scene.pass(TTL / 3);
        scene.ask(10 + sequence, beat(sequence));
        scene.answer_all();
    }
    assert_eq!((scene.holders("a"), scene.session.holds()), (1, 1));
}

#[test]
fn a_heartbeat_that_does_not_follow_is_refused() {
    let mut scene = Scene::open();
    scene.ask(2, beat(3));
    assert_eq!(acks(&mut scene), [(2, 3, full())]);
    scene.ask(3, beat(3));
    let refused = Refused::HeartbeatOutOfOrder { last: 3 };
    assert_eq!(scene.said(), [(3, Response::Refused(refused))]);
}

#[test]
fn a_renewal_that_fails_is_tried_again_and_made_good_unasked() {
    let (mut scene, _) = Scene::holding("a");
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    scene.pass(STORE_TIMEOUT);
    scene.fail(indeterminate());
    // What stands still is promised at once, counted from when the heartbeat was heard.
    assert_eq!(acks(&mut scene), [(3, 1, full() - TTL / 3)]);
    scene.pass(Duration::from_millis(100));
    assert_eq!(scene.ops(), ["renew"]);
    scene.answer();
    assert_eq!(acks(&mut scene), [(0, 1, full())]);
    // Once.
    scene.pass(TTL / 6);
    assert!(scene.said().is_empty() && scene.sent.is_empty());
}

#[test]
fn a_failed_renewal_waits_for_a_store_that_is_down() {
    let (mut scene, _) = Scene::holding("a");
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    scene.handle(Input::StoreUp(false));
    scene.fail(unavailable());
    scene.pass(Duration::from_secs(1));
    assert!(scene.sent.is_empty());
    scene.handle(Input::StoreUp(true));
    assert_eq!(scene.ops(), ["renew"]);
    scene.answer();
    // It was away for so short a time that nobody saw it.
    scene.handle(Input::StoreUp(true));
    assert_eq!(scene.ops(), ["renew"]);
}

#[test]
fn a_key_that_is_no_locks_makes_no_renewal_late() {
    let (mut scene, _) = Scene::holding("a");
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    scene.fail(crate::failure::StoreError::WrongType { name: name("a") });
    assert!(scene.notes.contains(&renewal_ended(0, 0, 1)));
}

#[test]
fn where_replicas_acknowledge_a_heartbeat_does_not_wait_for_them() {
    let mut scene = Scene::configured(|config| config.needs_replicas = true);
    scene.hold(2, acquire("a"));
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    assert_eq!(acks(&mut scene), [(3, 1, full() - TTL / 3)]);
    scene.answer();
    assert_eq!(acks(&mut scene), [(0, 1, full())]);
}

#[test]
fn of_too_many_heartbeats_in_a_row_the_oldest_are_not_answered() {
    let (mut scene, _) = Scene::holding("a");
    scene.pass(TTL / 3);
    for sequence in 1..=20 {
        scene.ask(100 + sequence, beat(sequence));
    }
    scene.answer();
    let acks = acks(&mut scene);
    assert_eq!(acks.len(), MAX_PENDING_ACKS);
    assert_eq!(acks[0].1, 5);
}

/// Has a heartbeat, request 4, renew two holds. Returns the owner id of "a", whose renewal was sent first.
pub(super) fn renewing_two() -> (Scene, OwnerId) {
    let (mut scene, a) = Scene::holding("a");
    scene.hold(3, acquire("b"));
    scene.pass(TTL / 3);
    scene.ask(4, beat(1));
    (scene, a)
}

#[test]
fn a_hold_that_is_gone_is_told_before_the_heartbeat_is_answered() {
    let (mut scene, a) = renewing_two();
    scene.answer_with(Reply::Lost(Loss::Deleted));
    scene.answer();
    let said = scene.said();
    let [(0, Response::Lost(locks)), (4, Response::Heartbeat { .. })] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(locks[0].owner, a);
    assert_eq!(locks[0].why, LostWhy::Store(Loss::Deleted));
    assert!(!scene.registered.contains_key(&a), "nothing is released");
    assert!(scene.cleanups.is_empty());
}

#[test]
fn a_hold_that_can_not_be_renewed_ends_when_its_time_is_over() {
    let (mut scene, owner) = Scene::holding("a");
    scene.handle(Input::StoreUp(false));
    for sequence in 1..=4 {
        scene.pass(TTL / 4);
        scene.ask(10 + sequence, beat(sequence));
        while !scene.sent.is_empty() {
            scene.fail(unavailable());
        }
        scene
            .said
            .retain(|said| matches!(said.1, Response::Lost(_)));
    }
    let locks = lost(&mut scene);
    assert_eq!(locks[0].why, LostWhy::Store(Loss::Expired));
    // Nobody could say what is in the store now.
    assert_eq!(scene.released(), [(owner, End::Unclean)]);
    assert_eq!(scene.session.holds(), 0);
}

#[test]
fn a_hold_that_was_taken_is_told_once_a_renewal_has_found_it_gone() {
    let (mut scene, owner) = Scene::holding("a");
    scene.force(owner, "a");
    assert_eq!((scene.said(), scene.ops()), (vec![], vec!["renew"]));
    scene.answer();
    let locks = lost(&mut scene);
    assert_eq!(locks[0].owner, owner);
    assert_eq!(locks[0].why, LostWhy::Store(Loss::Forced));
    scene.clean_up();
    assert!(scene.registered.is_empty());
    // Once.
    scene.event(owner, RegistryEvent::Lost(Loss::Forced));
    assert!(scene.said().is_empty() && scene.sent.is_empty());
}

#[test]
fn a_message_of_an_earlier_hold_ends_no_later_one() {
    let (mut scene, owner) = Scene::holding("a");
    scene.event(owner, RegistryEvent::Lost(Loss::Forced));
    scene.answer_all();
    assert!(scene.said().is_empty() && scene.cleanups.is_empty());
    assert_eq!((scene.holders("a"), scene.session.holds()), (1, 1));
    // Of what takes it later, the renewal says by itself.
    scene.lose_all();
    scene.handle(Input::StoreUp(true));
    scene.answer_all();
    let why = lost(&mut scene)[0].why;
    assert_eq!(why, LostWhy::Store(Loss::Deleted));
}

#[test]
fn a_message_that_comes_during_a_renewal_has_another_one_follow() {
    let (mut scene, owner) = Scene::holding("a");
    scene.handle(Input::StoreUp(true));
    let (id, before) = scene.execute_next();
    scene.force(owner, "a");
    assert!(scene.sent.is_empty());
    scene.reply(id, before);
    assert!(scene.said().is_empty());
    scene.answer();
    let why = lost(&mut scene)[0].why;
    assert_eq!(why, LostWhy::Store(Loss::Forced));
}

#[test]
fn silence_ends_the_session_only_when_it_lasts_on_reading_on() {
    let (mut scene, _) = Scene::holding("a");
    // The coordinator was paused: a heartbeat was in its socket.
    scene.now = scene.now.after(TTL * 2);
    scene.pass(Duration::ZERO);
    scene.said();
    assert!(scene.ended_stream.is_none());
    scene.pass(Duration::from_millis(249));
    scene.ask(3, beat(1));
    scene.pass(Duration::from_secs(1));
    assert!(scene.ended_stream.is_none());
    // Its hold has expired, and it may rest.
    scene.pass(TTL * 5);
    assert_eq!(scene.ended_stream, Some(Some(Refused::Silent { ttl: TTL })));
}

#[test]
fn a_silent_session_never_ends_before_its_last_promise() {
    let (mut scene, owner) = Scene::holding("a");
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    scene.answer();
    scene.pass(TTL + Duration::from_millis(249));
    assert!(scene.ended_stream.is_none());
    scene.pass(Duration::from_millis(1));
    assert!(scene.ended_stream.is_some());
    // Its hold expired in the store by then, and is released in any case.
    assert!(scene.cleanups.iter().any(|pending| pending.owner == owner));
}

#[test]
fn a_revoked_hold_stays_until_its_promise_has_passed() {
    let (mut scene, owner) = Scene::holding("a");
    scene.pass(Duration::from_secs(1));
    scene.revise(|_, _| false);
    assert_eq!(lost(&mut scene)[0].why, LostWhy::Revoked);
    assert!(scene.cleanups.is_empty());
    // It may be given back, but not changed.
    scene.ask(3, set_value("a", owner));
    let refused = Refused::PermissionDenied(name("a"));
    assert_eq!(scene.said(), [(3, Response::Refused(refused))]);
    // Heartbeats go on, and do not renew it.
    scene.pass(TTL / 3);
    scene.ask(4, beat(1));
    assert!(scene.sent.is_empty());
    scene.said();
    scene.pass(TTL - TTL / 3 - Duration::from_secs(1) - Duration::from_millis(1));
    assert!(scene.cleanups.is_empty());
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn a_revoked_hold_that_is_gone_in_the_store_is_forgotten() {
    let (mut scene, owner) = Scene::holding("a");
    scene.revise(|_, _| false);
    scene.said();
    scene.event(owner, RegistryEvent::Lost(Loss::Forced));
    assert!(scene.registered.is_empty() && scene.said().is_empty());
    scene.end_stream(StreamEnd::Cut);
    assert!(scene.cleanups.is_empty());
}

#[test]
fn a_release_is_answered_by_what_the_store_found() {
    let (mut scene, owner) = Scene::holding("a");
    for (request, found) in [(3, true), (4, false)] {
        scene.release(request, "a", owner);
        scene.answer();
        let released = Response::Released {
            released: found,
            hold_count: 0,
        };
        assert_eq!(scene.said(), [(request, released)]);
    }
    assert!(scene.registered.is_empty());
    // One that the store does not answer goes on in the background.
    let owner = scene.hold(5, acquire("a"))[0];
    scene.release(6, "a", owner);
    scene.fail(indeterminate());
    assert_eq!(scene.cleanups[0].owner, owner);
}

#[test]
fn a_later_grant_of_the_same_owner_id_is_not_renewed_and_is_given_back() {
    let (mut scene, owner) = Scene::holding("a");
    // A fail-over brings the queue back as it was before the grant, and its waiter is granted the lock again.
    scene.grant_again(owner, "a");
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    scene.answer();
    let said = scene.said();
    let is_lost = |response: &Response| match response {
        Response::Lost(locks) => locks[0].why == LostWhy::Store(Loss::Taken),
        _ => false,
    };
    let mut responses = said.iter().map(|(_, response)| response);
    assert!(responses.any(is_lost), "{said:?}");
    assert_eq!(scene.released(), [(owner, End::Unclean)]);
}
