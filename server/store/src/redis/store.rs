//! Store on a Redis server, on the master that sentinels name, or on a Redis Cluster.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_core::{
    command::Command,
    deadlock::Publication,
    ended::EndChange,
    name::{Invalid, LockName},
};
use tokio::sync::{mpsc, watch};

use super::{
    blocked,
    call::{call, scan},
    cluster::{self, Common, keeper, router::Router},
    encode::LockScript,
    ended, feed,
    keys::{Keys, slot_of, wake_channel},
    lanes::{Lanes, SharedObserver},
    link::Listening,
    place::Place,
    sentinel,
    status::LinkStatus,
    url::{ClusterUrl, RedisTarget, SentinelUrl, StoreUrlError, kind_of},
    wake_up,
};
use crate::{
    feed::Feed,
    measure::{Meter, Script},
    store::{Answer, EndedSessions, Exchanged, Listed, LockStore, Observer, Options, Page, WakeUp},
};

/// Most unprocessed wake-ups; more are dropped, because a refresh finds the same.
const WAKE_UPS: usize = 1024;

/// Locks on a Redis server, on the master that sentinels name, or on a Redis Cluster. The connections close soon after it is
/// dropped.
#[derive(Debug)]
pub struct RedisStore {
    servers: Servers,
    /// The connection for wake-ups of one server; each node of a cluster has its own.
    _listening: Option<Listening>,
    keys: Keys,
    board: blocked::Board,
    observer: SharedObserver,
    meter: Meter,
}

/// Servers with the locks.
#[derive(Debug)]
enum Servers {
    /// One server, or the present master.
    One(Arc<Lanes>),
    /// The nodes of a cluster.
    Cluster(Arc<Router>),
}

impl RedisStore {
    /// Starts to connect; commands fail until [`LockStore::status`] is up.
    pub fn open(options: Options) -> Result<(Self, mpsc::Receiver<WakeUp>), StoreUrlError> {
        let keys = Keys::new(&options.key_prefix);
        let (wake_ups, receiver) = mpsc::channel(WAKE_UPS);
        let board = blocked::Board::new(options.coordinator.clone());
        let meter = options.meter.clone();
        let observer = SharedObserver::default();
        let (url, tls) = (&options.url, options.tls.clone());
        let place = match &*kind_of(url) {
            "cluster" => None,
            "sentinel" => Some(sentinel::follow(SentinelUrl::parse(url, tls.clone())?)),
            _ => Some(Place::fixed(RedisTarget::parse(url, tls.clone())?)),
        };
        let (servers, listening) = match place {
            Some(place) => {
                let script = LockScript::of_database(place.database);
                let shared = Arc::clone(&observer);
                let lanes = Lanes::open(place, script, &options, None, shared);
                lanes.attend(|_| {});
                let channel = wake_channel(&options.coordinator).into_bytes();
                let of = keys.clone();
                // Full or closed: a refresh finds it.
                let read = move |message: Vec<u8>| wake_up::parse(&message, &of);
                let listening = lanes.link().subscribe(channel, wake_ups, read);
                (Servers::One(lanes), Some(listening))
            }
            None => {
                let url = ClusterUrl::parse(url, tls)?;
                let common = Common {
                    options,
                    keys: keys.clone(),
                    wake_ups,
                };
                let router = Router::new(url, common, Arc::clone(&observer));
                tokio::spawn(keeper::run(Arc::downgrade(&router)));
                (Servers::Cluster(router), None)
            }
        };
        let store = Self {
            servers,
            _listening: listening,
            keys,
            board,
            observer,
            meter,
        };
        Ok((store, receiver))
    }

    /// Lists names of one server: see [`LockStore::list`].
    async fn page(&self, lanes: &Lanes, prefix: &str, token: &str, size: usize) -> Listed {
        let cursor: u64 = match token {
            "" => 0,
            token => match token.parse() {
                Ok(cursor) if cursor > 0 => cursor,
                _ => return Ok(Err(Invalid("must be what the page before gave".into()))),
            },
        };
        let link = lanes.measured_link();
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
        match &self.servers {
            Servers::One(lanes) => lanes.send(command, keys, answer),
            Servers::Cluster(router) => router.send(command, keys, answer),
        }
    }

    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed> {
        match &self.servers {
            Servers::One(lanes) => Box::pin(self.page(lanes, prefix, token, size)),
            Servers::Cluster(router) => Box::pin(cluster::list::page(router, prefix, token, size)),
        }
    }

    fn exchange(&self, mine: Arc<Publication>) -> BoxFuture<'_, Exchanged> {
        let send = async |command| match &self.servers {
            Servers::One(lanes) => call(lanes.measured_link(), Script::Blocked, command).await,
            Servers::Cluster(router) => {
                let asked = router.execute(slot_of(self.keys.blocked().as_bytes()), command);
                self.meter.measure(Script::Blocked, asked).await
            }
        };
        Box::pin(async move { self.board.exchange(&self.keys.blocked(), mine, send).await })
    }

    fn ended_sessions(&self, change: Option<EndChange>) -> BoxFuture<'_, EndedSessions> {
        let key = self.keys.ended_sessions();
        let command = ended::command(&key, change.as_ref());
        Box::pin(async move {
            let reply = match &self.servers {
                Servers::One(lanes) => {
                    call(lanes.measured_link(), Script::EndedSessions, command).await?
                }
                Servers::Cluster(router) => {
                    let asked = router.execute(slot_of(key.as_bytes()), command);
                    self.meter.measure(Script::EndedSessions, asked).await?
                }
            };
            ended::decode(reply)
        })
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        self.keys.check(name)
    }

    fn status(&self) -> watch::Receiver<LinkStatus> {
        match &self.servers {
            Servers::One(lanes) => lanes.link().status(),
            Servers::Cluster(router) => router.status.subscribe(),
        }
    }

    fn observe(&self, observer: Observer) {
        // Set once, when the coordinator starts.
        let _ = self.observer.set(observer);
    }

    fn feed(&self) -> Feed {
        match &self.servers {
            Servers::One(lanes) => feed::open(lanes.link(), &self.keys),
            Servers::Cluster(router) => cluster::feed::open(router),
        }
    }
}
