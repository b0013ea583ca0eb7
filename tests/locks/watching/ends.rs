//! Events of ends: expiries, ends by force, bounds on holds, and the end of a session.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, LockEventKind, LockMode, force_release_request::Only,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Site,
    raw::{self, closing_for, exclusive, semaphore},
    site::everywhere,
};

use crate::watching::watch::Watch;
use LockEventKind::{Expired, Forced, Granted, Queued, Released, Withdrawn};

#[tokio::test(flavor = "multi_thread")]
async fn expiries_are_reported() {
    everywhere(async |site: &Site| {
        let mut watch = Watch::at(site, 1, "").await;
        let mut locks = LockServiceClient::new(site.at(0).channel().await);
        let request = AcquireRequest {
            name: "unary".into(),
            ttl: raw::wire(Duration::from_secs(1)),
            ..AcquireRequest::default()
        };
        let granted = locks.acquire(request).await.unwrap().into_inner();
        let begun = watch.told(Granted).await;
        assert_eq!(begun.fencing_token, granted.fencing_token);
        let ended = watch.told(Expired).await;
        assert_eq!(
            (ended.fencing_token, ended.holder_count),
            (granted.fencing_token, 0)
        );
        assert!(ended.holder.is_some());

        // Of several, too, one after the other.
        let mut tokens = Vec::new();
        for seconds in [1, 2] {
            let request = AcquireRequest {
                name: "permits".into(),
                mode: LockMode::Semaphore.into(),
                permits: 1,
                limit: 2,
                ttl: raw::wire(Duration::from_secs(seconds)),
                ..AcquireRequest::default()
            };
            let granted = locks.acquire(request).await.unwrap().into_inner();
            tokens.push(granted.fencing_token);
            assert_eq!(
                watch.told(Granted).await.fencing_token,
                granted.fencing_token
            );
        }
        for token in tokens {
            let event = watch.told(Expired).await;
            assert_eq!(event.fencing_token, token);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_one_hold_or_wait_by_force_is_told_with_whose_it_was() {
    everywhere(async |site: &Site| {
        let mut watch = Watch::at(site, 1, "").await;
        let (mut first, mut second) = (site.session(0).await, site.session(1).await);
        let one = first.take_one(semaphore("one", 1, 3)).await;
        let other = second.take_one(semaphore("one", 2, 3)).await;
        second.wait_for(semaphore("one", 3, 3)).await;
        watch.told(Granted).await;
        watch.told(Granted).await;
        let waiter = watch.told(Queued).await.waiter.unwrap();

        let only = Only::WaiterNumber(waiter.number);
        site.force_one(0, "one", Some(only)).await;
        let event = watch.told(Forced).await;
        assert_eq!((event.holder, event.waiter_count), (None, 0));
        let gone = event.waiter.unwrap();
        assert_eq!(
            (gone.number, gone.session_id),
            (waiter.number, waiter.session_id)
        );

        let only = Only::FencingToken(one.fencing_token);
        site.force_one(0, "one", Some(only)).await;
        let event = watch.told(Forced).await;
        assert_eq!(event.fencing_token, one.fencing_token);
        assert_eq!(event.holder.unwrap().permits, 1);
        assert_eq!((event.waiter, event.holder_count), (None, 1));
        // The watchers' account of the permits is still right.
        let (_, snapshot) = Watch::begin(site.at(1).channel().await, "").await;
        let [lock] = <[_; 1]>::try_from(snapshot).unwrap();
        assert_eq!((lock.permits_taken, lock.holder_count), (2, 1));
        assert!(second.release(&other).await);
        assert_eq!(
            watch.told(Released).await.fencing_token,
            other.fencing_token
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_closes_a_lock_is_told_with_for_how_long() {
    everywhere(async |site: &Site| {
        let mut watch = Watch::at(site, 0, "").await;
        let mut session = site.session(1).await;
        let delay = Duration::from_secs(2);
        let held = session
            .take_one(closing_for(delay, exclusive("closing")))
            .await;
        watch.told(Granted).await;
        drop(session);
        let event = watch.told(Released).await;
        assert_eq!(event.fencing_token, held.fencing_token);
        assert_eq!(raw::parse(event.closed_for), delay);
        let (_, snapshot) = Watch::begin(site.at(1).channel().await, "").await;
        let [lock] = snapshot.try_into().unwrap();
        assert!(
            lock.holders.is_empty() && lock.closed_for.is_some(),
            "{lock:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_takes_each_of_its_holds_and_withdraws_its_waits() {
    everywhere(async |site: &Site| {
        let (mut held, mut waited) = (
            Watch::at(site, 0, "held").await,
            Watch::at(site, 1, "waited").await,
        );
        let (mut ended, mut other) = (site.session(0).await, site.session(1).await);
        let lock = ended.take_one(exclusive("held")).await;
        let of_lock = held.told(Granted).await.holder.unwrap();
        let next = other.wait_for(exclusive("held")).await;
        held.told(Queued).await;
        other.take_one(exclusive("waited")).await;
        waited.told(Granted).await;
        ended.wait_for(exclusive("waited")).await;
        let waiter = waited.told(Queued).await.waiter.unwrap();
        assert_eq!(waiter.session_id, of_lock.session_id);

        site.end_holder(1, "held").await;
        let event = held.told(Forced).await;
        assert_eq!(event.fencing_token, lock.fencing_token);
        assert_eq!(event.holder.unwrap().session_id, of_lock.session_id);
        let granted = other.granted(next, raw::PROMPT).await;
        let event = held.told(Granted).await;
        assert_eq!(event.fencing_token, granted.lock.fencing_token);
        let event = waited.told(Withdrawn).await;
        assert_eq!(event.waiter.unwrap().session_id, of_lock.session_id);
        // That was all.
        assert!(other.release(&granted.lock).await);
        held.told(Released).await;
        other.close().await;
        waited.told(Released).await;
    })
    .await;
}
