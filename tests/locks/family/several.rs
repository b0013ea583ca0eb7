//! Several names at once: all of them or none.

use std::time::{Duration, Instant};

use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::{
    Site,
    raw::{PROMPT, closing_for, exclusive, for_at_most, several, with_value},
    site::{TTL, everywhere},
};

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
async fn a_busy_name_and_a_wait_that_is_over_leave_none_held() {
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

        // One comes free during the wait, the other does not.
        let wait = Duration::from_secs(1);
        let asked = Instant::now();
        let id = session.ask_for(for_at_most(wait, all())).await;
        session.queued(id).await;
        assert!(others.release(&b[0]).await);
        let answer = session.not_granted(id, PROMPT).await;
        assert!(asked.elapsed() >= wait);
        assert_eq!(answer.outcome(), AcquireOutcome::TimedOut);
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
        let next = others.granted_all(waiting, PROMPT).await;
        assert!(others.release(&next[0]).await);
        site.free("never/a").await;
    })
    .await;
}
