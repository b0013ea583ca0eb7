//! Requests that do not fit what their actor holds: each is refused with its reason, and the hold stays as it was.

use leasehold_tests::{
    raw::{by, exclusive, once_more, semaphore, several, shared},
    site::everywhere,
};

use super::refused;

const ME: u64 = 7;

#[tokio::test(flavor = "multi_thread")]
async fn acquires_that_do_not_fit_what_their_actor_holds_are_refused() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let mut held = Vec::new();
        for acquire in [
            exclusive("alone"),
            shared("read"),
            semaphore("permits", 2, 3),
        ] {
            held.push(session.take_one(by(ME, acquire)).await);
        }
        for (acquire, reason) in [
            (by(ME, exclusive("alone")), "SELF_DEADLOCK"),
            (by(ME, shared("read")), "SELF_DEADLOCK"),
            (by(ME, several(["free", "read"])), "SELF_DEADLOCK"),
            (once_more(ME, exclusive("read")), "UPGRADE_REFUSED"),
            (once_more(ME, shared("permits")), "UPGRADE_REFUSED"),
            (once_more(ME, semaphore("permits", 3, 3)), "UPGRADE_REFUSED"),
        ] {
            let name = acquire.name.clone();
            let id = session.ask_for(acquire).await;
            let refusal = refused(&mut session, id, reason).await;
            assert!(refusal.message.contains(&name), "{refusal:?}");
        }
        // The same number in another session is another actor: it waits.
        let mut other = site.session(1).await;
        let waiting = other.wait_for(by(ME, exclusive("alone"))).await;
        for (lock, waiters) in held.iter().zip([1, 0, 0]) {
            let view = site.view(1, &lock.name).await;
            assert_eq!((view.holder_count, view.waiter_count), (1, waiters));
            assert_eq!(view.holders[0].hold_count, 1, "{view:?}");
            assert!(session.release(lock).await);
        }
        other
            .granted_all(waiting, leasehold_tests::raw::PROMPT)
            .await;
        assert_eq!(site.view(1, "free").await.holder_count, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_can_not_be_downgraded_nor_anything_else_be_given_back_in_part() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let permits = session.take_one(semaphore("permits", 3, 3)).await;
        let id = session.ask_downgrade(&permits).await;
        refused(&mut session, id, "NOT_EXCLUSIVE").await;
        assert_eq!(site.view(1, "permits").await.permits_taken, 3);

        let alone = session.take_one(exclusive("alone")).await;
        let id = session.ask_reduce(&alone, 1).await;
        refused(&mut session, id, "NOT_A_SEMAPHORE").await;
        for lock in [&permits, &alone] {
            assert!(session.release(lock).await);
        }
    })
    .await;
}
