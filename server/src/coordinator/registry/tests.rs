#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use futures_util::FutureExt;

use super::*;

fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn name() -> LockName {
    LockName::parse("a").unwrap()
}

fn granted(token: i64) -> Delivery {
    Delivery::Granted {
        token: FencingToken::new(token),
        sent_at: Moment::from_micros(1),
    }
}

/// The token of the grant that a waiter was given, if it was.
fn token(mut waiter: oneshot::Receiver<Delivery>) -> Option<i64> {
    match (&mut waiter).now_or_never()?.unwrap() {
        Delivery::Granted { token, .. } => Some(token.get()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_grant_reaches_its_waiter_whether_it_is_known_to_wait_by_then_or_later() {
    let registry = Registry::default();
    for (number, waits_first) in [(1, true), (2, false)] {
        let owner = owner(number);
        registry.ask(owner);
        assert!(registry.knows(&owner) && registry.waits(&owner));
        let known = waits_first.then(|| registry.wait(owner));
        assert!(registry.deliver(&owner, granted(7)));
        // A second one is nobody's, and the first stands.
        assert!(!registry.deliver(&owner, granted(8)));
        let waiter = known.unwrap_or_else(|| registry.wait(owner));
        assert_eq!(token(waiter), Some(7));
        // It is on its way to whoever asked.
        assert!(registry.knows(&owner) && !registry.waits(&owner));
        registry.forget(&owner);
        assert!(!registry.knows(&owner));
    }
}

#[test]
fn a_grant_to_nobody_and_to_one_that_gave_up_is_not_taken() {
    let registry = Registry::default();
    assert!(!registry.deliver(&owner(1), granted(7)));
    registry.ask(owner(1));
    drop(registry.wait(owner(1)));
    assert!(!registry.deliver(&owner(1), granted(7)));
    assert!(registry.knows(&owner(1)), "whoever gave it up releases it");
    registry.ask(owner(2));
    let waiter = registry.wait(owner(2));
    registry.in_flight(&owner(2));
    assert!(!registry.deliver(&owner(2), granted(7)));
    assert!(waiter.now_or_never().unwrap().is_err());
}

#[test]
fn an_owner_id_that_is_known_is_not_claimed() {
    let registry = Registry::default();
    assert!(registry.claim(owner(1)));
    assert!(registry.waits(&owner(1)));
    assert!(!registry.claim(owner(1)));
    registry.in_flight(&owner(1));
    assert!(!registry.claim(owner(1)));
    registry.forget(&owner(1));
    assert!(registry.claim(owner(1)));
}

#[test]
fn whoever_has_what_moved_is_told() {
    let registry = Registry::default();
    let inbox = Arc::new(Inbox::default());
    registry.held(&owner(1), Arc::clone(&inbox));
    registry.moved(&name(), &owner(1));
    let mut news = Vec::new();
    inbox.take(&mut news);
    let [News::Taken(taken)] = &news[..] else {
        panic!("{news:?}");
    };
    assert_eq!((taken.owner, taken.loss), (owner(1), Loss::Resumed));
    registry.ask(owner(2));
    let waiter = registry.wait(owner(2));
    registry.moved(&name(), &owner(2));
    let told = waiter.now_or_never().unwrap().unwrap();
    assert!(matches!(told, Delivery::Moved), "{told:?}");
    assert!(registry.knows(&owner(2)) && !registry.waits(&owner(2)));
    // Of what nobody has there is nobody to tell.
    registry.moved(&name(), &owner(3));
    assert!(!registry.knows(&owner(3)));
}
