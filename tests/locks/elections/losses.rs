//! Leaders that others depose: each learns the reason, and its later actions do not count.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_client::{HoldError, LostReason as Reason};
use leasehold_proto::v1::LostReason;
use leasehold_tests::{RawCandidate, Site, raw::PROMPT, report};
use redis::aio::MultiplexedConnection;

/// Renewed every second.
const TTL: Duration = Duration::from_secs(3);
/// Time for which a stranger keeps the lock that it stole, in milliseconds.
const STOLEN: u64 = 1_500;

/// Way in which a leader is deposed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Stolen,
    Deleted,
    Forced,
}

impl How {
    const ALL: [Self; 3] = [Self::Stolen, Self::Deleted, Self::Forced];

    fn reasons(self) -> (LostReason, Reason) {
        match self {
            Self::Stolen => (LostReason::Taken, Reason::Taken),
            Self::Deleted => (LostReason::Deleted, Reason::Deleted),
            Self::Forced => (LostReason::Forced, Reason::Forced),
        }
    }

    /// Returns the longest time until the leader learns of it: at the next renewal, or at once.
    fn bound(self) -> Duration {
        match self {
            Self::Forced => PROMPT,
            _ => TTL / 3 + PROMPT,
        }
    }

    async fn depose(self, site: &Site, redis: &mut MultiplexedConnection, election: &str) {
        let key = format!("lock:{election}");
        let mut command = match self {
            Self::Forced => {
                site.force(1, election).await;
                return;
            }
            Self::Deleted => redis::cmd("DEL"),
            Self::Stolen => redis::cmd("SET"),
        };
        command.arg(key);
        if self == Self::Stolen {
            command.arg("a stranger").arg("PX").arg(STOLEN);
        }
        let _: redis::Value = command.query_async(redis).await.unwrap();
    }
}

/// Checks that after a loss the lock is another's or free, and that candidates are elected again.
async fn goes_on(site: &Site, election: &str, token: i64) {
    let mut next = site.candidate(1, election, b"next").await;
    let term = next.elected(PROMPT).await;
    assert!(term.token > token);
    assert!(!site.is_current(0, election, token).await);
    assert!(site.is_current(0, election, term.token).await);
    assert!(next.resign().await);
}

async fn wire(site: &Site, how: How) {
    let election = format!("losses/wire/{how:?}");
    let mut redis = site.plain().await;
    let mut leader = RawCandidate::campaign(site.channel(0), &election, b"old", TTL).await;
    let term = leader.elected(PROMPT).await;
    how.depose(site, &mut redis, &election).await;
    let (_, reason) = leader.lost(how.bound()).await;
    assert_eq!(reason, how.reasons().0, "{how:?}");
    let (_, end) = leader.next(PROMPT).await;
    assert!(matches!(end, Ok(None)), "{end:?}");
    goes_on(site, &election, term.token).await;
}

async fn client(site: &Site, how: How) {
    let election = format!("losses/client/{how:?}");
    let mut redis = site.plain().await;
    let client = site.client(0, TTL).await;
    let leadership = client.election(&*election).campaign("old").await.unwrap();
    let deposed = Instant::now();
    how.depose(site, &mut redis, &election).await;
    let reason = tokio::time::timeout(how.bound(), leadership.lost()).await;
    let took = deposed.elapsed();
    assert_eq!(reason.expect("it is told"), how.reasons().1, "{how:?}");
    report(format!("a leader was told {took:?} after: {how:?}"));
    assert!(!leadership.is_leader());
    match leadership.proclaim("too late").await {
        Err(HoldError::Lost { .. }) => {}
        other => panic!("{other:?}"),
    }
    let token = leadership.fencing_token().get();
    leadership.resign().await.unwrap_err();
    goes_on(site, &election, token).await;
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_lock_is_stolen_deleted_or_forced_steps_down_and_says_why() {
    let site = Site::redis(2).await;
    let shared = &site;
    join_all(How::ALL.map(|how| async move {
        tokio::join!(wire(shared, how), client(shared, how));
    }))
    .await;
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_candidate_follows_a_deposed_leader_and_observers_see_it() {
    let site = Site::redis(2).await;
    for how in [How::Stolen, How::Forced] {
        let election = format!("losses/next/{how:?}");
        let mut redis = site.plain().await;
        let mut leader = RawCandidate::campaign(site.channel(0), &election, b"old", TTL).await;
        let term = leader.elected(PROMPT).await;
        let mut next = site.candidate(1, &election, b"new").await;
        let mut observers = [
            site.observer(0, &election).await,
            site.observer(1, &election).await,
        ];
        for observer in &mut observers {
            assert_eq!(observer.next(PROMPT).await.token(), Some(term.token));
        }
        how.depose(&site, &mut redis, &election).await;
        let (told, _) = leader.lost(how.bound()).await;
        let second = next.elected(PROMPT).await;
        assert!(second.token > term.token);
        if how == How::Stolen {
            // As long as the stranger had it, nobody led.
            assert!(told < second.at, "two led");
        }
        for observer in &mut observers {
            let seen = observer.leads(second.token, PROMPT).await;
            assert_eq!(seen.value(), Some(&b"new"[..]));
        }
        assert!(next.resign().await);
    }
    site.nothing_is_left().await;
}
