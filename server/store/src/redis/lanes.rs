//! Commands on their way to Redis, coalesced.
//!
//! Each connection is a lane. A command that finds its lane idle is sent at once; those that come while enough calls are
//! in flight wait for the next one, and go together: the busier the lane, the larger and the fewer the calls. The task
//! that sends is not the caller's, so that a caller may be dropped at any point without losing what its command did.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::poll;
use leasehold_core::{
    command::{Command, Reply},
    name::LockName,
    time::{Moment, StoreTime},
};
use redis::{RedisError, ServerError, ServerErrorKind, Value};

use super::{
    decode::{Garbled, decode},
    encode::{LockScript, encode},
    keys::LockKeys,
    link::{Link, Replies},
    status::LinkError,
};
use crate::{
    clock,
    error::StoreError,
    store::{Answer, Observer, Stamped},
};

/// Most commands in one call.
const BATCH: usize = 256;
/// Calls in flight on a lane: one under way to Redis while the other is carried out.
const IN_FLIGHT: usize = 2;

/// The lanes of a store.
pub struct Lanes {
    link: Link,
    lanes: Vec<Mutex<Lane>>,
    /// One for each lane: held while a batch is taken out and handed to the connection, so that of two tasks that send none
    /// overtakes the other in between.
    turns: Vec<Turn>,
    timeout: Duration,
    script: LockScript,
    observer: OnceLock<Observer>,
    nonce: AtomicU64,
    /// Microseconds by which the server's wall clock is ahead of our monotonic one, at most, when we last heard from it;
    /// 0 before that.
    ahead: AtomicI64,
}

type Turn = tokio::sync::Mutex<()>;

#[derive(Default)]
struct Lane {
    waiting: Vec<Item>,
    in_flight: usize,
}

/// A command, and who wants to know what it did.
struct Item {
    command: Command,
    keys: LockKeys,
    /// Whether it is sent for the second time.
    again: bool,
    answer: Answer,
}

impl Lanes {
    /// A lane for each connection of the link, which loads the script. A command that is not answered within `timeout` is given up.
    pub fn new(link: Link, timeout: Duration, script: LockScript) -> Self {
        let lanes = link.connections();
        Self {
            link,
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            turns: (0..lanes).map(|_| Turn::default()).collect(),
            timeout,
            script,
            observer: OnceLock::new(),
            nonce: AtomicU64::new(1),
            ahead: AtomicI64::new(0),
        }
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Who is told of each answer before its caller is.
    pub fn observe(&self, observer: Observer) {
        // Set once, when the coordinator starts.
        let _ = self.observer.set(observer);
    }

    /// Sends a command. Those that share a lock are carried out in the order in which they were sent.
    pub fn send(self: &Arc<Self>, command: Command, keys: LockKeys, answer: Answer) {
        self.push(Item {
            command,
            keys,
            again: false,
            answer,
        });
    }

    fn push(self: &Arc<Self>, item: Item) {
        let index = usize::from(item.keys.slot) % self.lanes.len();
        let mut lane = self.lane(index);
        lane.waiting.push(item);
        if lane.in_flight < IN_FLIGHT {
            lane.in_flight += 1;
            drop(lane);
            tokio::spawn(Arc::clone(self).drive(index));
        }
    }

    /// Sends what waits in a lane until nothing does.
    async fn drive(self: Arc<Self>, index: usize) {
        loop {
            let turn = self.turns[index].lock().await;
            let batch: Vec<Item> = {
                let mut lane = self.lane(index);
                if lane.waiting.is_empty() {
                    lane.in_flight -= 1;
                    return;
                }
                let rest = lane.waiting.len().min(BATCH);
                let rest = lane.waiting.split_off(rest);
                std::mem::replace(&mut lane.waiting, rest)
            };
            let mut call = pin!(self.call(index, batch));
            // The first poll hands it to the connection, which has room for more calls than can be in flight.
            let polled = poll!(&mut call);
            drop(turn);
            if polled.is_pending() {
                call.await;
            }
        }
    }

    /// Sends a batch as one call, and sees to its answers.
    async fn call(self: &Arc<Self>, index: usize, batch: Vec<Item>) {
        let sent_at = clock::now();
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        let commands = batch.iter().map(|item| (&item.command, &item.keys));
        let call = encode(commands, nonce, self.not_after(sent_at), &self.script);
        let replies = match self.link.execute(index, vec![call]).await {
            Ok(replies) => replies,
            Err(error) => return fail(batch, &link_error(&error)),
        };
        let results = match self.read(replies, nonce, batch.len()) {
            Ok(results) => results,
            Err(error) => return fail(batch, &error),
        };
        for (item, result) in batch.into_iter().zip(results) {
            match result {
                Ok(executed) => {
                    self.observe_time(executed.at, sent_at);
                    self.answer(item, Stamped { executed, sent_at });
                }
                Err(error) => {
                    let error = server_error(&item.command.name, &error);
                    item.answer.give(Err(error));
                }
            }
        }
    }

    /// Reads the reply to a call.
    fn read(
        &self,
        mut replies: Replies,
        nonce: u64,
        commands: usize,
    ) -> Result<Vec<Result<leasehold_core::command::Executed, ServerError>>, StoreError> {
        let value = match replies.items.pop() {
            Some(Ok(value)) => value,
            Some(Err(error)) => return Err(call_error(&error)),
            None => Value::Nil,
        };
        decode(value, nonce, commands).map_err(|garbled| {
            let reason = match garbled {
                Garbled::Foreign => "it answers another command",
                Garbled::Shape(what) => what,
            };
            self.link.mark_bad(replies.connection, reason);
            StoreError::Garbled {
                reason: reason.to_owned(),
            }
        })
    }

    fn answer(self: &Arc<Self>, mut item: Item, stamped: Stamped) {
        if stamped.executed.reply == Reply::Late && item.command.caller.not_after.is_none() {
            if !item.again {
                // A step of the server's clock makes a command look late; the reply has told the new time.
                item.again = true;
                return self.push(item);
            }
            let reason = "the command reached it only after its time-out".to_owned();
            item.answer.give(Err(StoreError::Unavailable { reason }));
            return;
        }
        if let Some(observer) = self.observer.get() {
            observer.observe(&item.command.name, &stamped);
        }
        // Whoever asked may be gone; what the command did has been seen to.
        item.answer.give(Ok(stamped));
    }

    /// By the server's clock, when this coordinator will have given up a command that it sends now. Unknown before the
    /// server was first heard from.
    fn not_after(&self, now: Moment) -> Option<StoreTime> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        (ahead != 0).then(|| StoreTime::from_micros(ahead.saturating_add(now)).after(self.timeout))
    }

    /// Learns the server's time, which every reply tells too.
    pub async fn ask_time(&self) {
        let sent_at = clock::now();
        let Ok(mut replies) = self.link.execute(0, vec![redis::cmd("TIME")]).await else {
            return;
        };
        if let Some(Ok(reply)) = replies.items.pop()
            && let Ok((seconds, micros)) = redis::from_redis_value::<(i64, i64)>(reply)
        {
            self.observe_time(
                StoreTime::from_micros(seconds * 1_000_000 + micros),
                sent_at,
            );
        }
    }

    fn observe_time(&self, at: StoreTime, sent_at: Moment) {
        let sent_at = i64::try_from(sent_at.as_micros()).unwrap_or(i64::MAX);
        self.ahead
            .store(at.as_micros().saturating_sub(sent_at), Ordering::Relaxed);
    }

    fn lane(&self, index: usize) -> MutexGuard<'_, Lane> {
        // A panic elsewhere can't leave it torn: each use is a push, or a drain with its count.
        self.lanes[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

fn fail(batch: Vec<Item>, error: &StoreError) {
    for item in batch {
        item.answer.give(Err(error.clone()));
    }
}

pub(super) fn link_error(error: &LinkError) -> StoreError {
    let reason = error.to_string();
    if error.may_have_happened() {
        StoreError::Indeterminate { reason }
    } else {
        StoreError::Unavailable { reason }
    }
}

/// Why one command failed. What Redis says could repeat arguments, and with them owner ids: its code alone is shown.
fn server_error(name: &LockName, error: &ServerError) -> StoreError {
    // Before version 7, scripts report the errors of their commands with the code inside the text.
    let says = |code: &str| {
        error.code() == code
            || error
                .details()
                .is_some_and(|details| details.contains(code))
    };
    if says("WRONGTYPE") {
        return StoreError::WrongType { name: name.clone() };
    }
    if says("READONLY") {
        return StoreError::Unavailable {
            reason: "Redis is a replica now (READONLY)".into(),
        };
    }
    if says("OOM") {
        return StoreError::Refused {
            reason: "Redis is out of memory (OOM): raise maxmemory".into(),
        };
    }
    StoreError::Refused {
        reason: format!("Redis answered with the error {}", error.code()),
    }
}

/// Why a whole call failed: none of its commands was carried out.
pub(super) fn call_error(error: &RedisError) -> StoreError {
    match error.kind() {
        redis::ErrorKind::Server(
            ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown,
        ) => StoreError::Unavailable {
            reason: error_text(error),
        },
        _ => StoreError::Refused {
            reason: error_text(error),
        },
    }
}

fn error_text(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("Redis answered with the error {code}"),
        None => format!("Redis answered with an error ({:?})", error.kind()),
    }
}
