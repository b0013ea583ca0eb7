//! Several names at once: all of them or none.

use std::time::{Duration, Instant};

use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::{
    Site,
    raw::{PROMPT, closing_for, exclusive, for_at_most, several},
    site::{TTL, everywhere},
};

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
