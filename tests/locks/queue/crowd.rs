//! A crowd that waits for one name at several coordinators.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    audit::{self, TtlAudit},
    coordinator::Metrics,
    queue::queue_order,
    raw::{Granted, PROMPT},
    report, wait,
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use redis::aio::MultiplexedConnection;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::queue::turns::{Member, Turns};

pub(crate) const NAME: &str = "crowded";
pub(crate) const KEY: &str = "lock:crowded";
pub(crate) const WAITERS: usize = 300;
/// Of every session: a few seconds, since a dead coordinator's client keeps the lock for what is left of it.
pub(crate) const TTL: Duration = Duration::from_secs(4);
/// So many ask at a time, so that the coordinators' acquires mix in Redis, however slow the coordinators are.
const AT_A_TIME: usize = 16;
/// Time for which Redis keeps the places of a dead coordinator's waiters, from their last refresh.
const PLACES_KEPT: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(2);

/// Three hundred sessions that wait for [`NAME`], which somebody else holds.
pub(crate) struct Crowd {
    _redis: RedisServer,
    pub(crate) connection: MultiplexedConnection,
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    /// The members' numbers in the order in which they are to be served, by Redis.
    pub(crate) order: Vec<usize>,
    members: Vec<Member>,
    holder: RawSession,
    held: Granted,
    looking: TtlAudit,
}

impl Crowd {
    /// Starts Redis and the coordinators, and has everybody wait, spread evenly over the coordinators.
    pub(crate) async fn gather(coordinators: usize) -> Self {
        let redis = RedisServer::start();
        let mut connection = redis.async_connection().await;
        let looking = TtlAudit::start(&redis, Duration::from_millis(20)).await;
        let coordinators: Vec<_> = (0..coordinators)
            .map(|_| Coordinator::process().store(redis.url()).start())
            .collect();
        let mut holder = RawSession::open(&coordinators[0].endpoint(), TTL).await;
        holder.keep_alive(TTL / 4);
        let held = holder.acquire(NAME).await;

        let members = arrive(&coordinators).await;
        let numbers: HashMap<&[u8], usize> = members
            .iter()
            .map(|member| (&member.ticket[..], member.number))
            .collect();
        assert_eq!(numbers.len(), WAITERS, "each has a ticket of its own");
        // Whoever is in the queue and has no ticket of ours fails here; that all of ours are, is asserted below.
        let order: Vec<usize> = queue_order(&mut connection, NAME)
            .await
            .iter()
            .map(|owner| numbers[&owner[..]])
            .collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(
            sorted.iter().copied().eq(0..WAITERS),
            "all are in the queue, once"
        );
        Self {
            _redis: redis,
            connection,
            coordinators,
            order,
            members,
            holder,
            held,
            looking,
        }
    }

    /// Returns the coordinator at which a member waits.
    pub(crate) fn coordinator_of(&self, number: usize) -> usize {
        number % self.coordinators.len()
    }

    /// Returns the first rank from `from` on for which `wanted` accepts the coordinators of that member and of the next.
    pub(crate) fn rank_where(&self, from: usize, wanted: impl Fn(usize, usize) -> bool) -> usize {
        let at = |rank: usize| self.coordinator_of(self.order[rank]);
        (from..WAITERS - 1)
            .find(|rank| wanted(at(*rank), at(rank + 1)))
            .expect("the coordinators' waiters are mixed")
    }

    /// Returns the place that each member received, in the order in which Redis has them.
    pub(crate) fn told(&self) -> Vec<u64> {
        self.order
            .iter()
            .map(|number| self.members[*number].place)
            .collect()
    }

    /// Returns the owner id that the grant of a rank will have.
    pub(crate) fn ticket(&self, rank: usize) -> Vec<u8> {
        // Members are in the order of their numbers until the turns begin.
        self.members[self.order[rank]].ticket.clone()
    }

    /// Releases the first holder's lock, and begins the turns.
    pub(crate) async fn begin(&mut self) -> Turns {
        let mut turns = Turns::begin(std::mem::take(&mut self.members), self.coordinators.len());
        turns.released_before(self.held.lock.fencing_token, Instant::now());
        assert!(self.holder.release(&self.held.lock).await);
        turns
    }

    /// Waits until nothing is left, in the coordinators that live and in Redis: at once, but for the places of a dead
    /// coordinator's waiters.
    pub(crate) async fn nothing_is_left(self, dead: Option<usize>) {
        self.holder.close().await;
        for (number, coordinator) in self.coordinators.iter().enumerate() {
            if Some(number) != dead {
                idle(coordinator).await;
            }
        }
        let began = Instant::now();
        let limit = match dead {
            Some(_) => PLACES_KEPT + MARGIN,
            None => Duration::ZERO,
        };
        // The record of the newest token outlives the lock, to keep tokens rising.
        wait::until("only the token's record to be in Redis", limit, || {
            let mut connection = self.connection.clone();
            async move {
                let keys = audit::keys(&mut connection, "*").await.unwrap();
                let is_token = |key: &String| key.starts_with("lh:") && key.contains(":token:");
                match keys.len() {
                    1 if keys.keys().all(is_token) => Ok(()),
                    _ => Err(keys),
                }
            }
        })
        .await;
        let audited = self.looking.finish().await;
        report(format!(
            "only the token's record was left after another {:?}; {audited:?}",
            began.elapsed()
        ));
        assert!(audited.passes > 10, "{audited:?}");
    }
}

/// Makes every member open a session and ask for the name. Their order in Redis is not decided here.
async fn arrive(coordinators: &[CoordinatorProcess]) -> Vec<Member> {
    let mut channels = Vec::new();
    for coordinator in coordinators {
        channels.push(coordinator.channel().await);
    }
    let mut opening = JoinSet::new();
    for number in 0..WAITERS {
        let channel = channels[number % channels.len()].clone();
        opening.spawn(async move {
            let mut session = RawSession::open_on(channel, TTL).await;
            session.keep_alive(TTL / 4);
            (number, session)
        });
    }
    let mut sessions = opening.join_all().await;
    sessions.shuffle(&mut StdRng::from_os_rng());
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut asking = JoinSet::new();
    for (number, mut session) in sessions {
        let places = Arc::clone(&places);
        asking.spawn(async move {
            let _place = places.acquire().await;
            let id = session.ask(NAME, None).await;
            match session.answer(id, PROMPT).await {
                Response::Queued(queued) => Member {
                    number,
                    session,
                    place: queued.position,
                    ticket: queued.ticket,
                },
                other => panic!("not queued: {other:?}"),
            }
        });
    }
    let mut members = asking.join_all().await;
    members.sort_unstable_by_key(|member| member.number);
    members
}

/// Waits until a coordinator's own gauges say that nothing is left.
async fn idle(coordinator: &CoordinatorProcess) {
    wait::until("the coordinator to have nothing left", PROMPT, || async {
        let metrics = coordinator.metrics().await;
        let left: Vec<_> = Metrics::GAUGES
            .into_iter()
            .map(|name| (name, metrics.sum(name)))
            .filter(|(_, value)| *value != 0.0)
            .collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}
