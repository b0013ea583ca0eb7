//! Two hundred readers and five writers of one name: how long a writer waits.
//!
//! What is ahead of it are groups: readers that stand next to each other in the queue are let in together, and count once;
//! each writer counts for itself. All in the queue hold the lock for the same time, so a writer's wait is its groups times
//! that, if nothing is lost between them and nobody comes in between. Readers that were served ask again at once, as long
//! as there are writers: were they let in beside the others, no writer would ever be served.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    Coordinator, Latencies, RawSession, RedisServer,
    alone::alone,
    queue::queue_order,
    raw::{PROMPT, exclusive, shared},
    report,
    stalls::Stalls,
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::{sync::Semaphore, task::JoinSet};

const NAME: &str = "read";
const READERS: usize = 200;
const WRITERS: usize = 5;
/// How long everybody holds the lock.
const HOLD: Duration = Duration::from_millis(150);
const ROUNDS: usize = 16;
/// Of every session.
const TTL: Duration = Duration::from_secs(20);
/// So many ask at a time.
const AT_A_TIME: usize = 16;
/// A round in which the machine stood still for longer says nothing, and is not counted.
const STALL: Duration = Duration::from_millis(16);
/// Most rounds that may be left out for that.
const LEFT_OUT: usize = ROUNDS / 4;
/// How long a writer may wait, by what is ahead of it.
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
    async fn hold(&mut self, held: &Held, inside: &Inside) {
        tokio::time::sleep_until((held.at + HOLD).into()).await;
        inside.leave(self.writes);
        assert!(self.session.release(&held.lock).await);
    }
}

struct Held {
    lock: leasehold_proto::v1::GrantedLock,
    at: Instant,
}

/// Who is inside, by their own account.
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

/// Everybody asks while somebody else holds the lock; in which order they reach Redis is not up to this.
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

/// The groups ahead of each writer, by its ticket.
fn groups_ahead(order: &[Vec<u8>], members: &[Member]) -> HashMap<Vec<u8>, u32> {
    let writes: HashMap<&[u8], bool> = members
        .iter()
        .map(|member| (&member.ticket[..], member.writes))
        .collect();
    let (mut ahead, mut groups, mut among_readers) = (HashMap::new(), 0, false);
    for ticket in order {
        if writes[&ticket[..]] {
            ahead.insert(ticket.clone(), groups);
            groups += 1;
            among_readers = false;
        } else if !among_readers {
            groups += 1;
            among_readers = true;
        }
    }
    ahead
}

/// Serves everybody, the readers again and again until the last writer has been, and gives how long each writer waited.
async fn serve(
    members: Vec<Member>,
    inside: &Arc<Inside>,
    let_go: impl Future<Output = ()>,
) -> (Vec<Member>, HashMap<Vec<u8>, Instant>, Instant) {
    let writers = Arc::new(AtomicUsize::new(WRITERS));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut turns = JoinSet::new();
    for mut member in members {
        let (inside, writers) = (Arc::clone(inside), Arc::clone(&writers));
        let is_over = Arc::clone(&is_over);
        turns.spawn(async move {
            let held = member.granted(&inside).await;
            let at = held.at;
            member.hold(&held, &inside).await;
            if member.writes {
                if writers.fetch_sub(1, Ordering::SeqCst) == 1 {
                    is_over.store(true, Ordering::SeqCst);
                }
                return (member, Some(at));
            }
            while !is_over.load(Ordering::SeqCst) {
                member.ask().await;
                let held = member.granted(&inside).await;
                member.hold(&held, &inside).await;
            }
            (member, None)
        });
    }
    let began = Instant::now();
    let_go.await;
    let (mut members, mut granted) = (Vec::new(), HashMap::new());
    for (member, at) in turns.join_all().await {
        if let Some(at) = at {
            granted.insert(member.ticket.clone(), at);
        }
        members.push(member);
    }
    (members, granted, began)
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
    let stalls = Stalls::watch();
    let mut waits = Latencies::new("writers' waits among 200 readers");
    let mut shares = Vec::new();
    let mut left_out = 0;
    for _ in 0..ROUNDS {
        let held = first.acquire(NAME).await;
        members = arrive(members).await;
        let order = queue_order(&mut connection, NAME).await;
        assert_eq!(order.len(), READERS + WRITERS);
        let ahead = groups_ahead(&order, &members);
        stalls.worst();
        let let_go = async { assert!(first.release(&held.lock).await) };
        let (served, granted, began) = serve(members, &inside, let_go).await;
        members = served;
        // Writers come in the order in which Redis saw them.
        let mut turns: Vec<(Instant, u32)> = granted
            .iter()
            .map(|(ticket, at)| (*at, ahead[ticket]))
            .collect();
        turns.sort_unstable();
        assert!(
            turns.is_sorted_by_key(|(_, groups)| *groups),
            "served out of turn: {turns:?}"
        );
        if stalls.worst() > STALL {
            left_out += 1;
            continue;
        }
        // Whoever is first has nothing ahead to compare with.
        for (at, groups) in turns.into_iter().filter(|(_, groups)| *groups > 0) {
            waits.record(at - began);
            shares.push((at - began).div_duration_f64(HOLD * groups));
        }
    }
    waits.print();
    shares.sort_unstable_by(f64::total_cmp);
    assert!(left_out <= LEFT_OUT, "{left_out} rounds are left out");
    let p99 = shares[shares.len() * 99 / 100];
    report(format!(
        "wait / (groups ahead x {HOLD:?}): n={} p50={:.3} p99={p99:.3} max={:.3}; at most {} readers at a time; {left_out} \
         rounds left out, in which the machine stood still",
        shares.len(),
        shares[shares.len() / 2],
        shares[shares.len() - 1],
        inside.most_readers.load(Ordering::SeqCst),
    ));
    assert!(p99 < BOUND, "{p99}");
    assert!(shares[0] > 0.95, "granted before their turn: {shares:?}");
    assert!(queue_order(&mut connection, NAME).await.is_empty());
}
