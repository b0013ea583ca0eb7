//! Cases of other modes and of several names, where the store has them.

use std::time::Duration;

use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::raw::{
    at_least, each, exclusive, for_at_most, once_more, revised, semaphore, several, shared,
};

use crate::conformance::site::{LATE, Site};

/// Reason with which a store refuses missing features.
pub(crate) const NOT_OFFERED: &str = "NOT_OFFERED";

pub(crate) async fn shared_and_semaphores(site: &Site) {
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    if !site.offers().modes {
        let name = "modes/refused";
        let two = || semaphore(name, 2, 3);
        for refused in [shared(name), two(), at_least(1, two()), revised(1, two())] {
            let id = one.ask_for(refused).await;
            let refusal = one.refusal(id, LATE).await;
            assert_eq!(refusal.reason, NOT_OFFERED, "{refusal:?}");
        }
        let lock = one.take_one(exclusive(name)).await;
        let id = one.ask_downgrade(&lock).await;
        let refusal = one.refusal(id, LATE).await;
        assert_eq!(refusal.reason, NOT_OFFERED, "{refusal:?}");
        assert!(one.release(&lock).await);
        one.close().await;
        other.close().await;
        return;
    }
    let readers = [
        one.take_one(shared("modes/shared")).await,
        other.take_one(shared("modes/shared")).await,
    ];
    let mut writer = site.session(0).await;
    let id = writer.wait_for(exclusive("modes/shared")).await;
    assert!(one.release(&readers[0]).await);
    assert!(other.release(&readers[1]).await);
    let lock = writer.granted_all(id, LATE).await.remove(0);
    assert!(writer.downgrade(&lock).await);
    let reader = one.take_one(shared("modes/shared")).await;
    assert!(one.release(&reader).await);
    assert!(writer.release(&lock).await);

    let two = one.take_one(semaphore("modes/permits", 2, 3)).await;
    let last = other.take_one(semaphore("modes/permits", 1, 3)).await;
    let mut none_left = semaphore("modes/permits", 1, 3);
    none_left.wait = leasehold_tests::raw::wire(Duration::ZERO);
    let id = writer.ask_for(none_left).await;
    let busy = writer.not_granted(id, LATE).await;
    assert_eq!(busy.outcome(), AcquireOutcome::Busy);
    let id = writer.wait_for(semaphore("modes/permits", 2, 3)).await;
    // What one gives back of its own is not enough before the other has let go.
    assert!(one.reduce(&two, 1).await);
    assert!(one.reduce(&two, 1).await);
    assert!(other.release(&last).await);
    let lock = writer.granted_all(id, LATE).await.remove(0);
    site.seen(1, "modes/permits", "one and two permits taken", |view| {
        (view.permits_taken, view.holder_count) == (3, 2)
    })
    .await;
    assert!(writer.release(&lock).await);
    assert!(one.release(&two).await);
    one.close().await;
    other.close().await;
    writer.close().await;
}

pub(crate) async fn permits_that_are_left(site: &Site) {
    const NAME: &str = "modes/left";
    if !site.offers().modes {
        return;
    }
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    let two = one.take_one(semaphore(NAME, 2, 5)).await;
    assert_eq!(two.permits, 2);
    let three = other.take_one(at_least(2, semaphore(NAME, 5, 5))).await;
    assert_eq!(three.permits, 3);
    // From the queue: granted by the coordinator at which it waits, and by another.
    let here = one.wait_for(at_least(1, semaphore(NAME, 2, 5))).await;
    let there = other.wait_for(at_least(2, semaphore(NAME, 5, 5))).await;
    assert!(one.reduce(&two, 1).await);
    let here = one.granted_all(here, LATE).await.remove(0);
    assert_eq!(here.permits, 1);
    assert!(one.release(&two).await);
    assert!(one.release(&here).await);
    let there = other.granted_all(there, LATE).await.remove(0);
    assert_eq!(there.permits, 2);
    site.seen(0, NAME, "five permits taken", |view| {
        (view.permits_taken, view.holder_count) == (5, 2)
    })
    .await;
    for lock in [&three, &there] {
        assert!(other.release(lock).await);
    }
    one.close().await;
    other.close().await;
}

pub(crate) async fn limits_change_in_use(site: &Site) {
    const NAME: &str = "modes/limit";
    if !site.offers().modes {
        return;
    }
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    let first = one.take_one(semaphore(NAME, 1, 1)).await;
    let waits = one.wait_for(semaphore(NAME, 1, 1)).await;
    let third = other.take_one(revised(1, semaphore(NAME, 1, 3))).await;
    let second = one.granted_all(waits, LATE).await.remove(0);
    // The former version gets along with it.
    let busy = one.ask_for(for_at_most(Duration::ZERO, semaphore(NAME, 1, 1)));
    let busy = busy.await;
    assert_eq!(
        one.not_granted(busy, LATE).await.outcome(),
        AcquireOutcome::Busy
    );
    let too_many = one.wait_for(semaphore(NAME, 3, 3)).await;
    let waits = other.wait_for(revised(2, semaphore(NAME, 1, 2))).await;
    assert!(one.release(&first).await);
    site.seen(1, NAME, "two of two taken", |view| {
        (view.limit, view.limit_revision, view.permits_taken) == (2, 2, 2)
    })
    .await;
    assert!(one.release(&second).await);
    let refusal = one.refusal(too_many, LATE).await;
    assert_eq!(refusal.reason, "LIMIT_MISMATCH", "{refusal:?}");
    let fourth = other.granted_all(waits, LATE).await.remove(0);
    for lock in [&third, &fourth] {
        assert!(other.release(lock).await);
    }
    // It is remembered when everybody has let go.
    let lock = one.take_one(semaphore(NAME, 1, 1)).await;
    site.seen(0, NAME, "the last limit", |view| view.limit == 2)
        .await;
    assert!(one.release(&lock).await);
    one.close().await;
    other.close().await;
}

/// Checks names in different slots of a cluster.
pub(crate) async fn several_names(site: &Site) {
    let names: Vec<String> = (0..8).map(|n| format!("modes/several/{n}")).collect();
    let all = || several(names.iter().map(String::as_str));
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    let locks = one.take(all()).await;
    let granted: Vec<&str> = locks.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(granted, names);
    let id = other.ask_for(all()).await;
    for lock in &locks {
        assert!(one.release(lock).await);
    }
    let locks = other.granted_all(id, LATE * 2).await;
    assert_eq!(locks.len(), names.len());
    for lock in &locks {
        assert!(other.release(lock).await);
    }
    one.close().await;
    other.close().await;
}

pub(crate) async fn several_names_with_a_mode_each(site: &Site) {
    let (account, config, pool) = ("modes/each/a", "modes/each/b", "modes/each/c");
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    if !site.offers().modes {
        // At once, rather than when the names before have come free.
        let held = one.take_one(exclusive(account)).await;
        let asked = each([exclusive(account), shared(config)]);
        let id = other.ask_for(asked).await;
        let refusal = other.refusal(id, LATE).await;
        assert_eq!(refusal.reason, NOT_OFFERED, "{refusal:?}");
        assert!(one.release(&held).await);
        let both = each([exclusive(config), exclusive(account)]);
        let locks = other.take(both).await;
        assert_eq!((&*locks[0].name, &*locks[1].name), (config, account));
        one.close().await;
        other.close().await;
        return;
    }
    let all = || [semaphore(pool, 1, 2), exclusive(account), shared(config)];
    let locks = one.take(each(all())).await;
    let names: Vec<&str> = locks.iter().map(|lock| &*lock.name).collect();
    assert_eq!(names, [pool, account, config]);
    for (at, lock) in locks.iter().enumerate() {
        site.seen(at, &lock.name, "its token", |view| {
            view.fencing_token == lock.fencing_token
        })
        .await;
    }
    // Beside others where the mode of the name allows it.
    let beside = other
        .take(each([shared(config), semaphore(pool, 1, 2)]))
        .await;
    // All or none: the last name is busy, and the first ones are given back.
    let mut third = site.session(0).await;
    let asked = each([
        exclusive("modes/each/0"),
        shared(config),
        semaphore(pool, 1, 2),
    ]);
    let id = third.ask_for(for_at_most(Duration::ZERO, asked)).await;
    let busy = third.not_granted(id, LATE).await;
    assert_eq!(busy.outcome(), AcquireOutcome::Busy);
    site.seen(1, "modes/each/0", "nobody", |view| view.holder_count == 0)
        .await;
    site.seen(1, config, "two readers", |view| view.holder_count == 2)
        .await;
    // It waits for one after the other, and is granted all of them.
    let id = third.wait_for(each(all())).await;
    for lock in locks.iter().rev() {
        assert!(one.release(lock).await);
    }
    let locks = third.granted_all(id, LATE * 2).await;
    assert_eq!(locks.len(), 3);
    for lock in &locks {
        assert!(third.release(lock).await);
    }
    for lock in &beside {
        assert!(other.release(lock).await);
    }
    one.close().await;
    other.close().await;
    third.close().await;
}

pub(crate) async fn reentrant(site: &Site) {
    let mut session = site.session(0).await;
    let again = || once_more(1, exclusive("modes/reentrant"));
    let first = session.take_one(again()).await;
    let second = session.take_one(again()).await;
    assert_eq!((first.hold_count, second.hold_count), (1, 2));
    assert_eq!(first.owner_id, second.owner_id);
    site.seen(1, "modes/reentrant", "a count of two", |view| {
        view.holders[0].hold_count == 2
    })
    .await;
    for left in [1, 0] {
        let released = session.release_once(&first).await;
        assert!(released.released);
        assert_eq!(released.hold_count, left);
    }
    session.close().await;
}
