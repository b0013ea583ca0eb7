//! The store on one Redis server.

use std::sync::Arc;

use leasehold_core::{
    command::Command,
    deadlock::BlockedWait,
    id::{CoordinatorId, FencingToken, OwnerId},
    name::{Invalid, LockName},
};
use redis::{Cmd, Value};
use tokio::sync::{mpsc, watch};

use super::{
    blocked,
    encode::LockScript,
    feed,
    keys::{Keys, wake_channel},
    lanes::{Lanes, call_error, link_error},
    link::{Link, LinkOptions, Subscription},
    status::LinkStatus,
    url::{RedisTarget, StoreUrlError},
};
use crate::{
    error::StoreError,
    feed::Feed,
    store::{Answer, LockStore, Observer, Options, Page, WakeUp, unanswered},
};

/// Most wake-ups that wait to be seen to; more are dropped, as a refresh finds what they told.
const WAKE_UPS: usize = 1024;
/// Most `SCAN` calls for one page.
const SCANS: usize = 10;

/// Locks on a Redis server. A cheap handle; the connections close with the last one.
#[derive(Clone, Debug)]
pub struct RedisStore {
    lanes: Arc<Lanes>,
    keys: Keys,
    coordinator: CoordinatorId,
}

impl RedisStore {
    /// Starts to connect; commands fail until [`LockStore::status`] says that it is up.
    pub fn open(options: Options) -> Result<(Self, mpsc::Receiver<WakeUp>), StoreUrlError> {
        let target = RedisTarget::parse(&options.url, options.ca.as_deref())?;
        let keys = Keys::new(&options.key_prefix);
        let script = LockScript::of_database(target.database());
        let (messages, incoming) = mpsc::channel(WAKE_UPS);
        let link = Link::start(
            target,
            LinkOptions {
                connections: options.connections,
                command_timeout: options.timeout,
                scripts: vec![script.text(), Arc::from(blocked::SCRIPT)],
                subscription: Some(Subscription {
                    channel: wake_channel(&options.coordinator).into_bytes(),
                    messages,
                }),
                ..LinkOptions::default()
            },
        );
        let wake_ups = read_wake_ups(incoming, keys.clone());
        let lanes = Arc::new(Lanes::new(link, options.timeout, script));
        learn_time(&lanes);
        let store = Self {
            lanes,
            keys,
            coordinator: options.coordinator,
        };
        Ok((store, wake_ups))
    }

    async fn call(&self, command: Cmd) -> Result<Value, StoreError> {
        let mut replies = self
            .lanes
            .link()
            .execute(0, vec![command])
            .await
            .map_err(|error| link_error(&error))?;
        match replies.items.pop() {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(call_error(&error)),
            None => Err(unanswered()),
        }
    }
}

impl LockStore for RedisStore {
    fn send(&self, command: Command, answer: Answer) {
        let keys = self.keys.of(&command.name);
        self.lanes.send(command, keys, answer);
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
            scan.arg(cursor).arg("MATCH").arg(self.keys.pattern(prefix));
            scan.arg("COUNT").arg(size).arg("TYPE").arg("string");
            let reply = self.call(scan).await?;
            let (next, keys): (u64, Vec<Vec<u8>>) =
                redis::from_redis_value(reply).map_err(|error| StoreError::Garbled {
                    reason: error.to_string(),
                })?;
            names.extend(keys.iter().filter_map(|key| self.keys.name_of(key)));
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

    async fn exchange(&self, mine: Vec<BlockedWait>) -> Result<Vec<BlockedWait>, StoreError> {
        let key = self.keys.blocked();
        let reply = self
            .call(blocked::encode(&key, &self.coordinator, &mine))
            .await?;
        blocked::decode(reply).ok_or_else(|| StoreError::Garbled {
            reason: "it does not tell blocked actors as this version does".into(),
        })
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        self.keys.check(name)
    }

    fn status(&self) -> watch::Receiver<LinkStatus> {
        self.lanes.link().status()
    }

    fn observe(&self, observer: Observer) {
        self.lanes.observe(observer);
    }

    fn feed(&self) -> Feed {
        feed::open(self.lanes.link(), &self.keys)
    }
}

/// Asks for the server's time as soon as it is there, so that the first commands can say until when they may arrive.
fn learn_time(lanes: &Arc<Lanes>) {
    let mut status = lanes.link().status();
    let lanes = Arc::downgrade(lanes);
    tokio::spawn(async move {
        if status.wait_for(LinkStatus::is_up).await.is_ok()
            && let Some(lanes) = lanes.upgrade()
        {
            lanes.ask_time().await;
        }
    });
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
        b'G' | b'U' => {
            let (token, key) = rest.split_at_checked(TOKEN_DIGITS)?;
            let token = std::str::from_utf8(token).ok()?.parse().ok()?;
            Some(WakeUp::Granted {
                name: keys.name_of(key)?,
                owner,
                token: FencingToken::new(token),
                of_session: *kind == b'G',
            })
        }
        _ => None,
    }
}
