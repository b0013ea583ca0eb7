//! Readers and writers of one name.

use futures_util::future::join_all;
use leasehold_proto::v1::{GrantedLock, LockMode};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, by, exclusive, once_more, semaphore, shared},
    site::everywhere,
};
use tonic::Code;

/// Sessions that wait, in this order, at one coordinator and the other.
async fn queue<const N: usize>(
    site: &Site,
    name: &str,
    modes: [LockMode; N],
) -> [(RawSession, u64); N] {
    let mut waiting = Vec::new();
    for (at, mode) in modes.into_iter().enumerate() {
        let mut session = site.session(at).await;
        let mut acquire = shared(name);
        acquire.set_mode(mode);
        let id = session.wait_for(acquire).await;
        waiting.push((session, id));
    }
    waiting.try_into().unwrap_or_else(|_| unreachable!())
}

/// Asserts that this many hold a lock and this many wait for it, in these modes. Every earlier request that was answered has
/// let in all that fit in the same step, so there is nothing to wait for.
async fn stands(site: &Site, name: &str, held: LockMode, holders: u64, waiters: &[LockMode]) {
    let view = site.view(1, name).await;
    assert_eq!(view.holder_count, holders, "{view:?}");
    assert_eq!(view.waiter_count, waiters.len() as u64, "{view:?}");
    assert_eq!(view.mode(), held, "{view:?}");
    assert_eq!(view.holders.len() as u64, holders, "{view:?}");
    let waiting: Vec<_> = view.waiters.iter().map(|waiter| waiter.mode()).collect();
    assert_eq!(waiting, waiters, "{view:?}");
}

async fn granted((session, id): &mut (RawSession, u64)) -> GrantedLock {
    session.granted_all(*id, PROMPT).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn adjacent_readers_are_let_in_together_and_no_others() {
    use LockMode::{Exclusive, Shared};
    everywhere(async |site| {
        let name = "together";
        let mut first = site.session(0).await;
        let held = first.take_one(exclusive(name)).await;
        let order = [Shared, Shared, Shared, Exclusive, Shared, Shared];
        let [mut one, two, mut three, mut writer, mut four, mut five] =
            queue(site, name, order).await;
        stands(site, name, Exclusive, 1, &order).await;

        assert!(first.release(&held).await);
        stands(site, name, Shared, 3, &order[3..]).await;
        let read = granted(&mut one).await;
        assert!(read.fencing_token > held.fencing_token);
        let last = granted(&mut three).await;
        // The last of them lets the writer in, however they go, and the writer the readers behind it.
        assert!(one.0.release(&read).await);
        stands(site, name, Shared, 2, &order[3..]).await;
        two.0.close().await;
        stands(site, name, Shared, 1, &order[3..]).await;
        assert!(three.0.release(&last).await);
        stands(site, name, Exclusive, 1, &order[4..]).await;
        let written = granted(&mut writer).await;
        assert!(writer.0.release(&written).await);
        stands(site, name, Shared, 2, &[]).await;
        let tokens = [granted(&mut four).await, granted(&mut five).await];
        for lock in tokens {
            assert!(lock.fencing_token > written.fencing_token);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_lets_the_readers_at_the_head_in_and_no_writer_in_between() {
    use LockMode::{Exclusive, Shared};
    everywhere(async |site| {
        let name = "downgrade";
        let mut first = site.session(0).await;
        let held = first.take_one(exclusive(name)).await;
        let order = [Shared, Shared, Exclusive, Shared];
        let [mut one, mut two, mut writer, _last] = queue(site, name, order).await;
        assert!(first.downgrade(&held).await);
        stands(site, name, Shared, 3, &order[2..]).await;
        granted(&mut one).await;
        granted(&mut two).await;
        let view = site.view(1, name).await;
        let tokens: Vec<_> = view.holders.iter().map(|held| held.fencing_token).collect();
        assert!(tokens.contains(&held.fencing_token), "its token stays");
        // Once more does nothing.
        assert!(first.downgrade(&held).await);
        stands(site, name, Shared, 3, &order[2..]).await;

        // With a writer at the head nobody is let in, and it waits for the last reader.
        join_all([one, two].map(|(session, _)| session.close())).await;
        stands(site, name, Shared, 1, &order[2..]).await;
        assert!(first.release(&held).await);
        let written = granted(&mut writer).await;
        assert!(writer.0.downgrade(&written).await);
        stands(site, name, Shared, 2, &[]).await;
        // What is gone can't be downgraded.
        assert!(!first.downgrade(&held).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_refused_and_the_shared_hold_stays() {
    everywhere(async |site| {
        let name = "upgrade";
        let mut session = site.session(0).await;
        let read = session.take_one(by(7, shared(name))).await;
        let id = session.ask_for(once_more(7, exclusive(name))).await;
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "UPGRADE_REFUSED", "{refusal:?}");
        assert_eq!(refusal.code, Code::FailedPrecondition as i32);
        assert!(refusal.message.contains(name), "{refusal:?}");
        let id = session.ask_for(by(7, exclusive(name))).await;
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "SELF_DEADLOCK", "{refusal:?}");
        // What it has downgraded is shared as well.
        let written = session.take_one(by(7, exclusive("downgraded"))).await;
        assert!(session.downgrade(&written).await);
        let id = session.ask_for(once_more(7, exclusive("downgraded"))).await;
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "UPGRADE_REFUSED", "{refusal:?}");
        // More permits than it has are an upgrade too, and so is another mode.
        let permits = session.take_one(by(7, semaphore("permits", 2, 3))).await;
        for asked in [
            semaphore("permits", 3, 3),
            exclusive("permits"),
            shared("permits"),
        ] {
            let id = session.ask_for(once_more(7, asked)).await;
            let refusal = session.refusal(id, PROMPT).await;
            assert_eq!(refusal.reason, "UPGRADE_REFUSED", "{refusal:?}");
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
async fn permits_can_not_be_downgraded() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let permits = session.take_one(semaphore("permits", 3, 3)).await;
        let id = session.ask_downgrade(&permits).await;
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "NOT_EXCLUSIVE", "{refusal:?}");
        assert_eq!(refusal.code, Code::FailedPrecondition as i32);
        let view = site.view(1, "permits").await;
        assert_eq!(view.mode(), LockMode::Semaphore);
        assert_eq!(view.permits_taken, 3);
        // By whoever does not hold them, nothing at all is done.
        let mut other = site.session(1).await;
        assert!(!other.downgrade(&permits).await);
        assert_eq!(site.view(1, "permits").await.permits_taken, 3);
        assert!(session.release(&permits).await);
    })
    .await;
}
