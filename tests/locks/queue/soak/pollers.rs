//! Clients that poll Redis for the lock, as common libraries do.

use std::{sync::Arc, time::Duration};

use leasehold_tests::RedisServer;
use rand::{Rng, SeedableRng, rngs::StdRng};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::fairness::{CLIENTS, HOLD, NAME, Window};

const PAUSE: Duration = Duration::from_millis(50);
const TTL_MS: u32 = 10_000;
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Pause before a client asks again.
#[derive(Clone, Copy)]
pub(crate) enum Pause {
    /// Always the same.
    Fixed,
    /// Up to as long, at random.
    Random,
}

impl Pause {
    fn pick(self, random: &mut StdRng) -> Duration {
        match self {
            Self::Fixed => PAUSE,
            Self::Random => random.random_range(Duration::ZERO..PAUSE),
        }
    }
}

/// Has pollers compete for one key, each on a connection of its own.
pub(crate) async fn compete(pause: Pause) -> Arc<Window> {
    let redis = RedisServer::start();
    let window = Arc::new(Window::new());
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(redis.async_connection().await);
    }
    window.open();
    let mut tasks = JoinSet::new();
    for (client, connection) in connections.into_iter().enumerate() {
        tasks.spawn(poll(client, connection, pause, Arc::clone(&window)));
    }
    tasks.join_all().await;
    window
}

async fn poll(client: usize, mut redis: MultiplexedConnection, pause: Pause, window: Arc<Window>) {
    let mut random = StdRng::seed_from_u64(client as u64);
    let mut wanted_at = tokio::time::Instant::now();
    while !window.is_over() {
        let mut set = redis::cmd("SET");
        set.arg(NAME).arg(client).arg("NX").arg("PX").arg(TTL_MS);
        let taken: Option<String> = set.query_async(&mut redis).await.unwrap();
        if taken.is_none() {
            tokio::time::sleep(pause.pick(&mut random)).await;
            continue;
        }
        if !window.granted(client, None, wanted_at.elapsed()) {
            return;
        }
        tokio::time::sleep(HOLD).await;
        window.releasing();
        let mut release = redis::cmd("EVAL");
        release.arg(RELEASE).arg(1).arg(NAME).arg(client);
        let released: bool = release.query_async(&mut redis).await.unwrap();
        assert!(released);
        wanted_at = tokio::time::Instant::now();
    }
}
