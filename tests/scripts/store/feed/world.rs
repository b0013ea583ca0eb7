//! A store, and commands for it.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Executed, Op},
    id::{Actor, CoordinatorId, FeedId, FencingToken, OwnerId},
    mode::Mode,
    name::{ClientName, LockName, Value},
    watch::{Change, Telling},
};
use leasehold_store::{
    Feed, FeedItem, Options, Store, StoreError, Subject, Told, measure::Meter, open,
};
use tokio::time::timeout;

use crate::store::server::{PATIENCE, RedisServer, until_up};

/// A store, and the server behind it, if it has one.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) server: Option<RedisServer>,
}

impl World {
    pub(crate) async fn in_memory() -> Self {
        Self {
            store: connect("memory:").await,
            server: None,
        }
    }

    pub(crate) async fn on_redis() -> Self {
        let server = RedisServer::start();
        Self {
            store: connect(&server.url()).await,
            server: Some(server),
        }
    }

    pub(crate) async fn each() -> [Self; 2] {
        [Self::in_memory().await, Self::on_redis().await]
    }

    pub(crate) async fn run(&self, name: &str, op: Op) -> Executed {
        run(&self.store, name, op).await.unwrap()
    }

    /// Acquires a name for itself, and releases it.
    pub(crate) async fn cycle(&self, name: &str) {
        self.run(name, acquire(1, Mode::Exclusive)).await;
        self.run(name, release(1)).await;
    }

    /// Returns a feed that has begun.
    pub(crate) async fn feed(&self) -> Feed {
        let mut feed = self.store.feed();
        assert_eq!(next(&mut feed).await, FeedItem::Started);
        feed
    }

    /// Returns a feed that follows something.
    pub(crate) async fn follow(&self, subject: Subject) -> Feed {
        let mut feed = self.feed().await;
        follow(&mut feed, subject).await;
        feed
    }
}

pub(crate) async fn connect(url: &str) -> Store {
    connect_with(url, PATIENCE).await
}

/// Connects with this time-out for commands and pings.
pub(crate) async fn connect_with(url: &str, timeout: Duration) -> Store {
    let (store, _) = open(Options {
        url: url.into(),
        tls: leasehold_store::TlsFiles::default(),
        key_prefix: "lock:".into(),
        timeout,
        connections: 1,
        acknowledgement: None,
        coordinator: CoordinatorId::new("here"),
        max_hold: Duration::from_secs(7200),
        meter: Meter::default(),
    })
    .unwrap();
    until_up(&mut store.status()).await;
    store
}

pub(crate) fn command(name: &str, op: Op) -> Command {
    Command {
        name: LockName::parse(name).unwrap(),
        caller: Caller {
            coordinator: CoordinatorId::new("here"),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(60),
            not_after: None,
        },
        op,
    }
}

pub(crate) async fn run(store: &Store, name: &str, op: Op) -> Result<Executed, StoreError> {
    Ok(store.execute(command(name, op)).await?.executed)
}

pub(crate) fn owner(number: u8) -> OwnerId {
    let mut bytes = *b"the owner id 000";
    bytes[15] = number;
    OwnerId::from_bytes(bytes)
}

pub(crate) fn acquire(number: u8, mode: Mode) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: None,
        actor: Actor::NOBODY,
        client_name: ClientName::parse("somebody").unwrap(),
        mode,
        value: Value::parse(b"a value").unwrap(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    })
}

pub(crate) fn release(number: u8) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Clean,
    }
}

pub(crate) fn look(feed: FeedId) -> Op {
    Op::Look { feed }
}

pub(crate) fn named(name: &str) -> Subject {
    Subject::Name(LockName::parse(name).unwrap())
}

pub(crate) async fn next(feed: &mut Feed) -> FeedItem {
    let next = timeout(PATIENCE, feed.next()).await;
    next.expect("the feed should tell something").unwrap()
}

pub(crate) async fn follow(feed: &mut Feed, subject: Subject) {
    feed.follow(subject.clone());
    assert_eq!(next(feed).await, FeedItem::Followed(subject));
}

pub(crate) async fn told(feed: &mut Feed) -> Told {
    match next(feed).await {
        FeedItem::Told(told) => told,
        other => panic!("{other:?} tells of no lock"),
    }
}

/// Returns the next event in few words: its audience, the lock, and the change.
pub(crate) async fn heard(feed: &mut Feed) -> String {
    let Told {
        subject,
        name,
        telling,
        ..
    } = told(feed).await;
    let subject = match subject {
        None => "looked".to_owned(),
        Some(Subject::Everything) => "*".to_owned(),
        Some(Subject::Name(name)) => name.to_string(),
    };
    format!("{subject}: {name} {}", in_words(&telling))
}

fn in_words(telling: &Telling) -> String {
    let changes: Vec<&str> = telling.changes.iter().map(kind).collect();
    let looked = telling.looked.as_ref();
    let looked = looked.map(|view| format!("held by {}", view.holder_count));
    let waiters = match telling.waiter_count {
        Some(0) | None => String::new(),
        Some(count) => format!(", {count} waiting"),
    };
    format!(
        "{}{}{waiters}",
        changes.join("+"),
        looked.unwrap_or_default()
    )
}

fn kind(change: &Change) -> &'static str {
    match change {
        Change::Granted(_) => "granted",
        Change::Queued { .. } => "queued",
        Change::Withdrawn(_) => "withdrawn",
        Change::Released { .. } => "released",
        Change::Expired(_) => "expired",
        Change::Lost { .. } => "lost",
        Change::Forced(_) => "forced",
        Change::ForcedHolder(_) => "forced holder",
        Change::ForcedWaiter(_) => "forced waiter",
        Change::ValueChanged(_) => "value",
        Change::Downgraded(_) => "downgraded",
        Change::Resumed(_) => "resumed",
        Change::Shortened(_) => "shortened",
        Change::Reduced { .. } => "reduced",
        Change::ReleaseRequested(_) => "release requested",
        Change::LimitChanged(_) => "limit",
        Change::Doubtful => "doubtful",
    }
}
