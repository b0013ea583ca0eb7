//! Calls that took Redis unusually long: it had to leave the processor, so that the clock that a script was told and the one
//! that its expiries went by were apart for as long.

use std::time::Duration;

use redis::{Value, aio::MultiplexedConnection};

/// Calls that take longer are on record. No undisturbed call does.
const LONG: Duration = Duration::from_millis(2);

/// Redis's own record of its long calls.
#[derive(Clone)]
pub(crate) struct Interruptions(MultiplexedConnection);

/// A point of the record.
#[derive(Clone, Copy)]
pub(crate) struct Since(i64);

impl Since {
    /// Before everything on record.
    pub(crate) const START: Self = Self(-1);
}

impl Interruptions {
    /// Has Redis keep the record.
    pub(crate) async fn watch(mut redis: MultiplexedConnection) -> Self {
        for (option, value) in [
            ("slowlog-log-slower-than", LONG.as_micros()),
            ("slowlog-max-len", 100_000),
        ] {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg(option).arg(value.to_string());
            let () = set.query_async(&mut redis).await.unwrap();
        }
        Self(redis)
    }

    /// The end of the record, so far.
    pub(crate) async fn now(&self) -> Since {
        Since(self.read(1).await.first().map_or(-1, |(number, _)| *number))
    }

    /// How long the longest call took since then; at most [`LONG`] if none is on record.
    pub(crate) async fn longest(&self, since: Since) -> Duration {
        let calls = self.read(100_000).await.into_iter();
        calls
            .filter(|(number, _)| *number > since.0)
            .map(|(_, took)| took)
            .max()
            .unwrap_or(LONG)
    }

    /// The latest calls on record: their numbers, and how long they took.
    async fn read(&self, count: usize) -> Vec<(i64, Duration)> {
        let mut redis = self.0.clone();
        let mut get = redis::cmd("SLOWLOG");
        get.arg("GET").arg(count);
        let calls: Vec<Vec<Value>> = get.query_async(&mut redis).await.unwrap();
        let int = |value: &Value| match value {
            Value::Int(int) => *int,
            other => panic!("{other:?} is no number"),
        };
        calls
            .iter()
            .map(|call| {
                let took = u64::try_from(int(&call[2])).unwrap();
                (int(&call[0]), Duration::from_micros(took))
            })
            .collect()
    }
}
