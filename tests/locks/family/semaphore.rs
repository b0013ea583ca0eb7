//! Permits of a semaphore.

use std::{collections::HashMap, time::Duration};

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest, LockMode, SessionAcquire};
use leasehold_tests::{
    Site,
    raw::{PROMPT, exclusive, for_at_most, release_request, semaphore, several},
    site::everywhere,
};
use tonic::Code;
use tonic_types::StatusExt;

/// Asks for one permit of another limit, by a session and by a unary call: both are refused with the limit in force.
async fn refused(site: &Site, at: usize, name: &str, limit: u32, in_force: u32) {
    let told = HashMap::from([
        ("limit".to_owned(), in_force.to_string()),
        ("limit_revision".to_owned(), "0".to_owned()),
    ]);
    let mut session = site.session(at).await;
    for wait in [Duration::ZERO, PROMPT] {
        let acquire = for_at_most(wait, semaphore(name, 1, limit));
        let id = session.ask_for(acquire).await;
        let refusal = super::refused(&mut session, id, "LIMIT_MISMATCH").await;
        assert_eq!(refusal.metadata, told);
        let said = format!("limit of {in_force}");
        assert!(refusal.message.contains(&said), "{refusal:?}");
        assert!(refusal.message.contains(name), "{refusal:?}");
    }
    let request = AcquireRequest {
        name: name.to_owned(),
        mode: LockMode::Semaphore.into(),
        limit,
        ..AcquireRequest::default()
    };
    let status = site.unary(at).acquire(request).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, "LIMIT_MISMATCH");
    assert_eq!(info.metadata, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_is_agreed_by_those_who_hold_and_wait() {
    everywhere(async |site| {
        let name = "limit";
        let mut holder = site.session(0).await;
        let held = holder.take_one(semaphore(name, 2, 3)).await;
        refused(site, 1, name, 4, 3).await;
        let mut waiter = site.session(1).await;
        let id = waiter.wait_for(semaphore(name, 2, 3)).await;
        refused(site, 0, name, 2, 3).await;
        let view = site.view(1, name).await;
        assert_eq!((view.limit, view.permits_taken), (3, 2), "{view:?}");
        assert_eq!(view.mode(), LockMode::Semaphore);
        assert_eq!(view.holders[0].permits, 2);
        assert_eq!(view.waiters[0].permits, 2);
        assert_eq!(view.waiters[0].mode(), LockMode::Semaphore);

        assert!(holder.release(&held).await);
        let held = waiter.granted_all(id, PROMPT).await;
        refused(site, 0, name, 4, 3).await;
        assert!(waiter.release(&held[0]).await);
        assert_eq!(site.view(0, name).await.limit, 0);
        // Nobody is left to agree with.
        let held = holder.take_one(semaphore(name, 4, 4)).await;
        refused(site, 1, name, 3, 4).await;
        assert!(holder.release(&held).await);

        // Whoever waits behind another mode says it as well, and several names are refused by any of them.
        let held = holder.take_one(exclusive(name)).await;
        let id = waiter.wait_for(semaphore(name, 1, 5)).await;
        refused(site, 0, name, 6, 5).await;
        let several = SessionAcquire {
            mode: LockMode::Semaphore.into(),
            limit: 6,
            ..several(["limit/free", name])
        };
        let mut third = site.session(0).await;
        let asked = third.ask_for(several).await;
        super::refused(&mut third, asked, "LIMIT_MISMATCH").await;
        assert_eq!(site.view(0, "limit/free").await.holder_count, 0);
        waiter.cancel(id).await;
        waiter.not_granted(id, PROMPT).await;
        let id = waiter.wait_for(semaphore(name, 1, 6)).await;
        assert!(holder.release(&held).await);
        waiter.granted_all(id, PROMPT).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_semaphore_there_may_be() {
    const MOST: u32 = 1_000_000;
    everywhere(async |site| {
        let mut session = site.session(0).await;
        // Unset is one.
        session.take_one(semaphore("most", 0, MOST)).await;
        session.take_one(semaphore("most", MOST - 2, MOST)).await;
        assert!(!site.is_free_for(1, semaphore("most", 2, MOST)).await);
        assert!(site.is_free_for(1, semaphore("most", 1, MOST)).await);
        let view = site.view(1, "most").await;
        assert_eq!((view.limit, view.permits_taken), (MOST, MOST - 1));
        session.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_granted_to_unary_callers_at_once_and_in_turn() {
    everywhere(async |site| {
        let name = "left";
        let mut holder = site.session(0).await;
        let three = holder.take_one(semaphore(name, 3, 5)).await;
        let two = holder.take_one(semaphore(name, 2, 5)).await;
        let asks = |wait| AcquireRequest {
            name: name.to_owned(),
            mode: LockMode::Semaphore.into(),
            permits: 4,
            limit: 5,
            permits_at_least: 1,
            wait: leasehold_tests::raw::wire(wait),
            ..AcquireRequest::default()
        };
        let mut unary = site.unary(1);
        let busy = unary.acquire(asks(Duration::ZERO)).await.unwrap();
        let busy = busy.into_inner();
        assert_eq!((busy.outcome(), busy.permits), (AcquireOutcome::Busy, 0));
        let waiting = tokio::spawn(async move { unary.acquire(asks(PROMPT)).await });
        site.seen(0, name, "a unary call waits", |view| view.waiter_count == 1)
            .await;
        assert!(holder.release(&two).await);
        let from_the_queue = waiting.await.unwrap().unwrap().into_inner();
        assert!(holder.reduce(&three, 1).await);
        let mut unary = site.unary(0);
        let at_once = unary.acquire(asks(Duration::ZERO)).await.unwrap();
        for granted in [from_the_queue, at_once.into_inner()] {
            assert_eq!(granted.permits, 2);
            let request = release_request(name, &granted.owner_id);
            let released = unary.release(request).await.unwrap().into_inner();
            assert!(released.released);
        }
        assert!(holder.release(&three).await);
    })
    .await;
}
