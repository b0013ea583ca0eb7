//! Marks of ended sessions: the script against the rules.

use std::time::Duration;

use leasehold_core::{
    ended::{EndChange, EndedCount, EndedSessions, MOST_ENDED, MOST_ENDED_BY_ONE, Mark},
    id::SessionId,
};
use leasehold_store::Store;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::differential::server::Server;

/// Changes that are compared, and looks.
const CALLS: usize = 2_000;
/// Sessions that they are about.
const SESSIONS: u8 = 12;
/// For longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// Marks sessions 1, 2, … as session 0 is marked, each for a caller of its own.
const COPY: &str = "for number = 1, ARGV[1] do
    local rest = string.rep('\\0', 14)
    local mark = redis.call('HGET', KEYS[1], struct.pack('>I2', 0) .. rest .. '0')
    redis.call('HSET', KEYS[1], struct.pack('>I2', number) .. rest .. number, mark)
end";

/// Marks in Redis, and by the rules.
struct Marks {
    server: Server,
    store: Store,
    rules: EndedSessions,
}

impl Marks {
    async fn new() -> Self {
        let server = Server::start().await;
        Self {
            store: server.connect().await,
            server,
            rules: EndedSessions::default(),
        }
    }

    /// Makes a change in both, and returns whether there is any mark then, and was room.
    async fn change(&mut self, change: Option<EndChange>) -> bool {
        let sorted = |marks: Option<Vec<(Mark, EndedCount)>>| {
            let mut marks = marks?;
            marks.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            Some(marks)
        };
        let got = sorted(self.store.ended_sessions(change.clone()).await.unwrap());
        let expected = sorted(self.rules.change(change.clone(), self.server.now()));
        assert_eq!(got, expected, "after {change:?}");
        got.is_some_and(|marks| !marks.is_empty())
    }
}

fn mark_of(number: u8, by: &str) -> Mark {
    Mark {
        session: SessionId::from_bytes([number; 16]),
        by: by.into(),
    }
}

fn one(number: u8) -> Mark {
    mark_of(number, "operator")
}

fn mark(number: u8) -> EndChange {
    EndChange::Mark(one(number), LONG)
}

fn count(sessions: u32) -> EndedCount {
    EndedCount {
        sessions,
        holds: 2 * sessions,
        waiters: 3,
        denied: sessions / 2,
    }
}

#[tokio::test]
async fn random_changes_of_marks_agree() {
    let mut marks = Marks::new().await;
    let mut random = StdRng::seed_from_u64(17);
    let mut with_marks = 0;
    for _ in 0..CALLS {
        let by = ["a", "b"][random.random_range(0..2)];
        let of = mark_of(random.random_range(0..SESSIONS), by);
        let change = match random.random_range(0..10) {
            0..4 => {
                // Zero keeps none.
                let kept_for = [1, 20, 60, 200][random.random_range(0..4)];
                Some(EndChange::Mark(of, Duration::from_millis(kept_for)))
            }
            4..6 => Some(EndChange::Count(of, count(random.random_range(0..3)))),
            6..8 => {
                let kept_for = random.random_range(1..100);
                Some(EndChange::Settle(of, Duration::from_millis(kept_for)))
            }
            _ => None,
        };
        with_marks += usize::from(marks.change(change).await);
        // To the very moment at which a mark ends, too.
        let passed = [0, 0, 1, 7, 40][random.random_range(0..5)];
        marks.server.pass(Duration::from_millis(passed));
    }
    assert!(with_marks > CALLS / 4, "{with_marks} of {CALLS}");
}

/// A coordinator may mark a session whose former mark has ended before anybody looked.
#[tokio::test]
async fn a_session_whose_mark_has_ended_is_marked_anew() {
    let mut marks = Marks::new().await;
    let short = Duration::from_millis(50);
    for change in [mark(2), EndChange::Mark(one(1), short)] {
        assert!(marks.change(Some(change)).await);
    }
    marks.server.pass(short);
    for change in [Some(mark(1)), None] {
        assert!(marks.change(change.clone()).await, "{change:?}");
    }
}

#[tokio::test]
async fn there_is_room_for_as_many_marks_in_redis_as_by_the_rules() {
    let mut marks = Marks::new().await;
    let most = u16::try_from(MOST_ENDED).unwrap();
    let mark = |number: u16| {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        let mark = Mark {
            session: SessionId::from_bytes(bytes),
            by: number.to_string().into(),
        };
        EndChange::Mark(mark, LONG)
    };
    assert!(marks.change(Some(mark(0))).await);
    let keys: Vec<String> = marks.server.ask(&["KEYS", "lh:session-ends:*"]).await;
    let copies = (most - 3).to_string();
    let () = marks
        .server
        .ask(&["EVAL", COPY, "1", &keys[0], &copies])
        .await;
    for number in 1..=most - 3 {
        marks.rules.change(Some(mark(number)), marks.server.now());
    }
    for number in [most - 2, most - 1, most] {
        assert_eq!(marks.change(Some(mark(number))).await, number < most);
    }
    // One that is there may be marked again, and counts.
    let there = mark(0).mark().clone();
    for change in [mark(0), EndChange::Count(there, count(1))] {
        assert!(marks.change(Some(change)).await);
    }
    let unknown = EndChange::Count(one(255), count(1));
    assert!(marks.change(Some(unknown)).await);
}

#[tokio::test]
async fn each_caller_has_a_share_of_the_marks_in_redis_as_by_the_rules() {
    let mut marks = Marks::new().await;
    let most = u8::try_from(MOST_ENDED_BY_ONE).unwrap();
    for number in 0..=most {
        let has_room = marks.change(Some(mark(number))).await;
        assert_eq!(has_room, number < most, "{number}");
    }
    let of_another = EndChange::Mark(mark_of(most, "another"), LONG);
    assert!(marks.change(Some(of_another)).await);
}

#[tokio::test]
async fn a_session_is_marked_while_redis_is_full() {
    let mut marks = Marks::new().await;
    assert!(marks.change(Some(mark(1))).await);
    marks.server.fill().await;
    for change in [
        mark(2),
        EndChange::Count(one(1), count(1)),
        EndChange::Count(one(2), count(2)),
    ] {
        assert!(marks.change(Some(change)).await);
    }
    let key: Vec<String> = marks.server.ask(&["KEYS", "lh:session-ends:*"]).await;
    let expires: i64 = marks.server.ask(&["PTTL", &key[0]]).await;
    assert!(expires > 0, "{key:?} expires in {expires}");
}
