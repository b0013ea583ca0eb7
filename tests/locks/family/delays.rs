//! Lock-delays, in every mode: what is shown of a lock that is closed, whom it keeps out, and what opens it.

use std::time::Duration;

use leasehold_proto::v1::{LockMode, SessionAcquire};
use leasehold_tests::{
    raw::{closing_for, exclusive, parse, semaphore, several, shared},
    site::{on_redis, set_nx},
};

/// Longer than the test takes.
const DELAY: Duration = Duration::from_secs(60);

/// A hold in some mode.
struct Case {
    held: SessionAcquire,
    /// A request that does not fit until the lock is open again.
    blocked: SessionAcquire,
    /// A request that fits beside the hold that ended, if there is one.
    fits: Option<SessionAcquire>,
    permits: u32,
}

/// Returns one of each mode.
fn cases() -> [Case; 4] {
    let case = |held, blocked, fits, permits| Case {
        held,
        blocked,
        fits,
        permits,
    };
    let permits = |number| semaphore("permits", number, 3);
    [
        case(exclusive("alone"), shared("alone"), None, 0),
        case(shared("read"), exclusive("read"), Some(shared("read")), 0),
        case(permits(2), permits(2), Some(permits(1)), 2),
        case(several(["other", "one"]), exclusive("one"), None, 0),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unclean_end_closes_a_lock_until_a_force_release_and_a_clean_one_does_not() {
    on_redis(async |site| {
        for case in cases() {
            let name = &*case.blocked.name;
            let acquire = || closing_for(DELAY, case.held.clone());
            // Neither a release nor what was still held when the session said that it closes.
            let mut session = site.session(0).await;
            for lock in session.take(acquire()).await {
                assert_eq!(parse(site.view(1, &lock.name).await.lock_delay), DELAY);
                assert!(session.release(&lock).await);
            }
            assert!(site.is_free_for(1, case.blocked.clone()).await);
            session.take(acquire()).await;
            session.close().await;
            assert!(site.is_free_for(1, case.blocked.clone()).await);

            let mut session = site.session(0).await;
            let held = session.take(acquire()).await;
            drop(session);
            let view = site.seen(1, name, "a time to be closed for", |view| {
                view.closed_for.is_some()
            });
            let view = view.await;
            assert!(parse(view.closed_for) <= DELAY, "{view:?}");
            assert_eq!((view.holder_count, view.permits_taken), (0, case.permits));
            let expected = match case.permits {
                0 => (LockMode::Unspecified, 0),
                _ => (LockMode::Semaphore, 3),
            };
            assert_eq!((view.mode(), view.limit), expected, "{view:?}");
            assert!(!site.is_free_for(1, case.blocked.clone()).await);
            assert!(!set_nx(&mut site.plain().await, name).await);
            if let Some(fits) = case.fits {
                assert!(site.is_free_for(1, fits).await);
            }
            for lock in &held {
                assert!(site.force(1, &lock.name).await > lock.fencing_token);
                assert_eq!(site.view(0, &lock.name).await.closed_for, None);
            }
            assert!(site.is_free_for(1, case.blocked).await);
        }
    })
    .await;
}
