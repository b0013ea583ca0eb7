//! Sessions whose stream has ended: their holds are released at once, or kept for a grace, or until their client can't believe in
//! them any more.

use super::*;

#[test]
fn a_peer_that_is_gone_has_everything_released_at_once() {
    let mut scene = Scene::configured(|config| config.grace = Duration::ZERO);
    let held = scene.hold(2, acquire("a"))[0];
    let ticket = scene.wait_for(3, "b");
    scene.ask(4, Request::Acquire(acquire("c")));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Ended);
    let ended = |owner| {
        let pending = scene.cleanups.iter().find(|it| it.owner == owner).unwrap();
        (pending.end, pending.may_arrive_until.is_some())
    };
    assert_eq!(ended(held), (End::Unclean, false));
    assert_eq!(ended(ticket), (End::Clean, false));
    assert_eq!(scene.cleanups.len(), 3);
    let mut cleanups = scene.cleanups.iter();
    assert!(cleanups.any(|it| it.may_arrive_until.is_some()));
}

#[test]
fn a_broken_stream_leaves_the_holds_until_the_client_can_not_believe_in_them() {
    let (mut scene, held) = Scene::holding("a");
    let ticket = scene.wait_for(3, "b");
    scene.end_stream(StreamEnd::Cut);
    assert!(scene.is_detached);
    // Its wait ends at once.
    assert_eq!(scene.cleanups[0].owner, ticket);
    scene.pass(TTL - Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Lingering);
    assert_eq!(scene.cleanups.len(), 1);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups[1].owner, held);
}

#[test]
fn a_broken_stream_of_a_session_that_holds_nothing_is_its_end() {
    let mut scene = Scene::open();
    scene.end_stream(StreamEnd::Cut);
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_session_with_a_grace_is_kept_and_its_keys_end_with_the_grace() {
    let (mut scene, held) = Scene::holding("a");
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.pass(Duration::ZERO);
    let Op::Renew { ttl, owner, .. } = scene.sent[0].op else {
        panic!("not shortened");
    };
    assert_eq!((ttl, owner), (GRACE, held));
    // One that fails is tried again, for what is left.
    scene.fail(indeterminate());
    scene.pass(Duration::from_millis(100));
    assert_eq!(scene.renewed_for(), GRACE - Duration::from_millis(100));
    scene.answer();
    scene.pass(GRACE - Duration::from_millis(101));
    assert!(scene.cleanups.is_empty());
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn a_session_without_a_stream_finds_out_by_a_shortening_what_was_taken() {
    let mut scene = Scene::open();
    let owners = [
        scene.hold(2, acquire("a"))[0],
        scene.hold(3, acquire("b"))[0],
    ];
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::ZERO);
    scene.answer_all();
    scene.event(owners[0], RegistryEvent::Lost(Loss::Forced));
    scene.force(owners[1], "b");
    scene.pass(Duration::ZERO);
    scene.answer_all();
    assert_eq!((scene.holders("a"), scene.session.holds()), (1, 1));
    assert_eq!(scene.session.phase(), Phase::Detached);
}

#[test]
fn a_renewal_that_is_under_way_is_followed_by_the_shortening() {
    let (mut scene, _) = Scene::holding("a");
    scene.pass(TTL / 3);
    scene.ask(3, Request::Heartbeat { sequence: 1 });
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::ZERO);
    assert_eq!(scene.sent.len(), 1);
    scene.answer();
    scene.pass(Duration::ZERO);
    assert_eq!(scene.renewed_for(), GRACE);
}

#[test]
fn a_waiter_of_a_kept_session_waits_on_and_its_grant_is_kept() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.other_releases("a");
    assert_eq!(scene.registered.get(&ticket), Some(&Interest::Held));
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), ["renew"]);
    scene.answer();
    // It was resumed elsewhere: nothing is left here.
    scene.event(ticket, RegistryEvent::Lost(Loss::Resumed));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert!(scene.cleanups.is_empty());
}

#[test]
fn an_acquire_whose_client_has_no_ticket_is_not_kept() {
    let (mut scene, _) = Scene::holding("held");
    scene.room = 1;
    scene.ask(3, Request::Acquire(acquire("sent")));
    scene.ask(4, Request::Acquire(acquire("in line")));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.acquires(), 0);
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.cleanups[0].name, name("sent"));
}

#[test]
fn a_kept_session_that_loses_its_permission_lets_go_at_once() {
    let (mut scene, _) = Scene::holding("a");
    scene.end_stream(StreamEnd::ByPeer);
    scene.revise(|_, _| false);
    assert_eq!(scene.cleanups[0].end, End::Unclean);
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_grace_ends_with_what_was_promised() {
    let mut scene = Scene::configured(|config| config.grace = TTL);
    scene.hold(2, acquire("a"));
    scene.pass(TTL - Duration::from_secs(1));
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::from_millis(999));
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_session_whose_promises_have_passed_is_not_kept() {
    let (mut scene, _) = Scene::holding("a");
    // Its silence is not confirmed yet.
    scene.now = scene.now.after(TTL);
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert!(!scene.is_detached);
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn what_was_revoked_ends_when_its_client_is_gone_although_its_place_is_kept() {
    let (mut scene, revoked) = Scene::holding("a");
    scene.wait_for(3, "b");
    scene.revise(|of, _| *of == name("b"));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Detached);
    assert_eq!(scene.session.acquires(), 1);
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.released(), [(revoked, End::Unclean)]);
}

#[test]
fn a_wait_that_is_over_when_the_client_goes_is_kept_until_it_has_ended() {
    for is_left in [false, true] {
        let mut scene = Scene::open();
        scene.other_takes("a");
        let asked = AcquireRequest {
            wait: Wait::For(Duration::from_secs(1)),
            ..acquire("a")
        };
        scene.queue(2, asked);
        scene.pass(Duration::from_secs(1));
        if is_left {
            scene.answer();
        }
        scene.end_stream(StreamEnd::ByPeer);
        assert_eq!(scene.session.phase(), Phase::Detached);
        assert_eq!(scene.session.acquires(), 1);
        scene.answer_all();
        assert_eq!(scene.session.phase(), Phase::Ended);
        assert_eq!((scene.cleanups.len(), scene.waiters("a")), (0, 0));
    }
}

#[test]
fn a_hold_that_is_gone_when_the_grace_begins_is_let_go_of() {
    let (mut scene, _) = Scene::holding("a");
    scene.hold(3, acquire("b"));
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::ZERO);
    let lose = |scene: &mut Scene| {
        scene.answer_with(Reply::Lost(Loss::Deleted));
    };
    lose(&mut scene);
    assert_eq!(scene.session.holds(), 2, "not before all are answered");
    scene.fail(indeterminate());
    assert!(scene.notes.contains(&Note::NotShortened(1)));
    assert_eq!(scene.session.holds(), 1);
    // What failed is tried again.
    scene.pass(Duration::from_millis(100));
    assert_eq!(scene.ops(), vec!["renew"]);
    assert_eq!(scene.sent[0].name.clone(), name("b"));
    lose(&mut scene);
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups.len(), 0);
    assert!(scene.registered.is_empty());
}
