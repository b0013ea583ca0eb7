//! A store, and commands for it.

use leasehold_core::{
    command::{Acquire, Command, Executed, Op},
    id::FeedId,
    mode::Mode,
    name::{ClientName, LockName, Value},
    watch::{Change, Telling},
};
use leasehold_store::{Feed, FeedItem, Store, StoreError, Subject, Told};
use tokio::time::timeout;

use crate::{
    common::{self, PATIENCE, acquiring, options, release},
    store::server::Server,
};

/// A store, and the server behind it, if it has one.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) server: Option<Server>,
}

impl World {
    pub(crate) async fn in_memory() -> Self {
        Self {
            store: connect("memory:").await,
            server: None,
        }
    }

    pub(crate) async fn on_redis() -> Self {
        let server = Server::start();
        Self {
            store: connect(&server.url()).await,
            server: Some(server),
        }
    }

    pub(crate) async fn each() -> [Self; 2] {
        [Self::in_memory().await, Self::on_redis().await]
    }

    /// Returns the server behind the store.
    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("the store is no memory")
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
        begin(&self.store).await
    }

    /// Returns a feed that follows something.
    pub(crate) async fn follow(&self, subject: Subject) -> Feed {
        let mut feed = self.feed().await;
        follow(&mut feed, subject).await;
        feed
    }
}

pub(crate) async fn connect(url: &str) -> Store {
    common::connect(options(url)).await.0
}

pub(crate) fn command(name: &str, op: Op) -> Command {
    common::command(name, "here", op)
}

pub(crate) async fn run(store: &Store, name: &str, op: Op) -> Result<Executed, StoreError> {
    Ok(store.execute(command(name, op)).await?.executed)
}

/// Returns an acquire without a session, and with a value.
pub(crate) fn acquire(number: u16, mode: Mode) -> Op {
    Op::Acquire(Acquire {
        session: None,
        client_name: ClientName::parse("somebody").unwrap(),
        value: Value::parse(b"a value").unwrap(),
        ..acquiring(number, mode)
    })
}

/// Returns a feed of a store that has begun.
pub(crate) async fn begin(store: &Store) -> Feed {
    let mut feed = store.feed();
    begins(&mut feed).await;
    feed
}

/// Has a feed begin, perhaps anew.
pub(crate) async fn begins(feed: &mut Feed) {
    assert_eq!(next(feed).await, FeedItem::Started);
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
    let changes: Vec<String> = telling.changes.iter().map(kind).collect();
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

/// Returns the name of a change.
fn kind(change: &Change) -> String {
    let told = format!("{change:?}");
    let name = told.split(|c: char| !c.is_alphabetic()).next();
    name.unwrap_or_default().to_lowercase()
}
