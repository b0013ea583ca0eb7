//! Bounds on how long a lock is held, however healthy its client.

use super::*;

const LIMIT: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// An acquire with a bound, which the client or (`is_asked` is false) a rule sets.
fn bounded(text: &str, is_asked: bool) -> AcquireRequest {
    AcquireRequest {
        max_hold: Some(MaxHold {
            limit: LIMIT,
            is_asked,
        }),
        ..acquire(text)
    }
}

/// The client's end of what was just granted.
fn ends_in(scene: &mut Scene) -> Option<Duration> {
    match &scene.said()[..] {
        [(_, Response::Granted { locks, .. })] => locks.first().ends_in,
        other => panic!("{other:?}"),
    }
}

/// Lets time pass with heartbeats.
fn live(scene: &mut Scene, time: Duration, first: u64) -> u64 {
    let until = scene.now.after(time);
    let mut sequence = first;
    while scene.now < until {
        scene.pass((TTL / 3).min(scene.now.until(until)));
        scene.ask(0, beat(sequence));
        scene.answer_all();
        sequence += 1;
    }
    sequence
}

/// The reasons of the losses that the client was told.
fn losses(scene: &mut Scene) -> Vec<LostWhy> {
    let said = scene.said().into_iter();
    let lost = said.filter_map(|(_, response)| match response {
        Response::Lost(locks) => Some(locks),
        _ => None,
    });
    lost.flatten().map(|lock| lock.why).collect()
}

#[test]
fn the_client_knows_its_end_from_the_start_and_the_hold_ends_then() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(bounded("a", true)));
    scene.answer_all();
    assert_eq!(ends_in(&mut scene), Some(LIMIT - drift_margin(LIMIT)));
    let next = live(&mut scene, LIMIT - SECOND, 1);
    assert_eq!(losses(&mut scene), []);
    scene.pass(SECOND - Duration::from_micros(1));
    assert_eq!((scene.session.holds(), scene.cleanups.len()), (1, 0));
    scene.pass(Duration::from_micros(1));
    assert_eq!(losses(&mut scene), [LostWhy::MaxHold]);
    let is_noted = |note: &Note| matches!(note, Note::Lost(.., LostWhy::MaxHold));
    assert!(scene.notes.iter().any(is_noted));
    // It did not give it back itself: the lock-delay applies.
    assert_eq!(scene.cleanups[0].end, End::Unclean);
    scene.clean_up();
    assert_eq!(scene.holders("a"), 0);
    // Nothing of it is renewed, and the session goes on.
    scene.ask(3, beat(next));
    assert_eq!(scene.ops(), [""; 0]);
    assert_eq!(acks(&mut scene), [(3, next, full())]);
}

#[test]
fn a_bound_leaves_the_promises_for_other_locks_alone() {
    let (mut scene, _) = Scene::holding("b");
    scene.hold(3, bounded("a", true));
    let next = live(&mut scene, LIMIT - SECOND, 1);
    scene.said();
    scene.ask(4, beat(next));
    // What stands is the same for both: the last renewal was a second ago.
    assert_eq!(acks(&mut scene), [(4, next, full() - SECOND)]);
    scene.pass(SECOND);
    assert_eq!(scene.session.holds(), 1);
}

#[test]
fn a_bound_of_the_rules_alone_ends_a_hold_when_every_promise_has_passed() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, bounded("a", false))[0];
    live(&mut scene, LIMIT - SECOND, 1);
    scene.said();
    scene.pass(SECOND);
    assert_eq!(losses(&mut scene), [LostWhy::MaxHold]);
    // Its client has perhaps not heard it.
    assert_eq!((scene.session.holds(), scene.cleanups.len()), (0, 0));
    assert_eq!(scene.holders("a"), 1);
    // It may change nothing any more.
    scene.ask(5, set_value("a", owner));
    scene.ask(6, downgrade("a", owner));
    scene.ask(7, reduce("a", owner, 1));
    let answers = [
        (5, Response::ValueSet(false)),
        (6, Response::Downgraded(false)),
        (7, Response::Reduced(false)),
    ];
    assert_eq!(scene.said(), answers);
    let rest = scene.now.until(scene.session.lease().promised_until());
    scene.pass(rest - Duration::from_micros(1));
    assert_eq!(scene.cleanups.len(), 0);
    scene.pass(Duration::from_micros(1));
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn a_bound_counts_from_the_hand_off_and_not_from_the_request() {
    let (mut scene, ticket) = Scene::waiting_for("a", bounded("a", true));
    live(&mut scene, LIMIT * 2, 1);
    scene.said();
    let now = scene.now;
    scene.event(ticket, granted_then(now));
    assert_eq!(ends_in(&mut scene), Some(LIMIT - drift_margin(LIMIT)));
}

#[test]
fn a_bound_counts_from_when_the_command_was_sent_that_granted_it() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(bounded("a", true)));
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.ask(0, beat(1));
    scene.said();
    scene.reply(id, stamped);
    // From the heartbeat that the client counts from, a second is gone.
    let left = LIMIT - SECOND;
    assert_eq!(ends_in(&mut scene), Some(left - drift_margin(left)));
    live(&mut scene, left, 2);
    assert_eq!(losses(&mut scene), [LostWhy::MaxHold]);
}

#[test]
fn a_resume_does_not_begin_a_bound_anew() {
    let mut scene = resuming(vec![hold("a", 7)]);
    scene.other_takes_within(7, "a", LIMIT);
    scene.pass(SECOND * 5);
    scene.answer();
    let opened = opened(&mut scene);
    let left = LIMIT - SECOND * 5;
    // The resume was sent before the store carried it out, so that the end is a little early.
    let ResumedWhat::Hold { ends_in, .. } = opened.resumed[0].what else {
        panic!("{opened:?}");
    };
    assert_eq!(ends_in, Some(left - drift_margin(left)));
    let sent = scene.session.lease().heard_at();
    let rest = scene.now.until(sent.after(left));
    live(&mut scene, rest, 1);
    assert_eq!(losses(&mut scene), [LostWhy::MaxHold]);
    // What the client knows of it was told elsewhere.
    assert_eq!(scene.cleanups.len(), 0);
    scene.pass(TTL);
    assert_eq!(scene.cleanups.len(), 1);
}

#[test]
fn a_bound_ends_a_hold_that_is_kept_for_a_resume() {
    let mut scene = Scene::configured(|config| config.grace = TTL);
    scene.hold(2, bounded("a", false));
    scene.hold(3, acquire("b"));
    live(&mut scene, LIMIT - SECOND, 1);
    scene.end_stream(StreamEnd::ByPeer);
    scene.answer_all();
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.pass(SECOND);
    assert_eq!((scene.session.holds(), scene.cleanups.len()), (1, 1));
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn a_hold_keeps_the_bound_of_its_first_grant() {
    let mut scene = Scene::open();
    let of = |seconds: Option<u32>| {
        let max_hold = seconds.map(|seconds| MaxHold {
            limit: SECOND * seconds,
            is_asked: true,
        });
        Request::Acquire(AcquireRequest {
            actor: Actor::new(3),
            reentrant: true,
            max_hold,
            ..acquire("a")
        })
    };
    scene.ask(2, of(Some(20)));
    scene.answer_all();
    scene.said();
    scene.pass(SECOND * 2);
    for (request, seconds) in [(3, Some(100)), (4, Some(1)), (5, None)] {
        scene.ask(request, of(seconds));
        // As with the first, from the `open` on.
        assert_eq!(ends_in(&mut scene), Some(LIMIT - drift_margin(LIMIT)));
    }
}

#[test]
fn a_downgrade_leaves_a_bound_as_it_is() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, bounded("a", true))[0];
    scene.ask(3, downgrade("a", owner));
    scene.answer_all();
    scene.said();
    live(&mut scene, LIMIT, 1);
    assert_eq!(losses(&mut scene), [LostWhy::MaxHold]);
}

#[test]
fn several_names_begin_again_if_the_bound_of_one_passes_before_all_are_granted() {
    let mut scene = Scene::open();
    scene.other_takes("b");
    let asked = AcquireRequest {
        locks: several(&["a", "b"]).locks,
        ..bounded("unused", true)
    };
    scene.queue(2, asked);
    live(&mut scene, LIMIT - SECOND, 1);
    assert_eq!(scene.holders("a"), 1);
    scene.said();
    scene.pass(SECOND);
    // It gives back what it has, and has left the queue of the other.
    assert_eq!(scene.ops(), ["release"]);
    scene.answer();
    scene.clean_up();
    assert_eq!((scene.holders("a"), scene.waiters("b")), (0, 0));
    scene.answer_all();
    assert_eq!((scene.holders("a"), scene.waiters("b")), (1, 1));
    assert_eq!(losses(&mut scene), []);
    // The bound of its new hold begins with that.
    scene.other_releases("b");
    scene.answer_all();
    let locks = scene.locks_granted(2);
    assert!(locks.iter().all(|lock| lock.ends_in.is_some()));
}

#[test]
fn the_store_is_told_the_bound_and_the_same_ttl() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(bounded("a", false)));
    let Op::Acquire(acquire) = &scene.sent[0].op else {
        panic!("{:?}", scene.ops());
    };
    assert_eq!((acquire.max_hold, acquire.ttl), (Some(LIMIT), TTL));
}

#[test]
fn permission_that_is_lost_with_a_bound_says_so_first() {
    let mut scene = Scene::open();
    scene.hold(2, bounded("a", true));
    scene.revise(|_: &LockName, _: Mode| false);
    assert_eq!(losses(&mut scene), [LostWhy::Revoked]);
    live(&mut scene, LIMIT, 1);
    assert_eq!(losses(&mut scene), []);
}
