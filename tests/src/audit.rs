//! Audit of the keys in Redis: whether all of them would expire by themselves.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use redis::{RedisResult, aio::MultiplexedConnection};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{RedisServer, wait};

/// Returns every key with its time to live in milliseconds; -1 is none. Keys that end meanwhile are left out.
///
/// # Errors
///
/// If Redis can't be reached.
pub async fn keys(
    connection: &mut MultiplexedConnection,
    pattern: &str,
) -> RedisResult<BTreeMap<String, i64>> {
    let mut found = BTreeMap::new();
    let mut cursor = 0_u64;
    loop {
        let (next, names): (u64, Vec<String>) = redis::cmd("SCAN")
            .arg(cursor)
            .arg(&["MATCH", pattern])
            .arg(&["COUNT", "1000"])
            .query_async(connection)
            .await?;
        let mut lives = redis::pipe();
        for name in &names {
            lives.cmd("PTTL").arg(name);
        }
        let lives: Vec<i64> = if names.is_empty() {
            Vec::new()
        } else {
            lives.query_async(connection).await?
        };
        // -2: gone since the scan saw it.
        found.extend(names.into_iter().zip(lives).filter(|(_, life)| *life != -2));
        cursor = next;
        if cursor == 0 {
            return Ok(found);
        }
    }
}

/// Waits until only keys that may stay are left.
///
/// # Panics
///
/// If `limit` passes first: with the others.
pub async fn until_only(
    connection: &MultiplexedConnection,
    limit: Duration,
    may_stay: impl Fn(&str) -> bool,
) {
    wait::until("only what may stay to be in Redis", limit, || async {
        let mut keys = keys(&mut connection.clone(), "*")
            .await
            .expect("Redis answers");
        keys.retain(|key, _| !may_stay(key));
        if keys.is_empty() { Ok(()) } else { Err(keys) }
    })
    .await;
}

/// Returns whether a key is the record of a name's newest token, which outlives its locks.
pub fn is_token(key: &str) -> bool {
    key.starts_with("lh:") && key.contains(":token:")
}

/// Returns whether a key is the limit of a semaphore with its revision, which outlives its holders.
pub fn is_limit(key: &str) -> bool {
    key.starts_with("lh:") && key.contains("}:limit:")
}

/// Looks at every key again and again, for one that has no TTL.
#[derive(Debug)]
pub struct TtlAudit {
    stop: CancellationToken,
    task: JoinHandle<Result<Audited, String>>,
}

/// Findings of an audit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audited {
    /// The number of times that the audit looked at every key.
    pub passes: u64,
    /// The number of keys that it looked at in all.
    pub keys: u64,
}

impl TtlAudit {
    /// Starts looking at all keys of `redis`, every `pause`.
    pub async fn start(redis: &RedisServer, pause: Duration) -> Self {
        let mut connection = redis.async_connection().await;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut audited = Audited::default();
            loop {
                // What is there at the end is looked at as well.
                let is_last = stopped.is_cancelled();
                let seen = Instant::now();
                let keys = keys(&mut connection, "*").await;
                let keys = keys.map_err(|error| format!("failed to scan Redis: {error}"))?;
                if let Some((key, life)) = keys.iter().find(|(_, life)| **life < 0) {
                    return Err(format!(
                        "the key {key:?} had no TTL ({life}) in pass {} ({:?} ago)",
                        audited.passes,
                        seen.elapsed()
                    ));
                }
                audited.passes += 1;
                audited.keys += keys.len() as u64;
                if is_last {
                    return Ok(audited);
                }
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
        Self { stop, task }
    }

    /// Ends the audit and returns its findings.
    ///
    /// # Panics
    ///
    /// If a key without a TTL was seen.
    pub async fn finish(self) -> Audited {
        self.stop.cancel();
        match self.task.await.expect("the audit runs to its end") {
            Ok(audited) => audited,
            Err(finding) => panic!("{finding}"),
        }
    }
}

/// Returns whether a key may outlive the locks for a while: tokens, replaced owner ids, revised limits, writes for replicas to
/// acknowledge, agreements of the masters of a quorum, the time for which each master has been seen to run, and marks of ended
/// sessions.
#[must_use]
pub fn may_stay(key: &str) -> bool {
    let kinds = [
        ":token:",
        ":replaced:",
        ":limit:",
        ":acknowledged:",
        "lh:quorum:",
        "lh:run:",
        "lh:ended-sessions:",
    ];
    key.starts_with("lh:") && kinds.iter().any(|kind| key.contains(kind))
}
