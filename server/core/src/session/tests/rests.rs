//! Rests: heartbeats of a client that has nothing.

use super::*;

const REST: Duration = Duration::from_secs(30);

/// Returns for how long the answer to the last heartbeat lets the client rest.
fn rest(scene: &mut Scene) -> Option<Duration> {
    match &scene.said()[..] {
        [(_, Response::Heartbeat { rest, .. })] => *rest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_has_nothing_may_rest_and_is_not_taken_for_dead() {
    let mut scene = Scene::open();
    scene.pass(TTL / 3);
    scene.ask(2, beat(1));
    assert_eq!(rest(&mut scene), Some(REST));
    scene.pass(REST + TTL - Duration::from_millis(1));
    assert_eq!(scene.ended_stream, None);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.ended_stream, Some(Some(Refused::Silent { ttl: TTL })));
}

#[test]
fn a_client_that_holds_or_waits_may_not_rest() {
    let (mut scene, _) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, beat(1));
    assert_eq!(rest(&mut scene), None);
    scene.ask(4, Request::Cancel(2));
    scene.answer_all();
    scene.said();
    scene.ask(5, beat(2));
    assert_eq!(rest(&mut scene), Some(REST));
    scene.hold(6, acquire("b"));
    scene.ask(7, beat(3));
    assert_eq!(rest(&mut scene), None);
}

#[test]
fn a_client_that_asks_for_something_rests_no_longer() {
    let mut scene = Scene::open();
    scene.ask(2, beat(1));
    assert_eq!(rest(&mut scene), Some(REST));
    scene.pass(REST / 2);
    // Without a heartbeat before it.
    scene.hold(3, acquire("a"));
    scene.pass(TTL / 2);
    assert_eq!(scene.ended_stream, None);
    scene.pass(TTL);
    assert_eq!(scene.ended_stream, Some(Some(Refused::Silent { ttl: TTL })));
}
