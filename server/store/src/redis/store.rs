//! The store on one Redis server, or on the master that sentinels name.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_core::{
    command::Command,
    deadlock::Publication,
    name::{Invalid, LockName},
};
use tokio::sync::{mpsc, watch};

use super::{
    blocked,
    call::{call, scan},
    encode::LockScript,
    feed,
    keys::{Keys, wake_channel},
    lanes::Lanes,
    link::Subscription,
    place::Place,
    sentinel,
    status::LinkStatus,
    url::{RedisTarget, SentinelUrl, StoreUrlError, TlsFiles, kind_of},
    wake_up,
};
use crate::{
    feed::Feed,
    measure::Script,
    store::{Answer, Exchanged, Listed, LockStore, Observer, Options, Page, WakeUp},
};

/// Most wake-ups that wait to be seen to; more are dropped, as a refresh finds what they told.
pub(super) const WAKE_UPS: usize = 1024;

/// Locks on a Redis server, or on the master that sentinels name. The connections close when it is dropped.
#[derive(Debug)]
pub struct RedisStore {
    lanes: Arc<Lanes>,
    keys: Keys,
    board: blocked::Board,
}

impl RedisStore {
    /// Starts to connect; commands fail until [`LockStore::status`] says that it is up.
    pub fn open(options: Options) -> Result<(Self, mpsc::Receiver<WakeUp>), StoreUrlError> {
        let place = parse(&options.url, options.tls.clone())?;
        let keys = Keys::new(&options.key_prefix);
        let script = LockScript::of_database(place.database);
        let (messages, incoming) = mpsc::channel(WAKE_UPS);
        let subscription = Subscription {
            channel: wake_channel(&options.coordinator).into_bytes(),
            messages,
        };
        let lanes = Lanes::open(place, script, &options, Some(subscription), None);
        let wake_ups = read_wake_ups(incoming, keys.clone());
        learn_time(&lanes);
        let store = Self {
            lanes,
            keys,
            board: blocked::Board::new(options.coordinator),
        };
        Ok((store, wake_ups))
    }

    /// Lists names: see [`LockStore::list`].
    async fn page(&self, prefix: &str, token: &str, size: usize) -> Listed {
        let cursor: u64 = match token {
            "" => 0,
            token => match token.parse() {
                Ok(cursor) if cursor > 0 => cursor,
                _ => return Ok(Err(Invalid("must be what the page before gave".into()))),
            },
        };
        let link = self.lanes.measured_link();
        let (names, cursor) = scan(link, &self.keys, prefix, cursor, size).await?;
        let next = if cursor == 0 {
            String::new()
        } else {
            cursor.to_string()
        };
        Ok(Ok(Page { names, next }))
    }
}

impl LockStore for RedisStore {
    fn send(&self, command: Command, answer: Answer) {
        let keys = self.keys.of(&command.name);
        self.lanes.send(command, keys, answer);
    }

    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed> {
        Box::pin(self.page(prefix, token, size))
    }

    fn exchange(&self, mine: Arc<Publication>) -> BoxFuture<'_, Exchanged> {
        Box::pin(async move {
            let key = self.keys.blocked();
            let send = |command| call(self.lanes.measured_link(), Script::Blocked, command);
            self.board.exchange(&key, mine, send).await
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

/// Reads the URL of a store on one server, and starts to find out where that is.
fn parse(url: &str, tls: TlsFiles) -> Result<Place, StoreUrlError> {
    if kind_of(url) == "sentinel" {
        Ok(sentinel::follow(SentinelUrl::parse(url, tls)?))
    } else {
        Ok(Place::fixed(RedisTarget::parse(url, tls)?))
    }
}

/// Asks for the server's time as soon as it is there, so that the first commands can say until when they may arrive, and
/// again whenever it has come back, as it may be another one with another clock. Until it has answered, the old time is
/// used rather than none: where it makes a command look late, the reply tells the new one and the command is sent again.
fn learn_time(lanes: &Arc<Lanes>) {
    let mut status = lanes.link().status();
    let lanes = Arc::downgrade(lanes);
    tokio::spawn(async move {
        while status.wait_for(LinkStatus::is_up).await.is_ok()
            && let Some(lanes) = lanes.upgrade()
        {
            lanes.ask_time().await;
            drop(lanes);
            if status.changed().await.is_err() {
                return;
            }
        }
    });
}

/// Reads what scripts publish.
fn read_wake_ups(mut messages: mpsc::Receiver<Vec<u8>>, keys: Keys) -> mpsc::Receiver<WakeUp> {
    let (sender, receiver) = mpsc::channel(WAKE_UPS);
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            if let Some(wake_up) = wake_up::parse(&message, &keys) {
                // Full or closed: a refresh finds it.
                let _ = sender.try_send(wake_up);
            }
        }
    });
    receiver
}
