//! Lock-delays, in every mode: after an unclean end the lock stays closed to all, including clients that lock without a
//! coordinator; after a release it does not.

use std::{
    slice,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use leasehold_proto::v1::{LockMode, SessionAcquire};
use leasehold_tests::{
    Site, Worker,
    raw::{PROMPT, closing_for, exclusive, parse, semaphore, several, shared},
    site,
    site::{everywhere, on_redis, set_nx},
    wait,
};

const DELAY: Duration = Duration::from_millis(1_500);
/// Of sessions that end by silence, or with their coordinator.
const SHORT: Duration = Duration::from_secs(2);

/// A hold in some mode.
struct Case {
    held: SessionAcquire,
    /// The same as an order for a worker.
    order: String,
    /// A request that does not fit until the delay is over.
    blocked: SessionAcquire,
    /// A request that fits beside the hold that ended, if there is one.
    fits: Option<SessionAcquire>,
    permits: u32,
}

/// Returns one of each mode.
fn cases(prefix: &str) -> [Case; 4] {
    let name = |name: &str| format!("{prefix}/{name}");
    let (alone, read, permits) = (name("exclusive"), name("shared"), name("semaphore"));
    let (other, one) = (name("other"), name("one"));
    [
        Case {
            held: exclusive(&alone),
            order: format!("acquire {alone}"),
            blocked: shared(&alone),
            fits: None,
            permits: 0,
        },
        Case {
            held: shared(&read),
            order: format!("share {read}"),
            blocked: exclusive(&read),
            fits: Some(shared(&read)),
            permits: 0,
        },
        Case {
            held: semaphore(&permits, 2, 3),
            order: format!("permits {permits} 2 3"),
            blocked: semaphore(&permits, 2, 3),
            fits: Some(semaphore(&permits, 1, 3)),
            permits: 2,
        },
        Case {
            held: several([&*other, &*one]),
            order: format!("acquire-all {other} {one}"),
            blocked: exclusive(&one),
            fits: None,
            permits: 0,
        },
    ]
}

impl Case {
    fn name(&self) -> &str {
        &self.blocked.name
    }

    /// Returns all names of the hold.
    fn names(&self) -> &[String] {
        match &self.held.names[..] {
            [] => slice::from_ref(&self.held.name),
            names => names,
        }
    }

    /// Checks the coordinator's view while the name is closed and has no other holder.
    async fn is_shown(&self, site: &Site, at: usize, most: Duration) {
        let view = site
            .seen(at, self.name(), "a time to be closed for", |view| {
                view.closed_for.is_some()
            })
            .await;
        assert!(parse(view.closed_for) <= most, "{view:?}");
        assert_eq!(view.holder_count, 0, "{view:?}");
        assert_eq!(view.permits_taken, self.permits, "{view:?}");
        let expected = match self.permits {
            0 => (LockMode::Unspecified, 0),
            _ => (LockMode::Semaphore, 3),
        };
        assert_eq!((view.mode(), view.limit), expected, "{view:?}");
    }

    /// Checks that the name is closed from `since` on for no less than the delay, and so are those that only strangers try.
    async fn is_closed(&self, foreign: &Self, site: &Site, at: usize, since: Instant) {
        let ours = async {
            assert!(
                !site.is_free_for(at, self.blocked.clone()).await,
                "{}",
                self.name()
            );
            if let Some(fits) = &self.fits {
                assert!(site.is_free_for(at, fits.clone()).await, "{}", self.name());
            }
            let mut session = site.session(at).await;
            let id = session.ask_for(self.blocked.clone()).await;
            session.granted_all(id, PROMPT * 2).await;
            assert!(since.elapsed() >= DELAY, "{}", self.name());
            session.close().await;
        };
        let theirs = async {
            for name in foreign.names() {
                let redis = site.plain().await;
                wait::until("a stranger to have it", PROMPT * 2, || {
                    let mut redis = redis.clone();
                    async move {
                        if set_nx(&mut redis, name).await {
                            Ok(())
                        } else {
                            Err("it has a key")
                        }
                    }
                })
                .await;
                assert!(since.elapsed() >= DELAY, "{name}: {:?}", since.elapsed());
            }
        };
        tokio::join!(ours, theirs);
        // So that the end finds nothing but ours.
        let mut redis = site.plain().await;
        for name in foreign.names() {
            assert!(site::delete(&mut redis, name).await);
        }
    }
}

/// The client's process is killed: its coordinator sees it at once.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_a_killed_client_stay_closed() {
    on_redis(async |site| {
        let (cases, foreign) = (cases("killed"), cases("foreign"));
        join_all(
            cases
                .iter()
                .zip(&foreign)
                .map(|(case, foreign)| async move {
                    let mut worker = Worker::start(&site.endpoint(0), SHORT * 30);
                    worker.ready().await;
                    worker.order(&format!("closing {}", DELAY.as_millis()));
                    for held in [case, foreign] {
                        worker.order(&held.order);
                        for name in held.names() {
                            worker.granted(name).await;
                        }
                    }
                    // No earlier: its connection may be closed long before it is known to have ended.
                    let died = Instant::now();
                    worker.child().kill();
                    case.is_shown(site, 1, DELAY).await;
                    case.is_closed(foreign, site, 1, died).await;
                }),
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn released_locks_are_not_closed() {
    everywhere(async |site| {
        for (number, case) in cases("released").into_iter().enumerate() {
            let acquire = || closing_for(SHORT * 30, case.held.clone());
            let mut session = site.session(0).await;
            let held = session.take(acquire()).await;
            let view = site.view(1, case.name()).await;
            assert_eq!(parse(view.lock_delay), SHORT * 30, "{view:?}");
            for lock in &held {
                assert!(session.release(lock).await);
            }
            assert!(site.is_free_for(1, case.blocked.clone()).await);
            // Nor is what was still held when the session said that it closes.
            session.take(acquire()).await;
            session.close().await;
            assert!(site.is_free_for(1, case.blocked.clone()).await, "{number}");
            assert_eq!(site.view(1, case.name()).await.closed_for, None);
        }
    })
    .await;
}

/// Operators can open what is closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_force_release_opens_what_is_closed() {
    everywhere(async |site| {
        for case in cases("forced") {
            let mut session = site.session(0).await;
            let held = session.take(closing_for(DELAY, case.held.clone())).await;
            drop(session);
            case.is_shown(site, 1, SHORT * 30).await;
            assert!(!site.is_free_for(1, case.blocked.clone()).await);
            for lock in &held {
                let token = site.force(1, &lock.name).await;
                assert!(token > lock.fencing_token);
                assert_eq!(site.view(0, &lock.name).await.closed_for, None);
            }
            assert!(site.is_free_for(1, case.blocked.clone()).await);
        }
    })
    .await;
}
