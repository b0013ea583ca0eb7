//! Locks that an actor holds more than once.

use leasehold_proto::v1::{SessionAcquire, SessionFailure};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, by, exclusive, for_at_most, once_more, semaphore, several, shared},
    site::everywhere,
};
use std::time::Duration;
use tonic::Code;

const ME: u64 = 7;
const OTHER: u64 = 8;

async fn refused(session: &mut RawSession, acquire: SessionAcquire) -> SessionFailure {
    let id = session.ask_for(acquire).await;
    session.refusal(id, PROMPT).await
}

/// Checks the hold count that others see, which follows the session's own.
async fn told(site: &Site, name: &str, count: u32) {
    site.seen(1, name, &format!("a hold count of {count}"), |view| {
        view.holders.len() == 1 && view.holders[0].hold_count == count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_holds_a_lock_as_often_as_it_asks_in_every_mode() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        for acquire in [
            exclusive("counted/exclusive"),
            shared("counted/shared"),
            semaphore("counted/semaphore", 2, 3),
        ] {
            let name = acquire.name.clone();
            let first = session.take_one(once_more(ME, acquire.clone())).await;
            assert_eq!(first.hold_count, 1);
            assert_eq!(site.view(1, &name).await.holders[0].actor, ME);
            for count in 2..=4 {
                let again = session.take_one(once_more(ME, acquire.clone())).await;
                assert_eq!(again.hold_count, count);
                assert_eq!(again.owner_id, first.owner_id);
                assert_eq!(again.fencing_token, first.fencing_token);
            }
            told(site, &name, 4).await;
            let view = site.view(1, &name).await;
            assert_eq!(view.permits_taken, view.holders[0].permits, "{view:?}");
            for count in [3, 2, 1] {
                let released = session.release_once(&first).await;
                assert!(released.released);
                assert_eq!(released.hold_count, count);
                told(site, &name, count).await;
            }
            let released = session.release_once(&first).await;
            assert_eq!((released.released, released.hold_count), (true, 0));
            assert_eq!(site.view(1, &name).await.holder_count, 0);
            let released = session.release_once(&first).await;
            assert_eq!((released.released, released.hold_count), (false, 0));
        }
        // An exclusive hold does for who asks to share, and stays exclusive; fewer permits do, too.
        let held = session.take_one(by(ME, exclusive("covers"))).await;
        let again = session.take_one(once_more(ME, shared("covers"))).await;
        assert_eq!((&again.owner_id, again.hold_count), (&held.owner_id, 2));
        assert!(!site.is_free_for(1, shared("covers")).await);
        let held = session.take_one(by(ME, semaphore("permits", 2, 3))).await;
        let fewer = once_more(ME, semaphore("permits", 1, 3));
        let again = session.take_one(fewer).await;
        assert_eq!((&again.owner_id, again.hold_count), (&held.owner_id, 2));
        assert_eq!(site.view(1, "permits").await.permits_taken, 2);
        session.close().await;
    })
    .await;
}

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
            let refusal = refused(&mut session, by(ME, acquire.clone())).await;
            assert_eq!(refusal.reason, "SELF_DEADLOCK", "{refusal:?}");
            assert_eq!(refusal.code, Code::FailedPrecondition as i32);
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
            let refusal = refused(&mut session, acquire).await;
            assert_eq!(refusal.reason, "SELF_DEADLOCK", "{refusal:?}");
        }
        assert!(other.release(&held).await);
        let held = session.granted_all(waiting, PROMPT).await;
        // Among several names as well, where nothing of the others is taken.
        let several = several(["self/free", "self/waited"]);
        let refusal = refused(&mut session, by(ME, several)).await;
        assert_eq!(refusal.reason, "SELF_DEADLOCK", "{refusal:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn several_names_of_which_it_holds_some() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let mut other = site.session(1).await;
        let a = session.take_one(by(ME, exclusive("some/a"))).await;
        let all = || once_more(ME, several(["some/b", "some/a", "some/c"]));
        let held = session.take(all()).await;
        let seen: Vec<_> = held
            .iter()
            .map(|lock| (lock.name.as_str(), lock.hold_count))
            .collect();
        assert_eq!(seen, [("some/b", 1), ("some/a", 2), ("some/c", 1)]);
        assert_eq!(held[1].owner_id, a.owner_id);
        assert_eq!(held[1].fencing_token, a.fencing_token);
        // Once more all of them: nothing is asked of the store.
        let again = session.take(all()).await;
        let counts: Vec<_> = again.iter().map(|lock| lock.hold_count).collect();
        assert_eq!(counts, [2, 3, 2]);
        for (lock, left) in [(&held[0], 1), (&held[2], 1), (&a, 2), (&a, 1)] {
            assert_eq!(session.release_once(lock).await.hold_count, left);
        }
        for lock in [&held[0], &held[2]] {
            assert_eq!(session.release_once(lock).await.hold_count, 0);
        }
        told(site, "some/a", 1).await;

        // Where the rest can't be had, what it held before stays as it was, also while it waits.
        let busy = other.take_one(exclusive("some/b")).await;
        let id = session.ask_for(for_at_most(Duration::ZERO, all())).await;
        session.not_granted(id, PROMPT).await;
        told(site, "some/a", 1).await;
        let id = session.wait_for(all()).await;
        // It is held once more from here on: what is released meanwhile stays held for that.
        assert_eq!(session.release_once(&a).await.hold_count, 1);
        assert_eq!(site.view(1, "some/a").await.holder_count, 1);
        session.cancel(id).await;
        session.not_granted(id, PROMPT).await;
        site.free("some/a").await;
        site.free("some/c").await;
        assert!(other.release(&busy).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_names_of_which_a_held_one_is_lost_meanwhile_are_not_granted() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let mut other = site.session(1).await;
        let a = session.take_one(by(ME, exclusive("lost/a"))).await;
        let b = other.take_one(exclusive("lost/b")).await;
        let all = once_more(ME, several(["lost/a", "lost/b", "lost/c"]));
        let id = session.wait_for(all).await;
        site.force(1, "lost/a").await;
        let lost = session.lost(PROMPT).await;
        assert_eq!(
            (lost[0].owner_id.as_slice(), lost.len()),
            (a.owner_id.as_slice(), 1)
        );
        assert!(other.release(&b).await);
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "LOCK_LOST", "{refusal:?}");
        assert_eq!(refusal.code, Code::Aborted as i32);
        for name in ["lost/a", "lost/b", "lost/c"] {
            site.free(name).await;
        }
        assert!(!session.release(&a).await);
        let held = session
            .take(by(ME, several(["lost/a", "lost/b", "lost/c"])))
            .await;
        assert!(held.iter().all(|lock| lock.hold_count == 1));
        session.close().await;
    })
    .await;
}
