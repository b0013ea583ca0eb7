//! Acquires that are cancelled, time out or are cut off leave nothing behind, in Redis or in the coordinator.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_client::{Client, Session};
use leasehold_proto::v1::{AcquireRequest, lock_service_client::LockServiceClient};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, FaultProxy, RawSession, RedisServer,
    alone::alone,
    audit::{self, TtlAudit},
    coordinator::Metrics,
    proxy::Cut,
    raw::{PROMPT, connect, wire},
    report, wait,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;
use tonic::transport::Channel;

const ACQUIRES: u32 = 10_000;
const TASKS: u64 = 32;
const NAMES: u32 = 24;
const SEED: u64 = 20_240_817;
const TTL: Duration = Duration::from_secs(5);
/// Unary grants whose answer was cut off may only end by their TTL.
const UNARY_TTL: Duration = Duration::from_secs(1);

/// One of the tasks that make trouble.
struct Trouble {
    random: StdRng,
    endpoint: String,
    proxied: String,
    done: Arc<AtomicU32>,
    channel: Channel,
    client: Session,
}

impl Trouble {
    fn name(&mut self) -> String {
        format!("cleanup/{}", self.random.random_range(0..NAMES))
    }

    fn moment(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.random.random_range(0..most))
    }

    /// Counts acquires; false once there were enough.
    fn more(&self, acquires: u32) -> bool {
        self.done.fetch_add(acquires, Ordering::Relaxed) < ACQUIRES
    }

    async fn run(mut self) {
        loop {
            let kind = self.random.random_range(0..100);
            let more = match kind {
                0..25 => self.cancelled_on_a_session().await,
                25..40 => self.dropped_session().await,
                40..65 => self.dropped_call().await,
                65..90 => self.dropped_future().await,
                _ => self.cut_connection().await,
            };
            if !more {
                return;
            }
        }
    }

    /// Acquires on one stream that are cancelled or time out; what is granted is released or left to the stream's end.
    async fn cancelled_on_a_session(&mut self) -> bool {
        let mut session = RawSession::open_on(self.channel.clone(), TTL).await;
        let count = self.random.random_range(1..12);
        for _ in 0..count {
            let name = self.name();
            let wait = self.moment(4_000);
            if self.random.random() {
                session.ask(&name, Some(wait)).await;
            } else {
                let id = session.ask(&name, None).await;
                tokio::time::sleep(wait).await;
                session.cancel(id).await;
            }
        }
        if self.random.random() {
            session.close().await;
        } else {
            session.half_close();
            session.end(PROMPT).await.ok();
        }
        self.more(count)
    }

    /// Resets a stream while its acquires are in flight.
    async fn dropped_session(&mut self) -> bool {
        let mut session = RawSession::open_on(self.channel.clone(), TTL).await;
        let count = self.random.random_range(1..12);
        for _ in 0..count {
            let name = self.name();
            session.ask(&name, None).await;
        }
        tokio::time::sleep(self.moment(5_000)).await;
        drop(session);
        self.more(count)
    }

    /// Cancels a unary call.
    async fn dropped_call(&mut self) -> bool {
        let mut client = LockServiceClient::new(self.channel.clone());
        let request = AcquireRequest {
            name: self.name(),
            ttl: wire(UNARY_TTL),
            wait: wire(self.moment(100_000)),
            ..AcquireRequest::default()
        };
        let moment = self.moment(5_000);
        // Granted in time: nobody releases it, as by a caller that dies.
        let _ = tokio::time::timeout(moment, client.acquire(request)).await;
        self.more(1)
    }

    /// Drops a future of the Rust client, or its guard.
    async fn dropped_future(&mut self) -> bool {
        let name = self.name();
        let moment = self.moment(5_000);
        let acquire = self.client.lock(name).into_future();
        if let Ok(guard) = tokio::time::timeout(moment, acquire).await {
            drop(guard);
        }
        self.more(1)
    }

    /// Cuts a connection while the acquires of its session are in flight.
    async fn cut_connection(&mut self) -> bool {
        let address = self.endpoint.trim_start_matches("http://").parse().unwrap();
        let proxy = FaultProxy::start(address).await;
        self.proxied = proxy.endpoint();
        let mut session = RawSession::open(&self.proxied, TTL).await;
        let count = self.random.random_range(1..12);
        for _ in 0..count {
            let name = self.name();
            session.ask(&name, None).await;
        }
        tokio::time::sleep(self.moment(5_000)).await;
        let cut = if self.random.random() {
            Cut::Fin
        } else {
            Cut::Rst
        };
        proxy.cut(cut).await;
        self.more(count)
    }
}

/// Waits until the coordinator's own gauges say that nothing is left.
async fn all_gone(coordinator: &CoordinatorProcess, tasks_before: f64, limit: Duration) {
    wait::until("the coordinator to have nothing left", limit, || async {
        let metrics = coordinator.metrics().await;
        let mut left: Vec<_> = Metrics::GAUGES
            .into_iter()
            .map(|name| (name, metrics.sum(name)))
            .filter(|(_, value)| *value != 0.0)
            .collect();
        let tasks = metrics.sum("leasehold_tasks");
        if tasks > tasks_before {
            left.push(("leasehold_tasks", tasks - tasks_before));
        }
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_acquires_cancelled_timed_out_or_cut_off_leave_nothing() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let tasks_before = coordinator.metrics().await.sum("leasehold_tasks");
    let looking = TtlAudit::start(&redis, Duration::from_millis(5)).await;

    let began = Instant::now();
    let done = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = Client::connect(coordinator.endpoint()).await.unwrap();
        let trouble = Trouble {
            random: StdRng::seed_from_u64(SEED + task),
            endpoint: coordinator.endpoint(),
            proxied: String::new(),
            done: Arc::clone(&done),
            channel: connect(&coordinator.endpoint()).await,
            client: client.session().ttl(TTL).open().await.unwrap(),
        };
        tasks.spawn(trouble.run());
    }
    tasks.join_all().await;
    let metrics = coordinator.metrics().await;
    report(format!(
        "{} acquires in {:?}, seed {SEED}: {} grants, {} of them hand-offs",
        done.load(Ordering::Relaxed),
        began.elapsed(),
        metrics.sum("leasehold_grants_total"),
        metrics.sum("leasehold_handoffs_total"),
    ));

    let gone = Instant::now();
    all_gone(
        &coordinator,
        tasks_before,
        UNARY_TTL + Duration::from_secs(2),
    )
    .await;
    let audited = looking.finish().await;
    report(format!(
        "everything gone {:?} later; {audited:?}",
        gone.elapsed()
    ));
    assert!(audited.keys > 1_000, "{audited:?}");

    // The records of tokens outlive their locks, to keep tokens rising. A unary call that was granted and whose caller died is not
    // the coordinator's any more, and ends with its TTL.
    let mut connection = redis.async_connection().await;
    let limit = i64::try_from(UNARY_TTL.as_millis()).unwrap();
    let keys = loop {
        let keys = audit::keys(&mut connection, "*").await.unwrap();
        let mut left = keys.iter().filter(|(key, life)| {
            // 0: in its last millisecond.
            assert!(**life >= 0, "{key} has no TTL");
            !(key.starts_with("lh:") && key.contains(":token:"))
        });
        let Some((key, life)) = left.next() else {
            break keys;
        };
        assert!(
            *life <= limit && gone.elapsed() < UNARY_TTL + Duration::from_secs(2),
            "{key} was left for {life} ms"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(keys.len() <= NAMES as usize, "{keys:?}");
}
