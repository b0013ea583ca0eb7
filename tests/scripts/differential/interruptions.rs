//! Calls that took Redis unusually long, because it had to leave the processor: the clock of a script and the clock of its
//! expiries were apart for that time.

use std::{sync::Arc, time::Duration};

use leasehold_tests::RedisServer;
use redis::{AsyncConnectionConfig, Value, aio::MultiplexedConnection};
use tokio::sync::{Mutex, MutexGuard};

/// Calls that take longer are on record. No undisturbed call does.
const LONG: Duration = Duration::from_millis(2);
/// A record is long where the machine is busy, and a busy machine takes its time to tell.
const PATIENCE: Duration = Duration::from_secs(60);

/// Redis's own record of its long calls.
#[derive(Clone)]
pub(crate) struct Interruptions {
    redis: MultiplexedConnection,
    /// The slow log as read so far: the number of each call, rising, and its duration.
    calls: Arc<Mutex<Vec<(i64, Duration)>>>,
}

/// A point of the record.
#[derive(Clone, Copy)]
pub(crate) struct Since(i64);

impl Since {
    /// Before everything on record.
    pub(crate) const START: Self = Self(-1);
}

impl Interruptions {
    /// Has Redis keep the record.
    pub(crate) async fn watch(redis: &RedisServer) -> Self {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let mut redis = redis
            .client()
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .unwrap();
        for (option, value) in [
            ("slowlog-log-slower-than", LONG.as_micros()),
            ("slowlog-max-len", 100_000),
        ] {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg(option).arg(value.to_string());
            let () = set.query_async(&mut redis).await.unwrap();
        }
        Self {
            redis,
            calls: Arc::default(),
        }
    }

    /// Returns the end of the record, so far.
    pub(crate) async fn now(&self) -> Since {
        self.read()
            .await
            .last()
            .map_or(Since::START, |call| Since(call.0))
    }

    /// Returns the duration of the longest call since then; at most [`LONG`] if none is on record.
    pub(crate) async fn longest(&self, since: Since) -> Duration {
        let calls = self.read().await;
        calls
            .iter()
            .filter(|(number, _)| *number > since.0)
            .map(|(_, took)| *took)
            .max()
            .unwrap_or(LONG)
    }

    /// Reads on. Redis gives the latest first.
    async fn read(&self) -> MutexGuard<'_, Vec<(i64, Duration)>> {
        let mut known = self.calls.lock().await;
        let last = known.last().map_or(Since::START.0, |call| call.0);
        let mut count = 16;
        let latest = loop {
            let mut get = redis::cmd("SLOWLOG");
            get.arg("GET").arg(count);
            let latest: Vec<Vec<Value>> = get.query_async(&mut self.redis.clone()).await.unwrap();
            let oldest = latest.last().map_or(last, |call| int(&call[0]));
            if oldest <= last + 1 || latest.len() < count {
                break latest;
            }
            count *= 4;
        };
        let new = latest.iter().rev().map(|call| {
            let took = u64::try_from(int(&call[2])).unwrap();
            (int(&call[0]), Duration::from_micros(took))
        });
        known.extend(new.filter(|(number, _)| *number > last));
        known
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(int) => *int,
        other => panic!("{other:?} is no number"),
    }
}
