//! Death of a coordinator with candidates and observers: leadership moves at a known cost, and observers elsewhere, and those
//! that ask again, see the truth.

use std::time::{Duration, Instant};

use leasehold_client::{Client, FencingToken, LeaderChange};
use leasehold_tests::{RawCandidate, RawObserver, raw::PROMPT, raw::Seen, report};
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::elections::site::{LATE, Site};

const TTL: Duration = Duration::from_secs(3);
const CLAIM: Duration = Duration::from_secs(3);
const REFRESH: Duration = Duration::from_secs(1);
const MARGIN: Duration = Duration::from_millis(500);
/// So long the places of a dead coordinator's waiters are kept, and what is asked for again may take.
const KEPT: Duration = Duration::from_secs(15);

/// The one that dies, and the one that does not.
const DYING: usize = 0;
const LIVING: usize = 1;

async fn candidate(site: &Site, at: usize, election: &str, value: &str) -> RawCandidate {
    RawCandidate::campaign(site.channel(at), election, value.as_bytes(), TTL).await
}

/// Returns the rest of the leader's TTL in Redis.
async fn left(connection: &mut MultiplexedConnection, election: &str) -> Duration {
    let mut life = redis::cmd("PTTL");
    life.arg(format!("lock:{election}"));
    let left: i64 = life.query_async(connection).await.unwrap();
    Duration::from_millis(left.try_into().expect("somebody leads"))
}

/// Asserts that leaders come in order: none comes again after another one.
fn rises(log: &[Seen]) {
    let mut tokens: Vec<i64> = log.iter().filter_map(Seen::token).collect();
    tokens.dedup();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{log:?}");
}

/// The client's observer, which is read all the time.
struct ClientObserver {
    changes: mpsc::UnboundedReceiver<LeaderChange>,
    _task: AbortOnDropHandle<()>,
}

impl ClientObserver {
    fn observe(client: &Client, election: &str) -> Self {
        let mut observer = client.election(election).observe();
        let (tell, changes) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(Ok(change)) = observer.next().await {
                if tell.send(change).is_err() {
                    return;
                }
            }
        });
        Self {
            changes,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Reads on until somebody leads with this token; its tokens rise on the way.
    async fn leads(&mut self, token: i64, limit: Duration) -> LeaderChange {
        let mut last = None;
        let read = async {
            loop {
                let change = self.changes.recv().await.expect("it goes on");
                let told = change.leader.as_ref();
                let told = told.and_then(|leader| leader.fencing_token);
                let told = told.map(FencingToken::get);
                assert!(told.is_none() || told >= last, "{told:?} after {last:?}");
                if told == Some(token) {
                    return change;
                }
                last = last.max(told);
            }
        };
        let read = tokio::time::timeout(limit, read).await;
        read.unwrap_or_else(|_| panic!("{token} was not told of within {limit:?}"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_with_the_leader_at_it_the_next_leads_within_the_ttl_and_a_refresh() {
    const ELECTION: &str = "coordinator/leader";
    let mut site = Site::start(2).await;
    let mut redis = site.plain().await;
    let mut leader = candidate(&site, DYING, ELECTION, "dies").await;
    let term = leader.elected(LATE).await;
    let mut next = candidate(&site, LIVING, ELECTION, "next").await;
    let mut dies = candidate(&site, DYING, ELECTION, "dies waiting").await;
    let mut last = candidate(&site, LIVING, ELECTION, "last").await;
    let mut stays = site.observer(LIVING, ELECTION).await;
    let mut moves = site.observer(DYING, ELECTION).await;
    let client = site.client(DYING, TTL).await;
    let mut client_observer = ClientObserver::observe(&client, ELECTION);
    stays.leads(term.token, LATE).await;
    moves.leads(term.token, LATE).await;
    assert!(!client_observer.leads(term.token, LATE).await.skipped);

    let left = left(&mut redis, ELECTION).await;
    let killed = Instant::now();
    site.kill(DYING);
    // Those at it are told by the end of their streams.
    for candidate in [&mut leader, &mut dies] {
        let (_, end) = candidate.next(LATE).await;
        assert!(end.is_err(), "{end:?}");
    }
    let until = leader.good_until().expect("it led");
    moves.end(LATE).await;
    // Elsewhere, the leader is the leader until its time has run out.
    let mut moves = site.observer(LIVING, ELECTION).await;
    assert_eq!(moves.next(LATE).await.token(), Some(term.token));

    let second = next.elected(left + REFRESH + PROMPT).await;
    let took = second.at - killed;
    report(format!(
        "a coordinator killed with the leader at it: the next led after {took:?}, {left:?} of the TTL were left, \
         {:?} after the leader's own deadline",
        second.at.saturating_duration_since(until)
    ));
    assert!(took <= left + REFRESH + MARGIN, "{took:?} for {left:?}");
    assert!(second.at >= until, "two led for {:?}", until - second.at);
    assert!(second.token > term.token);
    for observer in [&mut stays, &mut moves] {
        let seen = observer.leads(second.token, LATE).await;
        assert_eq!(seen.value(), Some(&b"next"[..]));
    }

    // Who observes at the one that comes back sees the same, now and from then on.
    site.revive(DYING).await;
    let mut returns = site.observer(DYING, ELECTION).await;
    assert_eq!(returns.next(LATE).await.token(), Some(second.token));
    let change = client_observer.leads(second.token, KEPT).await;
    assert!(change.skipped, "it was without a connection: {change:?}");

    // Who waited at the one that died has no place any more by now.
    let resigned = Instant::now();
    assert!(next.resign().await);
    let third = last.elected(CLAIM + REFRESH + PROMPT).await;
    let took = third.at - resigned;
    assert!(took <= CLAIM + REFRESH + MARGIN, "{took:?}");
    assert!(third.token > second.token);
    for observer in [&mut stays, &mut moves, &mut returns] {
        let seen = observer.leads(third.token, LATE).await;
        assert_eq!(seen.value(), Some(&b"last"[..]));
        rises(observer.log());
    }
    client_observer.leads(third.token, LATE).await;
    assert!(last.resign().await);
    client.close().await;
    drop((client_observer, stays, moves, returns));
    site.nothing_is_left_within(KEPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_with_the_next_at_it_those_are_skipped_within_a_claim_time_and_a_refresh() {
    const ELECTION: &str = "coordinator/waiting";
    let mut site = Site::start(2).await;
    let mut leader = candidate(&site, LIVING, ELECTION, "leads").await;
    let term = leader.elected(LATE).await;
    let mut dying = Vec::new();
    for _ in 0..3 {
        dying.push(candidate(&site, DYING, ELECTION, "dies").await);
    }
    let mut next = candidate(&site, LIVING, ELECTION, "next").await;
    let mut stays: Vec<RawObserver> = Vec::new();
    for _ in 0..2 {
        stays.push(site.observer(LIVING, ELECTION).await);
    }
    let mut moves = site.observer(DYING, ELECTION).await;
    moves.leads(term.token, LATE).await;

    site.kill(DYING);
    let resigned = Instant::now();
    assert!(leader.resign().await);
    for candidate in &mut dying {
        let (_, end) = candidate.next(LATE).await;
        assert!(end.is_err(), "{end:?}");
    }
    moves.end(LATE).await;
    stays.push(site.observer(LIVING, ELECTION).await);
    let second = next.elected(CLAIM + REFRESH + PROMPT).await;
    let took = second.at - resigned;
    report(format!(
        "a coordinator killed with the next three at it: the fourth led {took:?} after the leader resigned"
    ));
    assert!(took <= CLAIM + REFRESH + MARGIN, "{took:?}");
    assert!(second.token > term.token);
    for observer in &mut stays {
        let seen = observer.leads(second.token, LATE).await;
        assert_eq!(seen.value(), Some(&b"next"[..]));
        rises(observer.log());
    }
    let seen = site.leader(LIVING, ELECTION).await.unwrap();
    assert_eq!(seen.fencing_token, second.token);
    assert!(next.resign().await);
    drop(stays);
    site.nothing_is_left_within(KEPT).await;
}
