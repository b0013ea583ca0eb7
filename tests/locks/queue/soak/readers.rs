//! Two hundred readers and five writers of one name: the time that a writer waits.
//!
//! What is ahead of it are groups: readers that stand next to each other in the queue are let in together, and count once;
//! each writer counts for itself. All in the queue hold the lock for the same time, so a writer's wait is its groups times
//! that, if nothing is lost between them and nobody comes in between. Readers that were served ask again at once, as long
//! as there are writers: were they let in beside the others, no writer would ever be served.
//!
//! For how long they held is by their own account, from the grant until the release was sent: on a busy machine it is longer
//! than they meant to.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_proto::v1::{GrantedLock, session_response::Response};
use leasehold_tests::{
    Coordinator, Latencies, RawSession, RedisServer,
    alone::alone,
    queue::queue_order,
    raw::{PROMPT, exclusive, shared},
    report,
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::{sync::Semaphore, task::JoinSet};

const NAME: &str = "read";
const READERS: usize = 200;
const WRITERS: usize = 5;
/// Time for which each client holds the lock.
const HOLD: Duration = Duration::from_millis(400);
const ROUNDS: usize = 6;
/// Of every session.
const TTL: Duration = Duration::from_secs(20);
/// So many ask at a time.
const AT_A_TIME: usize = 16;
/// Bound on the median wait of writers, relative to the holds ahead of them.
const BOUND: f64 = 1.2;

struct Member {
    session: RawSession,
    writes: bool,
    asked: u64,
    ticket: Vec<u8>,
}

impl Member {
    async fn ask(&mut self) {
        let acquire = if self.writes {
            exclusive(NAME)
        } else {
            shared(NAME)
        };
        self.asked = self.session.ask_for(acquire).await;
    }

    /// Waits for its grant.
    async fn granted(&mut self, inside: &Inside) -> Held {
        let lock = self.session.granted_all(self.asked, TTL).await.remove(0);
        let at = Instant::now();
        inside.enter(self.writes);
        Held { lock, at }
    }

    /// Holds the lock, and gives it back.
    async fn hold(&mut self, held: &Held, inside: &Inside) -> Turn {
        tokio::time::sleep_until((held.at + HOLD).into()).await;
        inside.leave(self.writes);
        let turn = Turn {
            granted: held.at,
            held: held.at.elapsed(),
        };
        assert!(self.session.release(&held.lock).await);
        turn
    }
}

struct Held {
    lock: GrantedLock,
    at: Instant,
}

/// One member's first turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    granted: Instant,
    held: Duration,
}

/// Holders of the lock, by their own account.
#[derive(Default)]
struct Inside {
    readers: AtomicUsize,
    writers: AtomicUsize,
    most_readers: AtomicUsize,
}

impl Inside {
    fn enter(&self, writes: bool) {
        let (readers, writers) = if writes {
            let before = self.writers.fetch_add(1, Ordering::SeqCst);
            (self.readers.load(Ordering::SeqCst), before)
        } else {
            let before = self.readers.fetch_add(1, Ordering::SeqCst);
            self.most_readers.fetch_max(before + 1, Ordering::SeqCst);
            (0, self.writers.load(Ordering::SeqCst))
        };
        assert_eq!((readers, writers), (0, 0), "a writer is not alone");
    }

    fn leave(&self, writes: bool) {
        let count = if writes { &self.writers } else { &self.readers };
        count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes every member ask while another client holds the lock. Their order in Redis is not decided here.
async fn arrive(mut members: Vec<Member>) -> Vec<Member> {
    members.shuffle(&mut StdRng::from_os_rng());
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut asking = JoinSet::new();
    for mut member in members {
        let places = Arc::clone(&places);
        asking.spawn(async move {
            let _place = places.acquire().await;
            member.ask().await;
            match member.session.answer(member.asked, PROMPT).await {
                Response::Queued(queued) => member.ticket = queued.ticket,
                other => panic!("not queued: {other:?}"),
            }
            member
        });
    }
    asking.join_all().await
}

/// Returns for each writer, in the order of the queue, the time of its grant, and the time for which the groups ahead of it
/// held the lock.
fn writers(order: &[Vec<u8>], turns: &HashMap<Vec<u8>, (bool, Turn)>) -> Vec<(Instant, Duration)> {
    let mut writers = Vec::new();
    let (mut before, mut readers) = (Duration::ZERO, Duration::ZERO);
    for ticket in order {
        let (writes, turn) = turns[ticket];
        if writes {
            before += std::mem::take(&mut readers);
            writers.push((turn.granted, before));
            before += turn.held;
        } else {
            readers = readers.max(turn.held);
        }
    }
    writers
}

/// Figures of a round.
struct Served {
    members: Vec<Member>,
    /// Everybody's first turn, by ticket, and whether it was a writer's.
    turns: HashMap<Vec<u8>, (bool, Turn)>,
    /// The time at which the first reader was let in again.
    again: Option<Instant>,
}

/// Serves everybody, the readers again and again until the last writer has been.
async fn serve(
    members: Vec<Member>,
    inside: &Arc<Inside>,
    let_go: impl Future<Output = ()>,
) -> Served {
    let left = Arc::new(AtomicUsize::new(WRITERS));
    let mut tasks = JoinSet::new();
    for mut member in members {
        let (inside, left) = (Arc::clone(inside), Arc::clone(&left));
        tasks.spawn(async move {
            let held = member.granted(&inside).await;
            let first = member.hold(&held, &inside).await;
            if member.writes {
                left.fetch_sub(1, Ordering::SeqCst);
                return (member, first, None);
            }
            let mut again = None;
            while left.load(Ordering::SeqCst) > 0 {
                member.ask().await;
                let held = member.granted(&inside).await;
                again = again.or(Some(held.at));
                member.hold(&held, &inside).await;
            }
            (member, first, again)
        });
    }
    let_go.await;
    let served = tasks.join_all().await;
    let turns = served
        .iter()
        .map(|(member, first, _)| (member.ticket.clone(), (member.writes, *first)))
        .collect();
    let again = served.iter().filter_map(|(_, _, again)| *again).min();
    Served {
        members: served.into_iter().map(|(member, ..)| member).collect(),
        turns,
        again,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_writers_among_two_hundred_readers_wait_no_longer_than_what_is_ahead_of_them() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let mut connection = redis.async_connection().await;
    let options = Coordinator::process().store(redis.url());
    let coordinators = [options.clone().start(), options.start()];
    let channels = [
        coordinators[0].channel().await,
        coordinators[1].channel().await,
    ];
    let mut members = Vec::new();
    for number in 0..READERS + WRITERS {
        let mut session = RawSession::open_on(channels[number % 2].clone(), TTL).await;
        session.keep_alive(TTL / 4);
        members.push(Member {
            session,
            writes: number < WRITERS,
            asked: 0,
            ticket: Vec::new(),
        });
    }
    let mut first = RawSession::open_on(channels[0].clone(), TTL).await;
    first.keep_alive(TTL / 4);

    let inside = Arc::new(Inside::default());
    let mut waits = Latencies::new("writers' waits among 200 readers");
    let mut shares = Vec::new();
    for _ in 0..ROUNDS {
        let held = first.acquire(NAME).await;
        members = arrive(members).await;
        let order = queue_order(&mut connection, NAME).await;
        assert_eq!(order.len(), READERS + WRITERS);
        let began = Instant::now();
        let let_go = async { assert!(first.release(&held.lock).await) };
        let served = serve(members, &inside, let_go).await;
        members = served.members;
        let writers = writers(&order, &served.turns);
        assert_eq!(writers.len(), WRITERS);
        assert!(
            writers.is_sorted_by_key(|(granted, _)| *granted),
            "served out of turn: {writers:?}"
        );
        assert!(
            served
                .again
                .is_none_or(|again| writers.iter().all(|(granted, _)| *granted < again)),
            "a reader came back before a writer was served"
        );
        // Whoever is first has nothing ahead to compare with.
        for (granted, ahead) in writers.into_iter().filter(|(_, ahead)| !ahead.is_zero()) {
            waits.record(granted - began);
            shares.push((granted - began).div_duration_f64(ahead));
        }
    }
    waits.print();
    shares.sort_unstable_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    report(format!(
        "wait / (groups ahead x hold), held for {HOLD:?}: n={} p50={median:.3} max={:.3}; at most {} readers at a time",
        shares.len(),
        shares[shares.len() - 1],
        inside.most_readers.load(Ordering::SeqCst),
    ));
    assert!(median < BOUND, "{median}");
    assert!(shares[0] >= 0.99, "granted before their turn: {shares:?}");
    assert!(queue_order(&mut connection, NAME).await.is_empty());
}
