//! What a coordinator needs of a store, and which stores there are.

use std::{path::PathBuf, time::Duration};

use leasehold_core::{
    command::{Command, Executed},
    id::{CoordinatorId, OwnerId},
    name::{Invalid, LockName},
    time::Moment,
};
use tokio::sync::{mpsc, watch};

use crate::{
    error::StoreError,
    memory::MemoryStore,
    redis::{RedisStore, status::LinkStatus as Status, url::StoreUrlError},
};

/// A store of locks.
///
/// Every command is idempotent for the same owner id, so that one whose reply was lost may be sent again. Dropping a
/// future does not take its command back: it may still be carried out.
pub trait LockStore {
    /// Carries one command out.
    fn execute(&self, command: Command)
    -> impl Future<Output = Result<Stamped, StoreError>> + Send;

    /// Carries many commands out, in few messages, each with its own result, in their order.
    fn execute_all(
        &self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Vec<Result<Stamped, StoreError>>> + Send;

    /// Lists names that begin with `prefix` and are held, closed or waited for: about `size` of them, unordered. `token` is
    /// empty or what the page before gave; a token that no page gave is an error in the inner result.
    fn list(
        &self,
        prefix: &str,
        token: &str,
        size: usize,
    ) -> impl Future<Output = Result<Result<Page, Invalid>, StoreError>> + Send;

    /// Whether this store can keep a lock of this name.
    fn check_name(&self, name: &LockName) -> Result<(), Invalid>;

    /// Whether the store can be reached, as it changes.
    fn status(&self) -> watch::Receiver<Status>;

    /// Sets who is told of each answer, once.
    fn observe(&self, observer: Observer);
}

/// Who is told of each answer before whoever asked is, and also when whoever asked is gone: a hand-off in the answer to a
/// release must not depend on the patience of whoever released.
pub struct Observer(Box<Observe>);

type Observe = dyn Fn(&LockName, &Stamped) + Send + Sync;

impl Observer {
    /// An observer. It is called on the store's own tasks and must not block.
    pub fn new(observe: impl Fn(&LockName, &Stamped) + Send + Sync + 'static) -> Self {
        Self(Box::new(observe))
    }

    pub(crate) fn observe(&self, name: &LockName, stamped: &Stamped) {
        (self.0)(name, stamped);
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// `memory:`, or `redis://` or `rediss://` `[user[:password]@]host[:port][/database]`.
    pub url: String,
    /// The certificate authority to trust for `rediss://`, as a PEM file; the system's if `None`.
    pub ca: Option<PathBuf>,
    /// Put before a lock's name to make its Redis key.
    pub key_prefix: String,
    /// How long a command may take.
    pub timeout: Duration,
    /// How many connections to keep for commands.
    pub connections: usize,
    /// Who opens it.
    pub coordinator: CoordinatorId,
}

/// Opens a store. It need not be reachable yet: see [`LockStore::status`].
///
/// The receiver gives wake-ups from other coordinators.
pub fn open(options: Options) -> Result<(Store, mpsc::Receiver<WakeUp>), StoreUrlError> {
    if options.url == "memory:" {
        let (store, wake_ups) = MemoryStore::open();
        return Ok((Store::Memory(store), wake_ups));
    }
    let (store, wake_ups) = RedisStore::open(options)?;
    Ok((Store::Redis(store), wake_ups))
}

/// One of the stores.
#[derive(Clone, Debug)]
pub enum Store {
    /// In memory.
    Memory(MemoryStore),
    /// On a Redis server.
    Redis(RedisStore),
}

impl LockStore for Store {
    async fn execute(&self, command: Command) -> Result<Stamped, StoreError> {
        match self {
            Self::Memory(store) => store.execute(command).await,
            Self::Redis(store) => store.execute(command).await,
        }
    }

    async fn execute_all(&self, commands: Vec<Command>) -> Vec<Result<Stamped, StoreError>> {
        match self {
            Self::Memory(store) => store.execute_all(commands).await,
            Self::Redis(store) => store.execute_all(commands).await,
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
        }
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        match self {
            Self::Memory(store) => store.check_name(name),
            Self::Redis(store) => store.check_name(name),
        }
    }

    fn status(&self) -> watch::Receiver<Status> {
        match self {
            Self::Memory(store) => store.status(),
            Self::Redis(store) => store.status(),
        }
    }

    fn observe(&self, observer: Observer) {
        match self {
            Self::Memory(store) => store.observe(observer),
            Self::Redis(store) => store.observe(observer),
        }
    }
}
