use leasehold_core::{
    id::{FencingToken, ReleaseRequestId},
    name::ReleaseReason,
    time::Moment,
};

use super::*;
use crate::coordinator::tests::site::owner;

fn granted(token: i64) -> RegistryEvent {
    RegistryEvent::Granted {
        token: FencingToken::new(token),
        permits: None,
        sent_at: Moment::from_micros(1),
    }
}

/// Returns the events in a session's inbox.
fn heard(inbox: &Inbox) -> Vec<(OwnerId, RegistryEvent)> {
    let mut events = Vec::new();
    inbox.take(&mut events);
    let events = events.into_iter().map(|event| match event {
        InboxEvent::Registry(owner, event) => (owner, event),
        other => panic!("{other:?}"),
    });
    events.collect()
}

#[test]
fn a_grant_reaches_its_waiter_once() {
    let registry = Registry::default();
    let session = Arc::new(Inbox::default());
    for number in [1, 2] {
        registry.wait(owner(number), Arc::clone(&session));
    }
    for number in [1, 2] {
        let owner = owner(number);
        assert!(registry.knows(&owner) && registry.waits(&owner));
        assert!(registry.deliver(&owner, granted(7)));
        // A second one is nobody's, and the first stands.
        assert!(!registry.deliver(&owner, granted(8)));
        // It is on its way to whoever asked.
        assert!(registry.knows(&owner) && !registry.waits(&owner));
        registry.forget(&owner);
        assert!(!registry.knows(&owner));
    }
    let both = [1, 2].map(|number| (owner(number), granted(7)));
    assert_eq!(heard(&session), both);
}

#[test]
fn a_grant_to_nobody_and_to_one_that_gave_up_is_not_taken() {
    let registry = Registry::default();
    assert!(!registry.deliver(&owner(1), granted(7)));
    let session = Arc::new(Inbox::default());
    registry.wait(owner(2), Arc::clone(&session));
    registry.settle(&owner(2));
    assert!(!registry.deliver(&owner(2), granted(7)));
    assert!(registry.knows(&owner(2)), "it is being released");
    assert_eq!(heard(&session), []);
}

#[test]
fn an_owner_id_that_is_known_is_not_claimed() {
    let registry = Registry::default();
    let session = Arc::new(Inbox::default());
    let claim = || registry.claim(owner(1), Arc::clone(&session));
    assert!(claim());
    assert!(registry.waits(&owner(1)));
    assert!(!claim());
    registry.settle(&owner(1));
    assert!(!claim());
    registry.forget(&owner(1));
    assert!(claim());
}

#[test]
fn whoever_has_what_moved_is_told() {
    let registry = Registry::default();
    let session = Arc::new(Inbox::default());
    registry.hold(&owner(1), Arc::clone(&session));
    registry.moved(&owner(1));
    let lost = RegistryEvent::Lost(Loss::Resumed);
    assert_eq!(heard(&session), [(owner(1), lost)]);
    registry.wait(owner(2), Arc::clone(&session));
    registry.moved(&owner(2));
    assert_eq!(heard(&session), [(owner(2), RegistryEvent::Moved)]);
    assert!(registry.knows(&owner(2)) && !registry.waits(&owner(2)));
    // Of what nobody has there is nobody to tell.
    registry.moved(&owner(3));
    assert!(!registry.knows(&owner(3)));
}

#[test]
fn a_request_to_release_reaches_the_session_that_holds_and_replaces_one_that_it_has_not_read() {
    let registry = Registry::default();
    let session = Arc::new(Inbox::default());
    let request = |number| {
        Arc::new(ReleaseRequest {
            id: ReleaseRequestId::new(number),
            reason: ReleaseReason::default(),
            within: None,
        })
    };
    let token = FencingToken::new(5);
    registry.ask(&owner(1), token, request(1));
    registry.wait(owner(1), Arc::clone(&session));
    registry.ask(&owner(1), token, request(1));
    for number in [1, 2] {
        registry.hold(&owner(number), Arc::clone(&session));
    }
    for number in 2..1000 {
        registry.ask(&owner(1), token, request(number));
    }
    // For a grant to the same owner id before that one.
    registry.ask(&owner(1), FencingToken::new(4), request(1));
    registry.take(&owner(2), Loss::Forced);
    registry.ask(&owner(2), token, request(1000));
    let mut events = Vec::new();
    session.take(&mut events);
    let asked = events.iter().filter_map(|event| match event {
        InboxEvent::ReleaseRequested(owner, _, request) => Some((*owner, request.id.get())),
        _ => None,
    });
    let expected = [(owner(1), 999), (owner(2), 1000)];
    assert_eq!(asked.collect::<Vec<_>>(), expected);
    assert_eq!(events.len(), 3);
    // It is being released.
    registry.settle(&owner(1));
    registry.ask(&owner(1), token, request(1001));
    assert_eq!(heard(&session), []);
}
