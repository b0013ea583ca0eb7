//! Trait of a store, and the choice of an implementation by URL.

use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::{
    command::{Command, Executed, Handed},
    deadlock::Publication,
    id::{CoordinatorId, OwnerId},
    name::{Invalid, LockName},
    time::Moment,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    error::StoreError,
    feed::Feed,
    measure::Meter,
    memory::MemoryStore,
    quorum::{QuorumStore, url::QuorumTarget},
    redis::{
        ClusterStore, RedisStore,
        acknowledge::Acknowledgement,
        status::LinkStatus as Status,
        url::{
            ClusterUrl, RedisTarget, SentinelUrl, StoreUrlError, TlsFiles, is_cluster, is_sentinel,
        },
    },
};

/// A store of locks.
///
/// Every command is idempotent for the same owner id, so that one whose reply was lost may be sent again. Dropping a
/// future does not take its command back: it may still be carried out.
pub trait LockStore {
    /// Sends one command. Those sent one after the other are carried out in that order as far as they share a lock.
    fn send(&self, command: Command, answer: Answer);

    /// Carries one command out.
    fn execute(
        &self,
        command: Command,
    ) -> impl Future<Output = Result<Stamped, StoreError>> + Send {
        let (answer, answered) = oneshot::channel();
        self.send(command, Answer::once(answer));
        // An answer always comes: see `Answer`.
        async { answered.await.unwrap_or_else(|_| Err(unanswered())) }
    }

    /// Carries many commands out, in few messages, each with its own result, in their order.
    fn execute_all(
        &self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Vec<Result<Stamped, StoreError>>> + Send {
        let number = commands.len();
        let (answers, mut answered) = mpsc::unbounded_channel();
        let answers: Arc<dyn Answers> = Arc::new(answers);
        for (number, command) in (0..).zip(commands) {
            self.send(command, Answer::numbered(number, Arc::clone(&answers)));
        }
        drop(answers);
        async move {
            let mut results: Vec<_> = (0..number).map(|_| Err(unanswered())).collect();
            while let Some((number, result)) = answered.recv().await {
                let place = usize::try_from(number).ok();
                if let Some(place) = place.and_then(|place| results.get_mut(place)) {
                    *place = result;
                }
            }
            results
        }
    }

    /// Lists names that begin with `prefix` and are held, closed or waited for: about `size` of them, unordered. `token` is
    /// empty or what the page before gave; a token that no page gave is an error in the inner result.
    fn list(
        &self,
        prefix: &str,
        token: &str,
        size: usize,
    ) -> impl Future<Output = Result<Result<Page, Invalid>, StoreError>> + Send;

    /// Publishes which of this coordinator's actors wait while they hold something, in place of what it published before, and
    /// returns what every coordinator published lately, this one included. The detector of deadlocks calls it, one call at a
    /// time. The store forgets a publication after a few seconds unless its coordinator calls again.
    fn exchange(
        &self,
        mine: Arc<Publication>,
    ) -> impl Future<Output = Result<Vec<Arc<Publication>>, StoreError>> + Send;

    /// Whether this store can keep a lock of this name.
    fn check_name(&self, name: &LockName) -> Result<(), Invalid>;

    /// Whether the store can be reached, as it changes.
    fn status(&self) -> watch::Receiver<Status>;

    /// Sets who is told of each answer, once.
    fn observe(&self, observer: Observer);

    /// Opens a feed of what happens to locks, whoever does it. It follows nothing yet.
    fn feed(&self) -> Feed;

    /// Whether feeds are of any use: an error says why they are not.
    fn offers_feeds(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Where the answer to a command goes. It always comes: where nobody is left to give one, because the process is about to
/// end, it is [`StoreError::Indeterminate`].
#[derive(Debug)]
pub struct Answer(Option<Destination>);

#[derive(Debug)]
enum Destination {
    Once(oneshot::Sender<Result<Stamped, StoreError>>),
    Numbered(u64, Arc<dyn Answers>),
}

/// Takes the answers to many commands, each under its number.
pub trait Answers: fmt::Debug + Send + Sync {
    /// Takes one. It is called on the store's own tasks and must not block.
    fn answered(&self, number: u64, result: Result<Stamped, StoreError>);
}

impl Answers for mpsc::UnboundedSender<(u64, Result<Stamped, StoreError>)> {
    fn answered(&self, number: u64, result: Result<Stamped, StoreError>) {
        // Whoever asked may be gone.
        let _ = self.send((number, result));
    }
}

impl Answer {
    /// To whoever waits for this answer alone.
    pub fn once(destination: oneshot::Sender<Result<Stamped, StoreError>>) -> Self {
        Self(Some(Destination::Once(destination)))
    }

    /// To whoever waits for many, as the answer to the command of this number.
    pub fn numbered(number: u64, destination: Arc<dyn Answers>) -> Self {
        Self(Some(Destination::Numbered(number, destination)))
    }

    /// Gives it. Whoever asked may be gone.
    pub fn give(mut self, result: Result<Stamped, StoreError>) {
        self.send(result);
    }

    fn send(&mut self, result: Result<Stamped, StoreError>) {
        match self.0.take() {
            Some(Destination::Once(destination)) => {
                let _ = destination.send(result);
            }
            Some(Destination::Numbered(number, destination)) => {
                destination.answered(number, result);
            }
            None => {}
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.send(Err(unanswered()));
        }
    }
}

/// The task that sends is gone: the runtime is being shut down.
pub(crate) fn unanswered() -> StoreError {
    StoreError::Indeterminate {
        reason: "the coordinator is stopping".into(),
    }
}

/// Who is told of each answer before whoever asked is, and also when whoever asked is gone: a hand-off in the answer to a
/// release must not depend on the patience of whoever released.
pub struct Observer {
    observe: Box<Observe>,
    unacknowledged: Box<Unacknowledged>,
}

type Observe = dyn Fn(&LockName, &Stamped) + Send + Sync;
type Unacknowledged = dyn Fn(&LockName, &Handed, &StoreError) + Send + Sync;

impl Observer {
    /// An observer: of answers, and of grants to waiters that came to nothing because too few replicas have acknowledged
    /// them. It is called on the store's own tasks and must not block. Where replicas acknowledge, grants to waiters are told
    /// in an answer of their own, after that to the command that made them.
    pub fn new(
        observe: impl Fn(&LockName, &Stamped) + Send + Sync + 'static,
        unacknowledged: impl Fn(&LockName, &Handed, &StoreError) + Send + Sync + 'static,
    ) -> Self {
        Self {
            observe: Box::new(observe),
            unacknowledged: Box::new(unacknowledged),
        }
    }

    pub(crate) fn observe(&self, name: &LockName, stamped: &Stamped) {
        (self.observe)(name, stamped);
    }

    pub(crate) fn unacknowledged(&self, name: &LockName, handed: &Handed, error: &StoreError) {
        (self.unacknowledged)(name, handed, error);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(…)")
    }
}

/// What was carried out, and when it was sent.
#[derive(Clone, Debug)]
pub struct Stamped {
    /// What it did.
    pub executed: Executed,
    /// When it was sent, by the coordinator's clock: whatever it extended lasts at least from here.
    pub sent_at: Moment,
}

/// A page of names.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The names; there may be few or none while there is a next page.
    pub names: Vec<LockName>,
    /// Where the next page begins; empty on the last.
    pub next: String,
}

/// What another coordinator's operation did to somebody of this one. A hint: it may be lost, and a refresh finds what
/// it would have told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// A waiter was granted, for the claim time: confirm it.
    Granted {
        /// The lock.
        name: LockName,
        /// The waiter.
        owner: OwnerId,
        /// Its token.
        token: leasehold_core::id::FencingToken,
        /// Whether a session waits.
        of_session: bool,
    },
    /// A hold was force-released.
    Forced {
        /// The lock.
        name: LockName,
        /// The former holder.
        owner: OwnerId,
    },
    /// Something may have been missed, since nobody listened yet: refresh it.
    Missed {
        /// The lock.
        name: LockName,
    },
    /// A hold or a place in the queue was resumed by another coordinator: it lives on under another owner id.
    Resumed {
        /// The lock.
        name: LockName,
        /// What its owner id was.
        owner: OwnerId,
    },
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// `memory:`, `redis://[user[:password]@]host[:port][/database]`,
    /// `redis+sentinel://[user[:password]@]host[:port],…/master-name[/database][?sentinel-user=…&sentinel-password=…]`,
    /// `redis+cluster://[user[:password]@]host[:port],…`, or
    /// `redis+quorum://[user[:password]@]host[:port],…[/database][?durable=true]`; with `rediss` in the place of `redis`
    /// for TLS.
    pub url: String,
    /// Certificates for where the URL asks for TLS.
    pub tls: TlsFiles,
    /// Put before a lock's name to make its Redis key.
    pub key_prefix: String,
    /// How long a command may take.
    pub timeout: Duration,
    /// How many connections to keep for commands.
    pub connections: usize,
    /// How many replicas are to acknowledge grants and renewals, if any.
    pub acknowledgement: Option<Acknowledgement>,
    /// Who opens it.
    pub coordinator: CoordinatorId,
    /// The longest TTL and lock-delay together: several independent masters must agree on it.
    pub max_hold: Duration,
    /// Measures what its servers are asked; nothing is measured in memory.
    pub meter: Meter,
}

/// Opens a store. It need not be reachable yet: see [`LockStore::status`].
///
/// The receiver gives wake-ups from other coordinators.
pub fn open(options: Options) -> Result<(Store, mpsc::Receiver<WakeUp>), StoreUrlError> {
    if options.url == "memory:" {
        let (store, wake_ups) = MemoryStore::open();
        return Ok((Store::Memory(store), wake_ups));
    }
    if is_cluster(&options.url) {
        let (store, wake_ups) = ClusterStore::open(options)?;
        return Ok((Store::Cluster(store), wake_ups));
    }
    if QuorumTarget::is_meant_by(&options.url) {
        let (store, wake_ups) = QuorumStore::open(options)?;
        return Ok((Store::Quorum(store), wake_ups));
    }
    let (store, wake_ups) = RedisStore::open(options)?;
    Ok((Store::Redis(store), wake_ups))
}

/// Whether a store of this URL can be opened, as far as the URL alone tells: no file is read.
pub fn check_url(url: &str) -> Result<(), StoreUrlError> {
    if url == "memory:" {
        return Ok(());
    }
    let (scheme, rest) = url.split_at(url.find([':', '+']).unwrap_or(0));
    if scheme.eq_ignore_ascii_case("rediss") {
        check_redis_url(&format!("redis{rest}"))
    } else {
        check_redis_url(url)
    }
}

fn check_redis_url(url: &str) -> Result<(), StoreUrlError> {
    if is_sentinel(url) {
        SentinelUrl::parse(url, None).map(drop)
    } else if is_cluster(url) {
        ClusterUrl::parse(url, None).map(drop)
    } else if QuorumTarget::is_meant_by(url) {
        QuorumTarget::parse(url, None).map(drop)
    } else {
        RedisTarget::parse(url, None).map(drop)
    }
}

/// One of the stores.
#[derive(Clone, Debug)]
pub enum Store {
    /// In memory.
    Memory(MemoryStore),
    /// On a Redis server, or on the master that sentinels name.
    Redis(RedisStore),
    /// On a Redis Cluster.
    Cluster(ClusterStore),
    /// On several independent Redis servers.
    Quorum(QuorumStore),
}

impl LockStore for Store {
    fn send(&self, command: Command, answer: Answer) {
        match self {
            Self::Memory(store) => store.send(command, answer),
            Self::Redis(store) => store.send(command, answer),
            Self::Cluster(store) => store.send(command, answer),
            Self::Quorum(store) => store.send(command, answer),
        }
    }

    async fn list(
        &self,
        prefix: &str,
        token: &str,
        size: usize,
    ) -> Result<Result<Page, Invalid>, StoreError> {
        match self {
            Self::Memory(store) => store.list(prefix, token, size).await,
            Self::Redis(store) => store.list(prefix, token, size).await,
            Self::Cluster(store) => store.list(prefix, token, size).await,
            Self::Quorum(store) => store.list(prefix, token, size).await,
        }
    }

    async fn exchange(&self, mine: Arc<Publication>) -> Result<Vec<Arc<Publication>>, StoreError> {
        match self {
            Self::Memory(store) => store.exchange(mine).await,
            Self::Redis(store) => store.exchange(mine).await,
            Self::Cluster(store) => store.exchange(mine).await,
            Self::Quorum(store) => store.exchange(mine).await,
        }
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        match self {
            Self::Memory(store) => store.check_name(name),
            Self::Redis(store) => store.check_name(name),
            Self::Cluster(store) => store.check_name(name),
            Self::Quorum(store) => store.check_name(name),
        }
    }

    fn status(&self) -> watch::Receiver<Status> {
        match self {
            Self::Memory(store) => store.status(),
            Self::Redis(store) => store.status(),
            Self::Cluster(store) => store.status(),
            Self::Quorum(store) => store.status(),
        }
    }

    fn observe(&self, observer: Observer) {
        match self {
            Self::Memory(store) => store.observe(observer),
            Self::Redis(store) => store.observe(observer),
            Self::Cluster(store) => store.observe(observer),
            Self::Quorum(store) => store.observe(observer),
        }
    }

    fn feed(&self) -> Feed {
        match self {
            Self::Memory(store) => store.feed(),
            Self::Redis(store) => store.feed(),
            Self::Cluster(store) => store.feed(),
            Self::Quorum(store) => store.feed(),
        }
    }

    fn offers_feeds(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.offers_feeds(),
            Self::Redis(store) => store.offers_feeds(),
            Self::Cluster(store) => store.offers_feeds(),
            Self::Quorum(store) => store.offers_feeds(),
        }
    }
}
