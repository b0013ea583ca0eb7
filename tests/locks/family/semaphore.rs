//! Permits of a semaphore.

use std::{collections::HashMap, time::Duration};

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, LockMode, ReleaseRequest, SessionAcquire,
};
use leasehold_tests::{
    Site,
    raw::{
        PROMPT, at_least, each, exclusive, for_at_most, once_more, revised, semaphore, several,
        shared,
    },
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
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "LIMIT_MISMATCH", "{refusal:?}");
        assert_eq!(refusal.code, Code::FailedPrecondition as i32);
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
        let refusal = third.ask_for(several).await;
        let refusal = third.refusal(refusal, PROMPT).await;
        assert_eq!(refusal.reason, "LIMIT_MISMATCH", "{refusal:?}");
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
async fn a_greater_revision_replaces_the_limit_in_use_and_a_smaller_one_follows() {
    everywhere(async |site| {
        let name = "revised";
        let mut former = site.session(0).await;
        let mut next = site.session(1).await;
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(former.take_one(semaphore(name, 1, 2)).await);
        }
        let waiting = former.wait_for(semaphore(name, 2, 2)).await;
        // What waits elsewhere gets in at once, although the acquire itself has to wait.
        let asks = next.wait_for(revised(3, semaphore(name, 1, 4))).await;
        let both = former.granted_all(waiting, PROMPT).await.remove(0);
        let view = site.view(0, name).await;
        assert_eq!(
            (view.limit, view.limit_revision, view.permits_taken),
            (4, 3, 4),
            "{view:?}"
        );
        // The former version gets along with it, and changes nothing back.
        assert!(!site.is_free_for(0, semaphore(name, 1, 2)).await);
        assert!(!site.is_free_for(1, revised(2, semaphore(name, 1, 9))).await);
        let id = former.ask_for(revised(3, semaphore(name, 1, 5))).await;
        let refusal = former.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "LIMIT_MISMATCH", "{refusal:?}");
        assert_eq!(refusal.metadata["limit"], "4");
        assert_eq!(refusal.metadata["limit_revision"], "3");

        // Lowered: nobody loses anything, nobody gets in before there is room, and an acquire of too many permits is refused.
        let mut big = site.session(0).await;
        let too_big = big.wait_for(semaphore(name, 2, 2)).await;
        let unary = AcquireRequest {
            name: name.to_owned(),
            mode: LockMode::Semaphore.into(),
            limit: 1,
            limit_revision: 4,
            ..AcquireRequest::default()
        };
        let busy = site.unary(1).acquire(unary).await.unwrap().into_inner();
        assert_eq!(busy.outcome(), AcquireOutcome::Busy);
        let view = site.view(0, name).await;
        assert_eq!(
            (view.limit, view.permits_taken, view.waiter_count),
            (1, 4, 2),
            "{view:?}"
        );
        for lock in held.iter().chain([&both]) {
            assert!(former.release(lock).await);
        }
        let lock = next.granted_all(asks, PROMPT).await.remove(0);
        assert!(next.release(&lock).await);
        let refusal = big.refusal(too_big, PROMPT).await;
        assert_eq!(refusal.reason, "LIMIT_MISMATCH", "{refusal:?}");
        assert_eq!(refusal.metadata["limit"], "1");
        site.free(name).await;

        // When everybody has let go, it stays so, until a force release.
        let lock = former.take_one(semaphore(name, 1, 2)).await;
        assert!(!site.is_free_for(1, semaphore(name, 1, 2)).await);
        site.force(1, name).await;
        former.lost(PROMPT).await;
        assert!(!former.release(&lock).await);
        let lock = former.take_one(revised(1, semaphore(name, 2, 2))).await;
        assert_eq!(site.view(1, name).await.limit_revision, 1);

        // Once more, an actor holds what it holds, whatever limit it names.
        assert!(former.release(&lock).await);
        let first = former.take_one(once_more(7, semaphore(name, 1, 2))).await;
        let again = once_more(7, revised(9, semaphore(name, 1, 6)));
        assert_eq!(former.take_one(again).await.hold_count, 2);
        assert_eq!(site.view(1, name).await.limit, 2);
        former.release_once(&first).await;
        former.release_once(&first).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_that_are_given_back_let_waiters_in_and_the_others_stay_held() {
    everywhere(async |site| {
        let name = "reduced";
        let mut first = site.session(0).await;
        let mut second = site.session(1).await;
        let many = first.take_one(semaphore(name, 5, 5)).await;
        let waits = second.wait_for(semaphore(name, 2, 5)).await;
        let behind = first.wait_for(semaphore(name, 2, 5)).await;
        assert!(first.reduce(&many, 2).await);
        let two = second.granted_all(waits, PROMPT).await.remove(0);
        let view = site.view(1, name).await;
        assert_eq!((view.permits_taken, view.waiter_count), (4, 1), "{view:?}");
        let mut kept = view.holders.iter();
        let kept = kept.find(|holder| holder.fencing_token == many.fencing_token);
        assert_eq!(kept.unwrap().permits, 2);
        // Asked for again, or for more, it changes nothing.
        for permits in [2, 4] {
            assert!(first.reduce(&many, permits).await);
        }
        assert_eq!(site.view(0, name).await.permits_taken, 4);
        assert!(first.reduce(&many, 1).await);
        let next = first.granted_all(behind, PROMPT).await.remove(0);
        assert_eq!(site.view(1, name).await.permits_taken, 5);

        // Nobody else may give them back, and who holds none has none to give back.
        assert!(!second.reduce(&many, 1).await);
        let alone = second.take_one(exclusive("alone")).await;
        let id = second.ask_reduce(&alone, 1).await;
        let refusal = second.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "NOT_A_SEMAPHORE", "{refusal:?}");
        assert_eq!(refusal.code, Code::FailedPrecondition as i32);
        assert!(second.release(&alone).await);

        // The hold goes on, and its end gives back what is left.
        for lock in [&many, &next] {
            assert!(first.release(lock).await);
        }
        assert!(!first.reduce(&many, 1).await);
        assert_eq!(site.view(0, name).await.permits_taken, 2);
        assert!(second.release(&two).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_that_gave_permits_back_holds_no_more_than_the_rest_once_more() {
    everywhere(async |site| {
        let name = "reduced by an actor";
        let mut session = site.session(0).await;
        let held = session.take_one(once_more(7, semaphore(name, 4, 5))).await;
        assert!(session.reduce(&held, 2).await);
        let id = session.ask_for(once_more(7, semaphore(name, 3, 5))).await;
        let refusal = session.refusal(id, PROMPT).await;
        assert_eq!(refusal.reason, "UPGRADE_REFUSED", "{refusal:?}");
        let again = session.take_one(once_more(7, semaphore(name, 2, 5))).await;
        assert_eq!(again.hold_count, 2);
        assert_eq!(site.view(1, name).await.permits_taken, 2);
        session.release_once(&held).await;
        session.release_once(&held).await;
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
async fn what_is_left_is_granted_at_once_in_turn_and_to_unary_callers() {
    everywhere(async |site| {
        let name = "left";
        let left = |least, most| at_least(least, semaphore(name, most, 5));
        let (mut first, mut second) = (site.session(0).await, site.session(1).await);
        let two = first.take_one(semaphore(name, 2, 5)).await;
        let three = second.take_one(left(3, 5)).await;
        assert_eq!((two.permits, three.permits), (2, 3));
        // It waits until what it needs is free, in its turn, and gets no more than there is.
        let waits = first.wait_for(left(2, 4)).await;
        let behind = second.wait_for(left(1, 5)).await;
        let view = site.view(1, name).await;
        let waiters = view.waiters.iter();
        let waiters = waiters.map(|w| (w.permits, w.permits_at_least));
        assert_eq!(waiters.collect::<Vec<_>>(), [(4, 2), (5, 1)]);
        assert!(second.reduce(&three, 2).await);
        assert_eq!(site.view(0, name).await.waiter_count, 2);
        assert!(second.reduce(&three, 1).await);
        let waited = first.granted_all(waits, PROMPT).await.remove(0);
        assert_eq!(waited.permits, 2);
        assert!(first.release(&two).await);
        let last = second.granted_all(behind, PROMPT).await.remove(0);
        assert_eq!(last.permits, 2);
        assert_eq!(site.view(1, name).await.permits_taken, 5);

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
        assert!(second.release(&last).await);
        let from_the_queue = waiting.await.unwrap().unwrap().into_inner();
        assert!(first.release(&waited).await);
        let mut unary = site.unary(0);
        let at_once = unary.acquire(asks(Duration::ZERO)).await.unwrap();
        for granted in [from_the_queue, at_once.into_inner()] {
            assert_eq!(granted.permits, 2);
            let request = ReleaseRequest {
                name: name.to_owned(),
                owner_id: granted.owner_id,
            };
            let released = unary.release(request).await.unwrap().into_inner();
            assert!(released.released);
        }
        assert!(second.release(&three).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_several_is_said_of_each() {
    everywhere(async |site| {
        let (mut first, mut second) = (site.session(0).await, site.session(1).await);
        let held = first.take_one(semaphore("each/b", 1, 4)).await;
        let locks = second
            .take(each([
                at_least(1, semaphore("each/b", 4, 4)),
                shared("each/a"),
                semaphore("each/c", 2, 2),
            ]))
            .await;
        let permits: Vec<u32> = locks.iter().map(|lock| lock.permits).collect();
        assert_eq!(permits, [3, 0, 2]);
        assert!(first.release(&held).await);
    })
    .await;
}
