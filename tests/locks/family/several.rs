//! Several names at once: all of them or none.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::LATE;
use futures_util::future::join_all;
use leasehold_proto::v1::{
    AcquireOutcome, GrantedLock, LockMode, LostReason, SessionAcquire, session_response::Response,
};
use leasehold_tests::{
    Site,
    raw::{
        PROMPT, closing_for, each, exclusive, for_at_most, semaphore, several, shared, with_value,
    },
    site::{TTL, delete, everywhere, on_redis},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

#[tokio::test(flavor = "multi_thread")]
async fn each_name_has_a_token_of_its_own_in_the_order_named() {
    everywhere(async |site| {
        let mut session = site.session(0).await;
        let names = ["order/c", "order/a", "order/d", "order/b"];
        let held = session.take(with_value("all", several(names))).await;
        assert!(held.iter().map(|lock| &lock.name).eq(&names), "{held:?}");
        let mut owners: Vec<_> = held.iter().map(|lock| &lock.owner_id).collect();
        owners.sort();
        owners.dedup();
        assert_eq!(owners.len(), names.len(), "an owner id twice: {held:?}");
        for lock in &held {
            assert_eq!(lock.hold_count, 1);
            let view = site.view(1, &lock.name).await;
            assert_eq!(view.fencing_token, lock.fencing_token);
            assert_eq!(view.holders[0].fencing_token, lock.fencing_token);
            assert_eq!(view.holders[0].value, b"all");
        }
        // Each is released by itself.
        assert!(session.release(&held[1]).await);
        assert_eq!(site.view(1, "order/a").await.holder_count, 0);
        assert_eq!(site.view(1, "order/c").await.holder_count, 1);
        let again = session.take(several(["order/a"])).await;
        assert!(again[0].fencing_token > held[1].fencing_token);
        session.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_name_leaves_none_held_and_a_wait_ends_without_drift() {
    everywhere(async |site| {
        let mut others = site.session(0).await;
        let b = others.take(exclusive("drift/b")).await;
        others.take(exclusive("drift/d")).await;
        let mut session = site.session(1).await;
        let all = || several(["drift/d", "drift/c", "drift/b", "drift/a"]);
        let id = session.ask_for(for_at_most(Duration::ZERO, all())).await;
        let answer = session.not_granted(id, PROMPT).await;
        assert_eq!(answer.outcome(), AcquireOutcome::Busy);
        assert_eq!(
            answer.holder.map(|holder| holder.fencing_token),
            Some(b[0].fencing_token)
        );
        none_held(site, ["drift/a", "drift/c"]).await;

        // One comes free late in the wait, the other does not: the wait is for all of them together. A wait of its own
        // for the second would end after what is allowed here.
        let wait = Duration::from_secs(3);
        let asked = Instant::now();
        let id = session.ask_for(for_at_most(wait, all())).await;
        session.queued(id).await;
        tokio::time::sleep_until((asked + wait * 5 / 6).into()).await;
        assert!(others.release(&b[0]).await);
        let answer = session.not_granted(id, PROMPT).await;
        let took = asked.elapsed();
        assert_eq!(answer.outcome(), AcquireOutcome::TimedOut);
        assert!(took >= wait && took <= wait + LATE, "{took:?}");
        none_held(site, ["drift/a", "drift/b", "drift/c"]).await;
        assert_eq!(site.view(0, "drift/d").await.waiter_count, 0);
    })
    .await;
}

async fn none_held<const N: usize>(site: &Site, names: [&str; N]) {
    for name in names {
        let view = site.view(0, name).await;
        assert_eq!((view.holder_count, view.waiter_count), (0, 0), "{view:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_another_order_never_block_for_good() {
    const ROUNDS: usize = 60;
    everywhere(async |site| {
        let orders = [
            vec!["ring/a", "ring/b"],
            vec!["ring/b", "ring/a"],
            vec!["ring/b", "ring/c"],
            vec!["ring/c", "ring/a"],
            vec!["ring/c", "ring/b", "ring/a"],
            vec!["ring/a"],
        ];
        join_all((0..).zip(orders).map(|(at, names)| async move {
            let mut session = site.session(at).await;
            for _ in 0..ROUNDS {
                let id = session.ask_for(several(names.iter().copied())).await;
                let held = session.granted_all(id, PROMPT).await;
                assert_eq!(held.len(), names.len());
                for lock in &held {
                    assert!(session.release(lock).await);
                }
            }
            session.close().await;
        }))
        .await;
    })
    .await;
}

/// Transfers read the configuration and write two accounts, in either order; reports read everything; now and then the
/// configuration is written, and workers of a pool read it beside others.
#[tokio::test(flavor = "multi_thread")]
async fn names_with_a_mode_each_in_opposite_orders_never_block_for_good() {
    const ROUNDS: usize = 40;
    const WHOLE: u32 = 1000;
    // A writer takes all of a name, a reader hardly anything of it, and the pool has two permits.
    let share = |lock: &SessionAcquire| match lock.mode() {
        LockMode::Shared => 1,
        LockMode::Semaphore => WHOLE / 2 * lock.permits,
        _ => WHOLE,
    };
    everywhere(async |site| {
        let (config, a, b, pool) = ("bank/config", "bank/a", "bank/b", "bank/pool");
        let kinds = [
            vec![shared(config), exclusive(a), exclusive(b)],
            vec![exclusive(b), exclusive(a), shared(config)],
            vec![shared(b), exclusive(config)],
            vec![shared(a), shared(b), shared(config)],
            vec![semaphore(pool, 1, 2), shared(config), exclusive(a)],
            vec![exclusive(a), semaphore(pool, 2, 2)],
            vec![exclusive(config), semaphore(pool, 1, 2), shared(a)],
        ];
        // What is taken of each name.
        let inside: Mutex<HashMap<String, u32>> = Mutex::default();
        let inside = &inside;
        join_all((0..).zip(kinds).map(|(at, locks)| async move {
            let mut session = site.session(at).await;
            for _ in 0..ROUNDS {
                let id = session.ask_for(each(locks.clone())).await;
                let held = session.granted_all(id, PROMPT).await;
                assert!(
                    held.iter()
                        .zip(&locks)
                        .all(|(held, of)| held.name == of.name)
                );
                for lock in &locks {
                    let mut inside = inside.lock().unwrap();
                    let part = inside.entry(lock.name.clone()).or_default();
                    *part += share(lock);
                    assert!(*part <= WHOLE, "{lock:?} beside others");
                }
                tokio::task::yield_now().await;
                for lock in &locks {
                    let mut inside = inside.lock().unwrap();
                    *inside.get_mut(&lock.name).unwrap() -= share(lock);
                }
                for lock in &held {
                    assert!(session.release(lock).await);
                }
            }
            session.close().await;
        }))
        .await;
        for name in [config, a, b, pool] {
            site.free(name).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_any_point_leaves_nothing_of_them() {
    const ROUNDS: u64 = 40;
    everywhere(async |site| {
        let mut others = site.session(0).await;
        let mut session = site.session(1).await;
        let mut random = StdRng::from_os_rng();
        let (mut granted, mut cancelled) = (0, 0);
        for round in 0..ROUNDS {
            // Every other time the last name is somebody else's.
            let busy = match round % 2 {
                0 => others.take(exclusive("cancel/d")).await,
                _ => Vec::new(),
            };
            let names = ["cancel/d", "cancel/c", "cancel/b", "cancel/a"];
            let id = session.ask_for(several(names)).await;
            let pause = random.random_range(0..=round * 300);
            tokio::time::sleep(Duration::from_micros(pause)).await;
            session.cancel(id).await;
            match session.outcome(id, PROMPT).await {
                Response::Granted(all) => {
                    assert!(busy.is_empty(), "granted what somebody else holds");
                    assert_eq!(all.locks.len(), names.len());
                    for lock in &all.locks {
                        assert!(session.release(lock).await);
                    }
                    granted += 1;
                }
                Response::NotGranted(answer) => {
                    assert_eq!(answer.outcome(), AcquireOutcome::Cancelled);
                    cancelled += 1;
                }
                other => panic!("{other:?}"),
            }
            for lock in &busy {
                assert!(others.release(lock).await);
            }
            for name in names {
                site.free(name).await;
            }
        }
        assert!(cancelled >= ROUNDS / 2, "{granted} {cancelled}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_lost_while_another_is_waited_for_are_taken_again_before_the_grant() {
    everywhere(async |site| {
        let mut others = site.session(0).await;
        let b = others.take(exclusive("again/b")).await;
        let mut session = site.session_of(1, Duration::from_secs(3)).await;
        let id = session.wait_for(several(["again/b", "again/a"])).await;
        let first = site
            .seen(0, "again/a", "a holder", |view| view.holder_count == 1)
            .await;

        // Force-released, while somebody waits for it: that one has it, and is waited for in its turn.
        let stranger = others.wait_for(exclusive("again/a")).await;
        site.force(0, "again/a").await;
        let taken = others.granted_all(stranger, PROMPT).await;
        assert!(taken[0].fencing_token > first.fencing_token);
        site.seen(0, "again/a", "a waiter again", |view| {
            view.waiter_count == 1
        })
        .await;
        assert!(others.release(&b[0]).await);
        let newest = others.take(exclusive("again/b")).await;
        assert!(others.release(&newest[0]).await);
        assert_eq!(
            site.view(0, "again/b").await.waiter_count,
            0,
            "it waits for one after the other"
        );
        assert!(others.release(&taken[0]).await);
        let held = session.granted_all(id, PROMPT).await;
        for (lock, name, newest) in [
            (&held[0], "again/b", &newest),
            (&held[1], "again/a", &taken),
        ] {
            assert_eq!(lock.name, name);
            assert!(lock.fencing_token > newest[0].fencing_token);
            let view = site.view(0, name).await;
            assert_eq!(view.holders[0].fencing_token, lock.fencing_token);
        }
        // None of it was the client's to lose.
        assert!(
            session.unread_unasked().is_empty(),
            "{:?}",
            session.unread_unasked()
        );
        session.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_deleted_while_another_name_is_waited_for_is_taken_again_before_the_grant() {
    on_redis(async |site| {
        let mut redis = site.plain().await;
        let mut others = site.session(0).await;
        let b = others.take(exclusive("key/b")).await;
        // Its renewals, every third of the TTL, find it out.
        let mut session = site.session_of(1, Duration::from_secs(3)).await;
        let id = session.wait_for(several(["key/a", "key/b"])).await;
        let first = site
            .seen(0, "key/a", "a holder", |view| view.holder_count == 1)
            .await;
        assert!(delete(&mut redis, "key/a").await);
        let second = site
            .seen(0, "key/a", "a holder with a newer token", |view| {
                view.holder_count == 1 && view.fencing_token > first.fencing_token
            })
            .await;
        assert!(others.release(&b[0]).await);
        let held = session.granted_all(id, PROMPT).await;
        assert_eq!(held[0].fencing_token, second.fencing_token);
        // From here on a loss is the client's.
        assert!(delete(&mut redis, "key/a").await);
        let lost = session.lost(PROMPT).await;
        assert_eq!((lost[0].name.as_str(), lost.len()), ("key/a", 1));
        assert_eq!(lost[0].reason(), LostReason::Deleted);
        session.close().await;
    })
    .await;
}

/// A lock taken on the way never belonged to the client, so its end is clean, whatever the cause.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_delay_does_not_apply_to_what_was_never_granted() {
    everywhere(async |site| {
        let mut others = site.session(0).await;
        others.take(exclusive("never/b")).await;
        let all = || closing_for(TTL, several(["never/a", "never/b"]));
        let held_on_the_way = async || {
            site.seen(1, "never/a", "a holder", |view| view.holder_count == 1)
                .await;
        };

        let mut cancels = site.session(1).await;
        let id = cancels.wait_for(all()).await;
        held_on_the_way().await;
        cancels.cancel(id).await;
        cancels.not_granted(id, PROMPT).await;
        assert!(site.is_free_for(1, exclusive("never/a")).await);

        let mut closes = site.session(1).await;
        closes.wait_for(all()).await;
        held_on_the_way().await;
        closes.close().await;
        site.free("never/a").await;

        let mut dies = site.session(1).await;
        dies.wait_for(all()).await;
        held_on_the_way().await;
        let waiting = others.wait_for(exclusive("never/a")).await;
        drop(dies);
        let died = Instant::now();
        let next: Vec<GrantedLock> = others.granted_all(waiting, PROMPT).await;
        assert!(died.elapsed() <= LATE, "{:?}", died.elapsed());
        assert!(others.release(&next[0]).await);
        site.free("never/a").await;
    })
    .await;
}
