//! Requests of operators to release holds.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// Any hold's token is at most this.
const NEWEST: FencingToken = FencingToken::new(i64::MAX);

fn request(id: u64, within: Option<Duration>) -> Arc<ReleaseRequest> {
    Arc::new(ReleaseRequest {
        id: ReleaseRequestId::new(id),
        reason: ReleaseReason::parse(&format!("reason {id}")).unwrap(),
        within,
    })
}

fn ask(scene: &mut Scene, owner: OwnerId, id: u64) {
    scene.handle(Input::ReleaseRequested(owner, NEWEST, request(id, None)));
}

/// The message that tells the client.
fn told(owner: OwnerId, text: &str, id: u64, within: Option<Duration>) -> (RequestId, Response) {
    let reason = ReleaseReason::parse(&format!("reason {id}")).unwrap();
    let response = Response::ReleaseRequested {
        name: name(text),
        owner,
        reason,
        within,
    };
    (0, response)
}

#[test]
fn a_holder_is_told_of_each_request_once_and_holds_on() {
    let (mut scene, held) = Scene::holding("a");
    let other = scene.hold(3, acquire("b"))[0];
    let within = Some(Duration::from_secs(30));
    // The masters of a quorum each pass it on.
    for _ in 0..3 {
        scene.handle(Input::ReleaseRequested(held, NEWEST, request(1, within)));
    }
    assert_eq!(scene.said(), [told(held, "a", 1, within)]);
    for owner in [held, other] {
        ask(&mut scene, owner, 2);
    }
    let both = [told(held, "a", 2, None), told(other, "b", 2, None)];
    assert_eq!(scene.said(), both);
    assert!(scene.sent.is_empty() && scene.cleanups.is_empty());
    assert_eq!(scene.registered.get(&held), Some(&Interest::Held));
}

#[test]
fn what_is_not_held_is_not_asked_for() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    ask(&mut scene, ticket, 1);
    ask(&mut scene, OwnerId::from_bytes(OTHER), 1);
    assert_eq!(scene.said(), []);
    // It waits on.
    scene.other_releases("a");
    assert_eq!(scene.granted(2), [ticket]);
    scene.force(ticket, "a");
    scene.answer();
    scene.said();
    ask(&mut scene, ticket, 2);
    assert_eq!(scene.said(), []);
}

/// The grant that an operator meant may have expired before its session knew of it, and the same acquire been granted again.
#[test]
fn a_hold_is_not_asked_for_by_a_request_for_a_grant_before_it() {
    let (mut scene, held) = Scene::holding("a");
    let before = FencingToken::new(FIRST_TOKEN.get() - 1);
    scene.handle(Input::ReleaseRequested(held, before, request(1, None)));
    assert_eq!(scene.said(), []);
    scene.handle(Input::ReleaseRequested(held, FIRST_TOKEN, request(2, None)));
    assert_eq!(scene.said(), [told(held, "a", 2, None)]);
    // Nor is that one forgotten for it.
    scene.handle(Input::ReleaseRequested(held, before, request(3, None)));
    assert_eq!(scene.said(), []);
}

#[test]
fn a_revoked_hold_is_not_asked_for() {
    let (mut scene, held) = Scene::holding("a");
    scene.revise(|_, _| false);
    scene.said();
    assert_eq!(scene.holders("a"), 1);
    ask(&mut scene, held, 1);
    assert_eq!(scene.said(), []);
}

#[test]
fn a_session_without_a_stream_tells_nobody() {
    for end in [StreamEnd::ByPeer, StreamEnd::Cut] {
        let (mut scene, held) = Scene::holding("a");
        scene.end_stream(end);
        assert!(matches!(
            scene.session.phase(),
            Phase::Detached | Phase::Lingering
        ));
        ask(&mut scene, held, 1);
        scene.handle(Input::Writable(true));
        assert_eq!(scene.said(), []);
    }
}

#[test]
fn a_client_that_does_not_read_is_told_of_the_last_request_alone_when_it_does() {
    let (mut scene, held) = Scene::holding("a");
    let gone = scene.hold(3, acquire("b"))[0];
    scene.handle(Input::Writable(false));
    for id in 1..=1000 {
        for owner in [held, gone] {
            let request = request(id, Some(SECOND * 3));
            scene.handle(Input::ReleaseRequested(owner, NEWEST, request));
        }
    }
    assert_eq!(scene.said(), []);
    scene.force(gone, "b");
    scene.answer_all();
    scene.said();
    scene.pass(SECOND);
    scene.handle(Input::Writable(true));
    // The time runs from when it came.
    let within = Some(SECOND * 2);
    assert_eq!(scene.said(), [told(held, "a", 1000, within)]);
    for is_writable in [false, true] {
        scene.handle(Input::Writable(is_writable));
    }
    assert_eq!(scene.said(), []);
}
