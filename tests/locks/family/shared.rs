//! Changes of a hold that its mode does not allow.

use leasehold_proto::v1::LockMode;
use leasehold_tests::{
    raw::{by, exclusive, once_more, semaphore, shared},
    site::everywhere,
};

use super::refused;

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_refused_and_the_shared_hold_stays() {
    everywhere(async |site| {
        let name = "upgrade";
        let mut session = site.session(0).await;
        let read = session.take_one(by(7, shared(name))).await;
        let id = session.ask_for(once_more(7, exclusive(name))).await;
        let refusal = refused(&mut session, id, "UPGRADE_REFUSED").await;
        assert!(refusal.message.contains(name), "{refusal:?}");
        let id = session.ask_for(by(7, exclusive(name))).await;
        refused(&mut session, id, "SELF_DEADLOCK").await;
        // What it has downgraded is shared as well.
        let written = session.take_one(by(7, exclusive("downgraded"))).await;
        assert!(session.downgrade(&written).await);
        let id = session.ask_for(once_more(7, exclusive("downgraded"))).await;
        refused(&mut session, id, "UPGRADE_REFUSED").await;
        // More permits than it has are an upgrade too, and so is another mode.
        let permits = session.take_one(by(7, semaphore("permits", 2, 3))).await;
        for asked in [
            semaphore("permits", 3, 3),
            exclusive("permits"),
            shared("permits"),
        ] {
            let id = session.ask_for(once_more(7, asked)).await;
            refused(&mut session, id, "UPGRADE_REFUSED").await;
        }

        for (lock, name) in [
            (&read, name),
            (&written, "downgraded"),
            (&permits, "permits"),
        ] {
            let view = site.view(1, name).await;
            assert_eq!((view.holder_count, view.waiter_count), (1, 0), "{view:?}");
            assert_eq!(view.holders[0].hold_count, 1, "{view:?}");
            assert!(session.release(lock).await);
        }
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
        let view = site.view(1, "permits").await;
        assert_eq!(view.mode(), LockMode::Semaphore);
        assert_eq!(view.permits_taken, 3);
        // By whoever does not hold them, nothing at all is done.
        let mut other = site.session(1).await;
        assert!(!other.downgrade(&permits).await);
        assert!(!other.reduce(&permits, 1).await);
        assert_eq!(site.view(1, "permits").await.permits_taken, 3);
        assert!(session.release(&permits).await);
        let alone = session.take_one(exclusive("alone")).await;
        let id = session.ask_reduce(&alone, 1).await;
        refused(&mut session, id, "NOT_A_SEMAPHORE").await;
        assert!(session.release(&alone).await);
    })
    .await;
}
