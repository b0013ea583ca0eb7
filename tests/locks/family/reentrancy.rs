//! Locks that an actor holds more than once.

use std::time::Duration;

use leasehold_tests::{
    raw::{PROMPT, by, exclusive, for_at_most, once_more, semaphore, several, shared},
    site::everywhere,
};

use super::refused;

const ME: u64 = 7;
const OTHER: u64 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_that_would_wait_for_itself_is_refused_at_once() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        for acquire in [
            exclusive("self/exclusive"),
            shared("self/shared"),
            semaphore("self/semaphore", 1, 3),
        ] {
            let held = session.take_one(by(ME, acquire.clone())).await;
            let id = session.ask_for(by(ME, acquire.clone())).await;
            let refusal = refused(&mut session, id, "SELF_DEADLOCK").await;
            assert!(refusal.message.contains(&acquire.name), "{refusal:?}");
            let view = site.view(1, &acquire.name).await;
            assert_eq!((view.holder_count, view.waiter_count), (1, 0), "{view:?}");
            assert!(session.release(&held).await);
        }
        // Nor may it wait for the same lock twice, reentrant or not.
        let mut other = site.session(1).await;
        let held = other.take_one(exclusive("self/waited")).await;
        let waiting = session.wait_for(by(ME, exclusive("self/waited"))).await;
        for acquire in [
            by(ME, exclusive("self/waited")),
            once_more(ME, exclusive("self/waited")),
            by(ME, several(["self/free", "self/waited"])),
        ] {
            let id = session.ask_for(acquire).await;
            refused(&mut session, id, "SELF_DEADLOCK").await;
        }
        assert!(other.release(&held).await);
        let held = session.granted_all(waiting, PROMPT).await;
        // Among several names as well, where nothing of the others is taken.
        let several = several(["self/free", "self/waited"]);
        let id = session.ask_for(by(ME, several)).await;
        refused(&mut session, id, "SELF_DEADLOCK").await;
        assert_eq!(site.view(1, "self/free").await.holder_count, 0);
        assert!(session.release(&held[0]).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_actors_of_a_session_and_nobody_queue_like_strangers() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let held = session.take_one(by(ME, exclusive("strangers"))).await;
        let mut order = Vec::new();
        for acquire in [
            once_more(OTHER, exclusive("strangers")),
            exclusive("strangers"),
            exclusive("strangers"),
        ] {
            assert!(!site.is_free_for(1, acquire.clone()).await);
            order.push(session.wait_for(acquire).await);
        }
        let view = site.view(1, "strangers").await;
        let actors: Vec<_> = view.waiters.iter().map(|waiter| waiter.actor).collect();
        assert_eq!(actors, [OTHER, 0, 0], "{view:?}");
        // The holder gets in again, past them all.
        let again = session
            .take_one(once_more(ME, exclusive("strangers")))
            .await;
        assert_eq!(again.hold_count, 2);
        assert_eq!(site.view(1, "strangers").await.waiter_count, 3);
        assert_eq!(session.release_once(&held).await.hold_count, 1);
        assert_eq!(session.release_once(&held).await.hold_count, 0);
        let mut newest = held.fencing_token;
        for id in order {
            let next = session.granted_all(id, PROMPT).await.remove(0);
            assert!(next.fencing_token > newest);
            assert_eq!(next.hold_count, 1);
            assert_ne!(next.owner_id, held.owner_id);
            newest = next.fencing_token;
            assert!(session.release(&next).await);
        }
        // The same number in another session is another actor.
        let mut foreign = site.session(1).await;
        session.take_one(by(ME, exclusive("strangers"))).await;
        let id = foreign
            .ask_for(for_at_most(
                Duration::ZERO,
                once_more(ME, exclusive("strangers")),
            ))
            .await;
        foreign.not_granted(id, PROMPT).await;
        session.close().await;
    })
    .await;
}
