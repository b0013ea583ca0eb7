//! The store on one Redis server.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use leasehold_core::{
    command::{Command, Op, Reply},
    id::{FencingToken, OwnerId},
    name::{Invalid, LockName},
    time::{Moment, StoreTime},
};
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::{mpsc, watch};

use super::{
    decode::{Garbled, decode},
    encode::{SCRIPTS, encode},
    keys::{Keys, LockKeys, wake_channel},
    link::{Link, LinkOptions, Subscription},
    status::{LinkError, LinkStatus},
    url::{RedisTarget, StoreUrlError},
};
use crate::{
    clock,
    error::StoreError,
    store::{LockStore, Options, Page, Stamped, WakeUp},
};

/// Most commands in one pipeline.
const BATCH: usize = 256;
/// Most wake-ups that wait to be seen to; more are dropped, as a refresh finds what they told.
const WAKE_UPS: usize = 1024;
/// Most `SCAN` calls for one page.
const SCANS: usize = 10;

/// Locks on a Redis server. A cheap handle; the connections close with the last one.
#[derive(Clone, Debug)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Link,
    keys: Keys,
    timeout: std::time::Duration,
    nonce: AtomicU64,
    /// Microseconds by which the server's wall clock is ahead of our monotonic one, at most, when we last heard from it;
    /// 0 before that.
    ahead: AtomicI64,
}

/// A command on its way.
struct Sent {
    command: Command,
    keys: LockKeys,
    nonce: u64,
}

impl RedisStore {
    /// Starts to connect; commands fail until [`LockStore::status`] says that it is up.
    pub fn open(options: Options) -> Result<(Self, mpsc::Receiver<WakeUp>), StoreUrlError> {
        let target = RedisTarget::parse(&options.url, options.ca.as_deref())?;
        let keys = Keys::new(&options.key_prefix);
        let (messages, incoming) = mpsc::channel(WAKE_UPS);
        let link = Link::start(
            target,
            LinkOptions {
                connections: options.connections,
                command_timeout: options.timeout,
                scripts: SCRIPTS.iter().map(|script| Arc::from(*script)).collect(),
                subscription: Some(Subscription {
                    channel: wake_channel(&options.coordinator).into_bytes(),
                    messages,
                }),
                ..LinkOptions::default()
            },
        );
        let wake_ups = read_wake_ups(incoming, keys.clone());
        let inner = Inner {
            link,
            keys,
            timeout: options.timeout,
            nonce: AtomicU64::new(1),
            ahead: AtomicI64::new(0),
        };
        Ok((
            Self {
                inner: Arc::new(inner),
            },
            wake_ups,
        ))
    }

    /// Sends commands that share a connection, as one pipeline.
    async fn send(&self, commands: Vec<Command>) -> Vec<Result<Stamped, StoreError>> {
        let sent_at = clock::now();
        let not_after = self.not_after(sent_at);
        let mut sent = Vec::with_capacity(commands.len());
        let mut calls = Vec::with_capacity(commands.len());
        for command in commands {
            let keys = self.inner.keys.of(&command.name);
            let nonce = self.inner.nonce.fetch_add(1, Ordering::Relaxed);
            calls.push(encode(&command, &keys, nonce, not_after));
            sent.push(Sent {
                command,
                keys,
                nonce,
            });
        }
        let shard = sent.first().map_or(0, |sent| usize::from(sent.keys.slot));
        let replies = match self.inner.link.execute(shard, calls).await {
            Ok(replies) => replies,
            Err(error) => {
                let error = link_error(&error);
                return sent.iter().map(|_| Err(error.clone())).collect();
            }
        };
        let connection = replies.connection;
        let mut results = Vec::with_capacity(sent.len());
        for (sent, item) in sent.into_iter().zip(replies.items) {
            results.push(match item {
                Err(error) => Err(server_error(&sent.command.name, &error)),
                Ok(value) => match decode(value, sent.nonce) {
                    Ok(executed) => {
                        self.observe(executed.at, sent_at);
                        Ok(Stamped { executed, sent_at })
                    }
                    Err(garbled) => {
                        let reason = match garbled {
                            Garbled::Foreign => "it answers another command",
                            Garbled::Shape(what) => what,
                        };
                        self.inner.link.mark_bad(connection, reason);
                        Err(StoreError::Garbled {
                            reason: reason.to_owned(),
                        })
                    }
                },
            });
        }
        results
    }

    /// Sends commands, and once more those acquires that came too late: a step of the server's clock makes one look so,
    /// and its reply has told the new time.
    async fn send_punctually(&self, commands: Vec<Command>) -> Vec<Result<Stamped, StoreError>> {
        let has_acquires = commands
            .iter()
            .any(|command| matches!(command.op, Op::Acquire(_)));
        if !has_acquires {
            return self.send(commands).await;
        }
        let mut results = self.send(commands.clone()).await;
        let late: Vec<usize> = (0..results.len())
            .filter(|at| is_late(&results[*at]) && !is_dated(&commands[*at]))
            .collect();
        if late.is_empty() {
            return results;
        }
        let again = late
            .iter()
            .filter_map(|at| commands.get(*at).cloned())
            .collect();
        for (at, result) in late.into_iter().zip(self.send(again).await) {
            results[at] = if is_late(&result) {
                Err(StoreError::Unavailable {
                    reason: "the command reached it only after its time-out".into(),
                })
            } else {
                result
            };
        }
        results
    }

    /// By the server's clock, when this coordinator will have given up a command that it sends now. Unknown before the
    /// server was first heard from.
    fn not_after(&self, now: Moment) -> Option<StoreTime> {
        let ahead = self.inner.ahead.load(Ordering::Relaxed);
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        (ahead != 0)
            .then(|| StoreTime::from_micros(ahead.saturating_add(now)).after(self.inner.timeout))
    }

    fn observe(&self, at: StoreTime, sent_at: Moment) {
        let sent_at = i64::try_from(sent_at.as_micros()).unwrap_or(i64::MAX);
        self.inner
            .ahead
            .store(at.as_micros().saturating_sub(sent_at), Ordering::Relaxed);
    }

    async fn call(&self, command: Cmd) -> Result<Value, StoreError> {
        let mut replies = self
            .inner
            .link
            .execute(0, vec![command])
            .await
            .map_err(|error| link_error(&error))?;
        match replies.items.pop() {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(StoreError::Refused {
                reason: error_text(&error),
            }),
            None => Err(StoreError::Garbled {
                reason: "no reply".into(),
            }),
        }
    }
}

impl LockStore for RedisStore {
    async fn execute(&self, command: Command) -> Result<Stamped, StoreError> {
        let none = || StoreError::Garbled {
            reason: "no reply".into(),
        };
        self.send_punctually(vec![command])
            .await
            .pop()
            .unwrap_or_else(|| Err(none()))
    }

    async fn execute_all(&self, commands: Vec<Command>) -> Vec<Result<Stamped, StoreError>> {
        // The connections are told apart by slot, so that the commands of one name stay in order.
        let connections = self.inner.link.connections();
        let mut parts: Vec<Vec<(usize, Command)>> = (0..connections).map(|_| Vec::new()).collect();
        for (at, command) in commands.into_iter().enumerate() {
            let slot = usize::from(self.inner.keys.of(&command.name).slot);
            parts[slot % connections].push((at, command));
        }
        let batches = parts.into_iter().map(|part| self.send_part(part));
        let mut results: Vec<_> = futures_util::future::join_all(batches)
            .await
            .into_iter()
            .flatten()
            .collect();
        results.sort_unstable_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }

    async fn list(
        &self,
        prefix: &str,
        token: &str,
        size: usize,
    ) -> Result<Result<Page, Invalid>, StoreError> {
        let mut cursor: u64 = match token {
            "" => 0,
            token => match token.parse() {
                Ok(cursor) if cursor > 0 => cursor,
                _ => return Ok(Err(Invalid("must be what the page before gave".into()))),
            },
        };
        let mut names = Vec::new();
        for _ in 0..SCANS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(self.inner.keys.pattern(prefix));
            scan.arg("COUNT").arg(size).arg("TYPE").arg("string");
            let reply = self.call(scan).await?;
            let (next, keys): (u64, Vec<Vec<u8>>) =
                redis::from_redis_value(reply).map_err(|error| StoreError::Garbled {
                    reason: error.to_string(),
                })?;
            names.extend(keys.iter().filter_map(|key| self.inner.keys.name_of(key)));
            cursor = next;
            if cursor == 0 || names.len() >= size {
                break;
            }
        }
        let next = if cursor == 0 {
            String::new()
        } else {
            cursor.to_string()
        };
        Ok(Ok(Page { names, next }))
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        self.inner.keys.check(name)
    }

    fn status(&self) -> watch::Receiver<LinkStatus> {
        self.inner.link.status()
    }
}

impl RedisStore {
    /// Sends the commands of one connection, a batch after the other.
    async fn send_part(
        &self,
        part: Vec<(usize, Command)>,
    ) -> Vec<(usize, Result<Stamped, StoreError>)> {
        let mut results = Vec::with_capacity(part.len());
        let mut part = part.into_iter().peekable();
        while part.peek().is_some() {
            let (places, batch): (Vec<usize>, Vec<Command>) = part.by_ref().take(BATCH).unzip();
            results.extend(places.into_iter().zip(self.send_punctually(batch).await));
        }
        results
    }
}

/// Whether the sender itself said until when the acquire may arrive.
fn is_dated(command: &Command) -> bool {
    matches!(&command.op, Op::Acquire(acquire) if acquire.not_after.is_some())
}

fn is_late(result: &Result<Stamped, StoreError>) -> bool {
    matches!(result, Ok(stamped) if stamped.executed.reply == Reply::Late)
}

fn link_error(error: &LinkError) -> StoreError {
    let reason = error.to_string();
    if error.may_have_happened() {
        StoreError::Indeterminate { reason }
    } else {
        StoreError::Unavailable { reason }
    }
}

fn server_error(name: &LockName, error: &RedisError) -> StoreError {
    // Scripts report errors of their commands as their own, with the code in the text.
    if error.to_string().contains("WRONGTYPE") {
        return StoreError::WrongType { name: name.clone() };
    }
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown,
        ) => StoreError::Unavailable {
            reason: error_text(error),
        },
        _ => StoreError::Refused {
            reason: error_text(error),
        },
    }
}

/// What may be shown of an error: its text could repeat arguments, and with them owner ids.
fn error_text(error: &RedisError) -> String {
    match error.code() {
        Some("OOM") => "Redis is out of memory (OOM): raise maxmemory".to_owned(),
        Some(code) => format!("Redis answered with the error {code}"),
        None => format!("Redis answered with an error ({:?})", error.kind()),
    }
}

/// Reads what scripts publish: a letter, the owner id, and what follows.
fn read_wake_ups(mut messages: mpsc::Receiver<Vec<u8>>, keys: Keys) -> mpsc::Receiver<WakeUp> {
    let (sender, receiver) = mpsc::channel(WAKE_UPS);
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            if let Some(wake_up) = parse_wake_up(&message, &keys) {
                // Full or closed: a refresh finds it.
                let _ = sender.try_send(wake_up);
            }
        }
    });
    receiver
}

/// Digits of a token in a wake-up.
const TOKEN_DIGITS: usize = 20;

fn parse_wake_up(message: &[u8], keys: &Keys) -> Option<WakeUp> {
    let (kind, rest) = message.split_first()?;
    let (owner, rest) = rest.split_at_checked(16)?;
    let owner = OwnerId::parse(owner)?;
    match kind {
        b'F' => Some(WakeUp::Forced {
            name: keys.name_of(rest)?,
            owner,
        }),
        b'G' => {
            let (token, key) = rest.split_at_checked(TOKEN_DIGITS)?;
            let token = std::str::from_utf8(token).ok()?.parse().ok()?;
            Some(WakeUp::Granted {
                name: keys.name_of(key)?,
                owner,
                token: FencingToken::new(token),
            })
        }
        _ => None,
    }
}
