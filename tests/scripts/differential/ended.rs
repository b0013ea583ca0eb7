//! Marks of ended sessions: the script against the rules.

use std::time::Duration;

use leasehold_core::{
    ended::{EndChange, EndedCount, EndedSessions, MOST_ENDED},
    id::SessionId,
    time::StoreTime,
};
use leasehold_store::Store;
use leasehold_tests::RedisServer;
use rand::{Rng, SeedableRng, rngs::StdRng};
use redis::aio::MultiplexedConnection;

use crate::differential::{connect, full};

/// Changes that are to be compared, and looks.
const CALLS: usize = 2_000;
/// Sessions that they are about.
const SESSIONS: u8 = 12;
/// For longer than any test takes.
const LONG: Duration = Duration::from_secs(600);
/// Time around the end of a mark in which nothing is asked: Redis counts in milliseconds there.
const APART: Duration = Duration::from_millis(3);

/// Marks in Redis, and by the rules.
struct Marks {
    store: Store,
    clock: MultiplexedConnection,
    rules: EndedSessions,
    /// Ends of marks: in Redis, each is some time between the two.
    ends: Vec<(StoreTime, StoreTime)>,
}

impl Marks {
    async fn new(redis: &RedisServer) -> Self {
        Self {
            store: connect(redis).await,
            clock: redis.async_connection().await,
            rules: EndedSessions::default(),
            ends: Vec::new(),
        }
    }

    async fn now(&mut self) -> StoreTime {
        let time = redis::cmd("TIME");
        let (seconds, micros): (i64, i64) = time.query_async(&mut self.clock).await.unwrap();
        StoreTime::from_micros(seconds * 1_000_000 + micros)
    }

    /// Makes a change in both, and returns whether they agree; `None` if a mark may have ended at that moment.
    async fn change(&mut self, change: Option<EndChange>) -> Option<bool> {
        let mut now = self.now().await;
        while self.is_near_an_end(now, now) {
            tokio::time::sleep(APART).await;
            now = self.now().await;
        }
        let got = self.store.ended_sessions(change).await.unwrap();
        let then = self.now().await;
        let expected = self.rules.change(change, now);
        if let (Some(EndChange::Mark(_, kept_for)), Some(_)) = (change, &expected) {
            self.ends.push((now.after(kept_for), then.after(kept_for)));
        }
        if self.is_near_an_end(now, then) {
            return None;
        }
        let sorted = |marks: Option<Vec<(SessionId, EndedCount)>>| {
            let mut marks = marks?;
            marks.sort_unstable_by_key(|(session, _)| *session);
            Some(marks)
        };
        let (got, expected) = (sorted(got), sorted(expected));
        assert_eq!(got, expected, "after {change:?}");
        Some(got.is_some_and(|marks| !marks.is_empty()))
    }

    fn is_near_an_end(&self, from: StoreTime, to: StoreTime) -> bool {
        let mut ends = self.ends.iter();
        ends.any(|(first, last)| from.before(APART) <= *last && *first <= to.after(APART))
    }
}

fn session(number: u8) -> SessionId {
    SessionId::from_bytes([number; 16])
}

fn mark(number: u8) -> EndChange {
    EndChange::Mark(session(number), LONG)
}

fn count(sessions: u32) -> EndedCount {
    EndedCount {
        sessions,
        holds: 2 * sessions,
        waiters: 3,
    }
}

#[tokio::test]
async fn random_changes_of_marks_agree() {
    let redis = RedisServer::start();
    let mut marks = Marks::new(&redis).await;
    let mut random = StdRng::seed_from_u64(17);
    let (mut compared, mut with_marks, mut ambiguous) = (0, 0, 0);
    while compared < CALLS {
        let of = session(random.random_range(0..SESSIONS));
        let change = match random.random_range(0..10) {
            0..4 => {
                // Zero keeps none.
                let kept_for = [1, 20, 60, 200][random.random_range(0..4)];
                Some(EndChange::Mark(of, Duration::from_millis(kept_for)))
            }
            4..7 => Some(EndChange::Count(of, count(random.random_range(0..3)))),
            _ => None,
        };
        match marks.change(change).await {
            Some(has_any) => {
                compared += 1;
                with_marks += usize::from(has_any);
            }
            None => {
                // What became of it is not known: it begins anew.
                ambiguous += 1;
                assert!(ambiguous < CALLS, "the machine is too busy");
                let flush = redis::cmd("FLUSHALL");
                let () = flush.query_async(&mut marks.clock).await.unwrap();
                (marks.rules, marks.ends) = (EndedSessions::default(), Vec::new());
            }
        }
    }
    println!("{compared} agreed, {with_marks} with marks; {ambiguous} at the end of a mark");
    assert!(with_marks > CALLS / 4, "{with_marks} of {compared}");
}

/// A coordinator may mark a session whose former mark has ended before anybody looked.
#[tokio::test]
async fn a_session_whose_mark_has_ended_is_marked_anew() {
    let redis = RedisServer::start();
    let mut marks = Marks::new(&redis).await;
    let short = EndChange::Mark(session(1), Duration::from_millis(50));
    let other = mark(2);
    for change in [other, short] {
        assert_eq!(marks.change(Some(change)).await, Some(true));
    }
    let until = marks.now().await.after(Duration::from_millis(60));
    while marks.now().await < until {
        tokio::time::sleep(APART).await;
    }
    for change in [Some(mark(1)), None] {
        assert_eq!(marks.change(change).await, Some(true), "{change:?}");
    }
}

#[tokio::test]
async fn there_is_room_for_as_many_marks_in_redis_as_by_the_rules() {
    let redis = RedisServer::start();
    let mut marks = Marks::new(&redis).await;
    for number in 0..=u16::try_from(MOST_ENDED).unwrap() {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        let change = EndChange::Mark(SessionId::from_bytes(bytes), LONG);
        let is_last = usize::from(number) == MOST_ENDED;
        assert_eq!(marks.change(Some(change)).await, Some(!is_last));
    }
    // One that is there may be marked again, and counts.
    let there = SessionId::from_bytes([0; 16]);
    for change in [
        EndChange::Mark(there, LONG),
        EndChange::Count(there, count(1)),
    ] {
        assert_eq!(marks.change(Some(change)).await, Some(true));
    }
    let unknown = EndChange::Count(session(255), count(1));
    assert_eq!(marks.change(Some(unknown)).await, Some(true));
}

#[tokio::test]
async fn a_session_is_marked_while_redis_is_full() {
    let redis = RedisServer::start();
    let mut marks = Marks::new(&redis).await;
    assert_eq!(marks.change(Some(mark(1))).await, Some(true));
    full::fill(&redis).await;
    for change in [
        mark(2),
        EndChange::Count(session(1), count(1)),
        EndChange::Count(session(2), count(2)),
    ] {
        assert_eq!(marks.change(Some(change)).await, Some(true));
    }
    let key: Vec<String> = redis::cmd("KEYS")
        .arg("lh:ended-sessions:*")
        .query_async(&mut marks.clock)
        .await
        .unwrap();
    let expires: i64 = redis::cmd("PTTL")
        .arg(&key)
        .query_async(&mut marks.clock)
        .await
        .unwrap();
    assert!(expires > 0, "{key:?} expires in {expires}");
}
