//! Events: the kind, client and time of each.

use std::time::{Duration, SystemTime};

use leasehold_proto::v1::{LockEventKind, LockMode, LostReason};
use leasehold_tests::{
    RawSession, Site,
    raw::{self, each, exclusive, for_at_most, semaphore, shared, with_value},
    site::everywhere,
};

use crate::watching::watch::{Watch, is_since};
use LockEventKind::{
    Downgraded, Expired, Forced, Granted, LimitChanged, Lost, PermitsReduced, Queued,
    ReleaseRequested, Released, ValueChanged, Withdrawn,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_granted_waited_for_handed_on_changed_and_taken_away() {
    everywhere(async |site: &Site| {
        // Watched at one coordinator, used at both.
        let mut watch = Watch::at(site, 1, "w/").await;
        let mut elsewhere = Watch::at(site, 0, "x/").await;
        let mut first = site.session(0).await;
        let mut second = site.session(1).await;
        let mut third = site.session(0).await;

        let asked = SystemTime::now();
        let held = first.take_one(with_value("one", exclusive("w/lock"))).await;
        let event = watch.told(Granted).await;
        is_since(asked, &event);
        assert_eq!(
            (event.name.as_str(), event.fencing_token),
            ("w/lock", held.fencing_token)
        );
        let holder = event.holder.as_ref().unwrap();
        assert_eq!(
            (holder.value.as_slice(), holder.client_name.as_str()),
            (&b"one"[..], "raw")
        );
        assert_eq!((event.mode(), event.holder_count), (LockMode::Exclusive, 1));

        let waiting = second.wait_for(exclusive("w/lock")).await;
        let event = watch.told(Queued).await;
        assert_eq!((event.holder, event.waiter_count), (None, 1));
        assert_eq!(event.waiter.unwrap().position, 1);
        let giving_up = third.wait_for(shared("w/lock")).await;
        let waiter = watch.told(Queued).await.waiter.unwrap();
        assert_eq!((waiter.position, waiter.mode()), (2, LockMode::Shared));
        third.cancel(giving_up).await;
        let event = watch.told(Withdrawn).await;
        assert_eq!(event.waiter_count, 1);
        assert_eq!(event.waiter.unwrap().session_id, waiter.session_id);

        assert!(first.set_value(&held, "two").await);
        assert_eq!(watch.told(ValueChanged).await.holder.unwrap().value, b"two");

        assert!(first.release(&held).await);
        let event = watch.told(Released).await;
        assert_eq!(
            (event.fencing_token, event.closed_for),
            (held.fencing_token, None)
        );
        assert_eq!(event.holder.unwrap().value, b"two");
        let next = second.granted_all(waiting, raw::PROMPT).await.remove(0);
        let event = watch.told(Granted).await;
        assert_eq!(
            (event.fencing_token, event.waiter_count),
            (next.fencing_token, 0)
        );

        assert!(second.downgrade(&next).await);
        assert_eq!(watch.told(Downgraded).await.mode(), LockMode::Shared);
        let beside = first.take_one(shared("w/lock")).await;
        let event = watch.told(Granted).await;
        assert_eq!(
            (event.fencing_token, event.holder_count),
            (beside.fencing_token, 2)
        );

        site.force(0, "w/lock").await;
        let mut forced =
            [watch.told(Forced).await, watch.told(Forced).await].map(|event| event.fencing_token);
        forced.sort_unstable();
        assert_eq!(forced, [next.fencing_token, beside.fencing_token]);

        let one = first.take_one(semaphore("w/lock", 1, 1)).await;
        assert_eq!(watch.told(Granted).await.limit, 0);
        let waits = second.wait_for(semaphore("w/lock", 1, 1)).await;
        watch.told(Queued).await;
        let too_many = third.ask_for(raw::revised(4, semaphore("w/lock", 2, 2)));
        let too_many = too_many.await;
        let event = watch.told(LimitChanged).await;
        assert_eq!((event.limit, event.limit_revision), (2, 4));
        assert_eq!((event.holder, event.waiter), (None, None));
        second.granted_all(waits, raw::PROMPT).await;
        watch.told(Granted).await;
        watch.told(Queued).await;
        third.cancel(too_many).await;
        watch.told(Withdrawn).await;
        assert!(first.release(&one).await);
        watch.told(Released).await;

        let many = first.take_one(semaphore("w/permits", 3, 3)).await;
        watch.told(Granted).await;
        let waits = second.wait_for(semaphore("w/permits", 2, 3)).await;
        watch.told(Queued).await;
        assert!(first.reduce(&many, 1).await);
        let event = watch.told(PermitsReduced).await;
        let kept = event.holder.unwrap();
        assert_eq!((kept.fencing_token, kept.permits), (many.fencing_token, 1));
        let waited = second.granted_all(waits, raw::PROMPT).await.remove(0);
        assert_eq!(watch.told(Granted).await.holder_count, 2);
        let waits = first
            .wait_for(raw::at_least(1, semaphore("w/permits", 2, 3)))
            .await;
        let waiter = watch.told(Queued).await.waiter.unwrap();
        assert_eq!((waiter.permits, waiter.permits_at_least), (2, 1));
        assert!(second.reduce(&waited, 1).await);
        watch.told(PermitsReduced).await;
        let left = first.granted_all(waits, raw::PROMPT).await.remove(0);
        let event = watch.told(Granted).await;
        assert_eq!((event.holder.unwrap().permits, left.permits), (1, 1));
        assert!(first.release(&left).await);
        watch.told(Released).await;
        // Twice is as good as once.
        assert!(first.reduce(&many, 2).await);
        for (session, lock) in [(&mut first, &many), (&mut second, &waited)] {
            assert!(session.release(lock).await);
            watch.told(Released).await;
        }

        let asked = first
            .take_one(with_value("seven", exclusive("w/asked")))
            .await;
        watch.told(Granted).await;
        site.ask(0, "w/asked").await;
        let event = watch.told(ReleaseRequested).await;
        assert_eq!(event.fencing_token, asked.fencing_token);
        assert_eq!((event.mode(), event.holder_count), (LockMode::Exclusive, 1));
        assert_eq!(event.holder.unwrap().value, b"seven");
        let told = first.asked(raw::PROMPT).await;
        assert_eq!(told.owner_id, asked.owner_id);
        // Nobody to ask: no event.
        assert!(first.release(&asked).await);
        watch.told(Released).await;
        site.ask(0, "w/asked").await;

        // Of another prefix, nothing of that was told.
        let other = first.take_one(exclusive("x/lock")).await;
        assert_eq!(
            elsewhere.told(Granted).await.fencing_token,
            other.fencing_token
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_names_are_told_one_by_one_in_a_mode_each() {
    everywhere(async |site: &Site| {
        let mut watch = Watch::at(site, 1, "").await;
        let (mut one, mut other) = (site.session(0).await, site.session(1).await);
        let asked = [semaphore("c", 2, 3), exclusive("b"), shared("a")];
        let held = one.take(each(asked)).await;
        let expected = [
            (LockMode::Shared, 0),
            (LockMode::Exclusive, 0),
            (LockMode::Semaphore, 2),
        ];
        // In the order of the names, whatever that of the request.
        for (lock, (mode, permits)) in held.iter().rev().zip(expected) {
            let event = watch.told(Granted).await;
            assert_eq!((&event.name, event.mode()), (&lock.name, mode));
            assert_eq!(event.fencing_token, lock.fencing_token);
            assert_eq!(event.holder.unwrap().permits, permits);
        }
        // What is given back because the rest is busy was granted, too.
        let asked = each([shared("a"), exclusive("c")]);
        let id = other.ask_for(for_at_most(Duration::ZERO, asked)).await;
        other.not_granted(id, raw::PROMPT).await;
        let granted = watch.told(Granted).await;
        assert_eq!((&*granted.name, granted.holder_count), ("a", 2));
        let released = watch.told(Released).await;
        assert_eq!((&*released.name, released.holder_count), ("a", 1));
        assert_eq!(released.fencing_token, granted.fencing_token);
        one.close().await;
        other.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_strangers_in_redis_are_reported_when_found() {
    let site = Site::redis(2).await;
    let mut redis = site.plain().await;
    let mut watch = Watch::at(&site, 1, "").await;
    let ttl = Duration::from_secs(2);
    let mut session = RawSession::open(&site.at(0).endpoint(), ttl).await;
    session.keep_alive(ttl / 5);

    // Deleted under its holder: found at the next renewal.
    let held = session.take_one(exclusive("deleted")).await;
    watch.told(Granted).await;
    let deleted: u32 = redis::cmd("DEL")
        .arg("lock:deleted")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert_eq!(deleted, 1);
    let event = watch.told(Lost).await;
    assert_eq!(
        (event.fencing_token, event.reason()),
        (held.fencing_token, LostReason::Deleted)
    );
    assert_eq!(session.lost(raw::PROMPT).await.len(), 1);

    // Replaced under its holder.
    let held = session.take_one(exclusive("stolen")).await;
    watch.told(Granted).await;
    let mut set = redis::cmd("SET");
    set.arg("lock:stolen")
        .arg("a stranger")
        .arg("PX")
        .arg(2_500);
    set.query_async::<()>(&mut redis).await.unwrap();
    let event = watch.told(Lost).await;
    assert_eq!(
        (event.fencing_token, event.reason()),
        (held.fencing_token, LostReason::Taken)
    );
    // Then the stranger is seen, and that its key runs out.
    let event = watch.told(Granted).await;
    assert!(event.holder.unwrap().foreign);
    assert_eq!(event.fencing_token, 0);
    assert!(watch.told(Expired).await.holder.unwrap().foreign);
}
