//! Protected resource: the job table, kept in Redis.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use leasehold_client::FencingToken;
use redis::{AsyncCommands, RedisResult, Script, aio::MultiplexedConnection};

use crate::ticks::Tick;

/// A table that nobody comes back to is forgotten after this many seconds, should the demonstration be killed.
const FORGOTTEN_AFTER: i64 = 600;

/// The job table. Everything is in one Redis hash.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    redis: MultiplexedConnection,
    key: String,
    begin: Script,
    finish: Script,
}

/// Next action of a leader.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// This tick.
    Run(Tick),
    /// Nothing, before another tick is due.
    Wait,
    /// Nothing at all: there is a later leader.
    Deposed,
}

/// A tick that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The instance that ran it.
    pub(crate) instance: u32,
    /// The fencing token with which it did.
    pub(crate) token: i64,
    /// Time for which the tick had been due when it was begun, in milliseconds.
    pub(crate) late: u64,
}

/// A write that came with a smaller fencing token than one that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateWrite {
    /// The instance that wrote.
    pub(crate) instance: u32,
    /// The tick that it believed it was running.
    pub(crate) tick: Tick,
    /// Its fencing token.
    pub(crate) token: i64,
}

/// Contents of the table at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// The ticks that were run.
    pub(crate) ticks: BTreeMap<Tick, Run>,
    /// The number of runs.
    pub(crate) runs: usize,
    /// The writes that were refused.
    pub(crate) late_writes: Vec<LateWrite>,
}

impl Table {
    /// Returns the table that is kept under this key.
    pub(crate) fn new(redis: MultiplexedConnection, key: impl Into<String>) -> Self {
        Self {
            redis,
            key: key.into(),
            begin: Script::new(include_str!("begin.lua")),
            finish: Script::new(include_str!("finish.lua")),
        }
    }

    /// Returns the table's key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Opens it: the ticks after this one are to be run.
    pub(crate) async fn open(&mut self, last: Tick) -> RedisResult<()> {
        let () = self.redis.del(&self.key).await?;
        let () = self.redis.hset(&self.key, "last", last).await?;
        self.redis.expire(&self.key, FORGOTTEN_AFTER).await
    }

    /// Removes every trace of it.
    pub(crate) async fn clear(&mut self) -> RedisResult<()> {
        self.redis.del(&self.key).await
    }

    /// Begins the next tick as the leader with this token, if one is due; `due` is the newest that is.
    pub(crate) async fn begin(&mut self, token: FencingToken, due: Tick) -> RedisResult<Next> {
        let mut begin = self.begin.key(&self.key);
        begin.arg(token.get()).arg(due);
        let tick: Option<Tick> = begin.invoke_async(&mut self.redis).await?;
        Ok(match tick {
            Some(0) => Next::Wait,
            Some(tick) => Next::Run(tick),
            None => Next::Deposed,
        })
    }

    /// Runs a tick's job, as the leader with this token, and records it. Late by so much was it begun. False if nothing
    /// was done, since there is a later leader.
    pub(crate) async fn finish(
        &mut self,
        token: FencingToken,
        tick: Tick,
        instance: u32,
        late: Duration,
    ) -> RedisResult<bool> {
        let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        let mut finish = self.finish.key(&self.key);
        finish.arg(token.get()).arg(tick).arg(instance).arg(late);
        finish.invoke_async(&mut self.redis).await
    }

    /// Returns the tick that the leader with this token is running, if any.
    pub(crate) async fn running(&mut self, token: FencingToken) -> RedisResult<Option<Tick>> {
        let fields = &["token", "running"];
        let (newest, running): (Option<i64>, Option<Tick>) =
            self.redis.hmget(&self.key, fields).await?;
        Ok(running.filter(|_| newest == Some(token.get())))
    }

    /// Returns the last tick that was run.
    pub(crate) async fn last(&mut self) -> RedisResult<Tick> {
        self.redis.hget(&self.key, "last").await
    }

    /// Returns its contents so far.
    pub(crate) async fn books(&mut self) -> RedisResult<Books> {
        let fields: HashMap<String, String> = self.redis.hgetall(&self.key).await?;
        let mut books = Books::default();
        for (field, text) in &fields {
            if field == "runs" {
                books.runs = text.parse().unwrap_or(0);
            } else if let Some(run) = parse_run(field, text) {
                books.ticks.extend([run]);
            } else if let Some(write) = parse_late_write(field, text) {
                books.late_writes.push(write);
            }
        }
        Ok(books)
    }
}

fn parse_run(field: &str, text: &str) -> Option<(Tick, Run)> {
    let tick = field.strip_prefix("run:")?.parse().ok()?;
    let mut words = text.split(' ');
    let run = Run {
        instance: words.next()?.parse().ok()?,
        token: words.next()?.parse().ok()?,
        late: words.next()?.parse().ok()?,
    };
    Some((tick, run))
}

fn parse_late_write(field: &str, text: &str) -> Option<LateWrite> {
    let token = field.strip_prefix("refused:")?.parse().ok()?;
    let (instance, tick) = text.split_once(' ')?;
    Some(LateWrite {
        instance: instance.parse().ok()?,
        tick: tick.parse().ok()?,
        token,
    })
}
