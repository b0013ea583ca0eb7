//! Locks and places that a session takes over from another stream before it opens.

use super::*;

fn id(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

pub(super) fn hold(text: &str, from: u8) -> Resumption {
    Resumption {
        name: name(text),
        from: vec![OwnerId::from_bytes([from; 16])],
        next: id(from + 100),
        max_hold: None,
        what: Resumed::Hold {
            token: FIRST_TOKEN,
            count: 2,
        },
    }
}

fn wait(text: &str, from: u8, wait: Wait) -> Resumption {
    let request_id = u64::from(from);
    Resumption {
        what: Resumed::Wait { request_id, wait },
        ..hold(text, from)
    }
}

pub(super) fn resuming(resume: Vec<Resumption>) -> Scene {
    Scene::resume(config(), resume)
}

/// A session that takes over a hold of "a", which stands in the store.
pub(super) fn resuming_a() -> Scene {
    let mut scene = resuming(vec![hold("a", 7)]);
    scene.other_takes_as(7, "a");
    scene
}

/// Number of times that the only lock which was taken over is held.
fn hold_count(opened: &Opened) -> u32 {
    match opened.resumed[..] {
        [
            ResumedLock {
                what: ResumedWhat::Hold { count, .. },
                ..
            },
        ] => count,
        _ => panic!("{opened:?}"),
    }
}

pub(super) fn opened(scene: &mut Scene) -> Opened {
    match &scene.said()[..] {
        [(OPEN, Response::Opened(opened))] => Opened::clone(opened),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hold_is_taken_over_with_its_token_and_whoever_had_it_is_told() {
    let mut scene = resuming(vec![hold("a", 7)]);
    assert_eq!(scene.session.phase(), Phase::Resuming);
    assert_eq!(scene.ops(), vec!["resume"]);
    scene.other_takes_as(7, "a");
    scene.answer();
    let opened = opened(&mut scene);
    assert_eq!(hold_count(&opened), 2);
    assert!(opened.valid_for.is_some());
    assert_eq!(scene.moved, [id(7)]);
    assert_eq!(scene.registered.get(&id(107)), Some(&Interest::Held));
    assert_eq!(scene.session.phase(), Phase::Open);
}

#[test]
fn a_later_grant_of_the_same_owner_id_is_not_taken_over() {
    let mut granted_again = hold("a", 7);
    granted_again.what = Resumed::Hold {
        token: FencingToken::new(FIRST_TOKEN.get() - 1),
        count: 1,
    };
    let mut scene = resuming(vec![granted_again]);
    scene.other_takes_as(7, "a");
    scene.answer();
    let opened = opened(&mut scene);
    assert!(opened.resumed.is_empty());
    assert_eq!(opened.refused[0].why, LostWhy::Store(Loss::Taken));
    let cleanup = &scene.cleanups[0];
    assert_eq!((cleanup.owner, cleanup.end), (id(107), End::Unclean));
    scene.clean_up();
    assert!(scene.registered.is_empty());
}

#[test]
fn what_is_gone_is_told_and_the_rest_is_taken_over() {
    let mut scene = resuming(vec![hold("a", 7), hold("b", 8)]);
    scene.other_takes_as(8, "b");
    scene.answer_all();
    let opened = opened(&mut scene);
    assert_eq!((opened.resumed.len(), opened.refused.len()), (1, 1));
    assert_eq!(opened.refused[0].why, LostWhy::Store(Loss::Deleted));
    assert!(!scene.registered.contains_key(&id(107)));
}

#[test]
fn a_place_is_taken_over_and_waits_on() {
    let mut scene = resuming(vec![wait("a", 7, Wait::For(Duration::from_secs(2)))]);
    scene.other_takes("a");
    scene.other_waits(7, "a");
    scene.answer();
    let opened = opened(&mut scene);
    assert_eq!(opened.resumed[0].what, ResumedWhat::Wait { position: 1 });
    assert!(scene.tracked.contains_key(&id(107)));
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.ops(), ["release"]);
    scene.answer_all();
    assert_eq!(scene.said_in_short(), [(7, "timed out")]);
}

#[test]
fn a_grant_that_comes_while_others_are_taken_over_is_told_after_the_opening() {
    let mut scene = resuming(vec![wait("a", 7, Wait::Forever), hold("b", 8)]);
    scene.other_takes("a");
    scene.other_waits(7, "a");
    scene.answer();
    scene.other_releases("a");
    assert!(scene.said.is_empty());
    scene.answer();
    assert_eq!(scene.said_in_short(), [(OPEN, "opened"), (7, "granted")]);
}

#[test]
fn a_place_that_was_taken_for_a_hold_is_given_up() {
    let mut scene = resuming(vec![hold("a", 7)]);
    scene.other_takes("a");
    scene.other_waits(7, "a");
    scene.answer();
    assert_eq!(opened(&mut scene).refused.len(), 1);
    assert_eq!(scene.cleanups[0].owner, id(107));
    assert!(scene.tracked.is_empty());
}

#[test]
fn what_the_store_does_not_answer_is_tried_again_for_a_while() {
    let mut scene = resuming_a();
    scene.fail(indeterminate());
    scene.pass(Duration::from_millis(100));
    assert_eq!(scene.ops(), ["resume"]);
    scene.answer();
    assert_eq!(opened(&mut scene).resumed.len(), 1);
}

#[test]
fn what_is_not_known_to_be_ours_is_left_until_its_time_is_over() {
    let mut scene = resuming(vec![hold("a", 7)]);
    let began = scene.now;
    while scene.ended_stream.is_none() {
        scene.fail(indeterminate());
        scene.pass(Duration::from_millis(100));
    }
    assert!(scene.now >= began.after(STORE_TIMEOUT * 2));
    let refused = Refused::ResumeUnanswered(indeterminate());
    assert_eq!(scene.ended_stream, Some(Some(refused)));
    assert!(!scene.is_listed);
    assert_eq!(scene.session.phase(), Phase::Lingering);
    scene.pass(TTL);
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.released(), [(id(107), End::Unclean)]);
}

#[test]
fn nothing_is_left_of_what_was_never_sent() {
    let mut scene = resuming(vec![hold("a", 7)]);
    while scene.ended_stream.is_none() {
        scene.fail(unavailable());
        scene.pass(Duration::from_millis(100));
    }
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert!(scene.registered.is_empty() && scene.cleanups.is_empty());
}

#[test]
fn a_key_that_somebody_has_overwritten_is_taken() {
    let mut scene = resuming(vec![hold("a", 7)]);
    scene.fail(StoreError::WrongType { name: name("a") });
    let opened = opened(&mut scene);
    assert_eq!(opened.refused[0].why, LostWhy::Store(Loss::Taken));
}

#[test]
fn many_are_taken_over_in_slices() {
    let resume = (0..600).map(|number| Resumption {
        next: OwnerId::from_bytes(u128::to_be_bytes(1000 + number)),
        ..hold(&format!("name {number}"), 7)
    });
    let mut config = config();
    config.max_locks = 1000;
    let mut scene = Scene::resume(config, resume.collect());
    for left in [256, 256, 88] {
        assert_eq!(scene.sent.len(), left);
        for _ in 0..left {
            scene.answer();
        }
    }
    assert_eq!(opened(&mut scene).refused.len(), 600);
}

#[test]
fn requests_and_losses_before_the_opening_wait_for_it() {
    let mut scene = resuming(vec![hold("a", 7), hold("b", 8)]);
    scene.other_takes_as(7, "a");
    scene.answer();
    scene.force(id(107), "a");
    scene.ask(9, Request::Acquire(acquire("c")));
    assert!(scene.said.is_empty());
    scene.answer_with(Reply::Lost(Loss::Deleted));
    scene.answer();
    assert_eq!(scene.said_in_short(), [(OPEN, "opened"), (0, "lost")]);
    assert_eq!(scene.session.holds(), 0);
}

#[test]
fn a_resume_carries_what_its_client_said() {
    let scene = resuming(vec![hold("a", 7)]);
    let Op::Resume(Resume {
        from,
        next,
        count,
        ttl,
        ..
    }) = &scene.sent[0].op
    else {
        panic!("not a resume");
    };
    assert_eq!(from[..], [id(7)]);
    assert_eq!((*next, *count, *ttl), (id(107), 2, TTL));
}

#[test]
fn a_place_whose_turn_had_come_is_a_hold_that_is_held_once() {
    let mut scene = resuming(vec![wait("a", 7, Wait::Forever)]);
    scene.other_takes_as(7, "a");
    scene.answer();
    let opened = opened(&mut scene);
    assert_eq!(hold_count(&opened), 1);
    assert_eq!((scene.session.holds(), scene.session.acquires()), (1, 0));
    scene.release(2, "a", id(107));
    assert_eq!(scene.ops(), ["release"]);
}

#[test]
fn a_place_whose_actor_holds_something_is_shown_to_the_detector() {
    let place = |text, from| wait(text, from, Wait::Forever);
    let mut scene = resuming(vec![place("a", 7), hold("b", 8), place("c", 9)]);
    scene.other_takes_as(8, "b");
    for (text, number) in [("a", 7), ("c", 9)] {
        scene.other_takes(text);
        scene.other_waits(number, text);
    }
    // The actor of the first place has the hold.
    for number in [7, 7, 9] {
        let (reply, mut stamped) = scene.execute_next();
        match &mut stamped.executed.reply {
            Reply::Resumed { actor, .. } => *actor = Actor::new(number),
            Reply::ResumedWait { waiter, .. } => waiter.acquire.actor = Actor::new(number),
            other => panic!("{other:?}"),
        }
        scene.reply(reply, stamped);
    }
    assert_eq!(opened(&mut scene).resumed.len(), 3);
    assert_eq!(scene.watched, BTreeSet::from([id(107)]));
}

/// A session that has taken over a hold of `a` and a place for `b`, not `c`, which is gone, and knows nothing of `d` yet.
fn partly_resumed() -> Scene {
    let place = wait("b", 8, Wait::Forever);
    let mut scene = resuming(vec![hold("a", 7), place, hold("c", 9), hold("d", 10)]);
    scene.other_takes_as(7, "a");
    scene.other_takes("b");
    scene.other_waits(8, "b");
    for _ in 0..3 {
        scene.answer();
    }
    scene
}

#[test]
fn what_was_taken_over_so_far_is_released_when_the_session_ends_before_it_opens() {
    let mut scene = partly_resumed();
    scene.terminate();
    let cleanups = scene.cleanups.iter();
    let released = cleanups.map(|it| (it.owner, it.end, it.may_arrive_until.is_some()));
    assert_eq!(
        released.collect::<Vec<_>>(),
        [
            (id(110), End::Unclean, true),
            (id(107), End::Unclean, false),
            (id(108), End::Clean, false),
        ]
    );
    assert_eq!(scene.untracked, [WaitEnd::Cancelled]);
    assert!(!scene.registered.contains_key(&id(109)));
    assert!(scene.said.is_empty());
    scene.clean_up();
    assert_eq!((scene.holders("a"), scene.waiters("b")), (0, 0));
}

#[test]
fn what_was_taken_over_so_far_is_left_when_the_coordinator_stops() {
    let mut scene = partly_resumed();
    scene.handle(Input::Stopping);
    let refused = Refused::StoppedWhileResuming;
    assert_eq!(scene.ended_stream, Some(Some(refused)));
    assert!(scene.cleanups.is_empty());
    assert_eq!(scene.untracked, [WaitEnd::Cancelled]);
    let left: Vec<OwnerId> = scene.registered.keys().copied().collect();
    assert_eq!(left, [107, 108, 110].map(id));
    assert_eq!((scene.holders("a"), scene.waiters("b")), (1, 1));
}

#[test]
fn an_answer_of_another_operation_ends_it_and_it_may_have_been_carried_out() {
    let garbled = |scene: &mut Scene| {
        scene.answer_with(Reply::Renewed);
    };
    let too_many = |scene: &mut Scene| {
        scene.fail_with(CommandFailure::TooManyWaiters);
    };
    for answer in [garbled, too_many] {
        let mut scene = resuming(vec![hold("a", 7)]);
        answer(&mut scene);
        let refused = Refused::ResumeUnanswered(unexpected("resume"));
        assert_eq!(scene.ended_stream, Some(Some(refused)));
        assert_eq!(scene.session.phase(), Phase::Lingering);
        // Nothing that is heard of it or rings until then changes that.
        let before = scene.session.clone();
        scene.event(id(107), RegistryEvent::Lost(Loss::Forced));
        scene.event(id(107), RegistryEvent::Moved);
        scene.ring();
        assert_eq!((scene.session == before, scene.cleanups.len()), (true, 0));
        scene.pass(TTL);
        assert_eq!(scene.cleanups[0].owner, id(107));
    }
}

#[test]
fn an_operator_ends_a_session_that_is_resuming_with_what_it_has_taken_over() {
    let mut scene = partly_resumed();
    scene.handle(Input::EndedByOperator);
    assert_eq!(scene.ended_stream, Some(Some(Refused::EndedByOperator)));
    assert_eq!(scene.session.phase(), Phase::Ended);
    // Those that are known, and the one that may yet arrive.
    assert_eq!(scene.cleanups.len(), 3);
    scene.clean_up();
    assert_eq!(scene.holders("a"), 0);
}

#[test]
fn a_session_that_could_not_open_leaves_nothing_for_long_if_an_operator_ends_it() {
    let mut scene = resuming(vec![hold("a", 7), hold("b", 8)]);
    scene.other_takes_as(7, "a");
    scene.answer();
    scene.fail(unexpected("resume"));
    assert_eq!(scene.session.phase(), Phase::Lingering);
    scene.handle(Input::EndedByOperator);
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups.len(), 2);
}

#[test]
fn a_session_says_from_which_ones_it_has_resumed() {
    let mut scene = resuming(vec![hold("a", 7), wait("b", 8, Wait::Forever)]);
    scene.other_takes_as(7, "a");
    scene.other_takes("b");
    scene.other_waits(8, "b");
    for known in 1..=2 {
        scene.answer();
        let others = vec![SessionId::from_bytes(OTHER); known];
        assert_eq!(scene.predecessors, others);
    }
}
