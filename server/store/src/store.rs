//! Trait of a store, and its options.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Command, Handed},
    deadlock::Publication,
    ended::{EndChange, EndedCount, Mark},
    id::CoordinatorId,
    mode::Mode,
    name::{Invalid, LockName},
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    feed::Feed,
    measure::Meter,
    redis::{status::LinkStatus as Status, url::TlsFiles},
};

pub use leasehold_core::command::{Stamped, WakeUp};

/// Store of locks.
///
/// Every command is idempotent for the same owner id, so that one whose reply was lost may be sent again. Dropping a
/// future does not cancel its command, which may still be carried out.
pub trait LockStore: fmt::Debug + Send + Sync {
    /// Sends one command. The store carries out commands of one lock in the order of sending.
    fn send(&self, command: Command, answer: Answer);

    /// Executes one command.
    fn execute(&self, command: Command) -> BoxFuture<'static, Result<Stamped, StoreError>> {
        let (answer, answered) = oneshot::channel();
        self.send(command, Answer::once(answer));
        // An answer always comes: see `Answer`.
        Box::pin(async { answered.await.unwrap_or_else(|_| Err(unanswered())) })
    }

    /// Executes many commands, in few messages. Returns the result of each, in their order.
    fn execute_all(
        &self,
        commands: Vec<Command>,
    ) -> BoxFuture<'static, Vec<Result<Stamped, StoreError>>> {
        let executed: Vec<_> = commands.into_iter().map(|it| self.execute(it)).collect();
        Box::pin(join_all(executed))
    }

    /// Lists names that begin with `prefix` and are held, closed or waited for: about `size` of them, unordered. `token` is
    /// empty or that of the previous page; any other token is an error in the inner result.
    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed>;

    /// Publishes this coordinator's blocked waits, in place of its previous publication, and returns the recent publications of
    /// all coordinators, this one included. The detector of deadlocks calls it, one call at a time. The store forgets a
    /// publication after a few seconds unless its coordinator calls again.
    fn exchange(&self, mine: Arc<Publication>) -> BoxFuture<'_, Exchanged>;

    /// Changes the mark of a session that an operator has ended, if a change is given, and returns all marks; `None` if there is
    /// no room for another mark.
    fn ended_sessions(&self, change: Option<EndChange>) -> BoxFuture<'_, EndedSessions>;

    /// Checks that this store can keep a lock of this name.
    fn check_name(&self, name: &LockName) -> Result<(), Invalid>;

    /// Returns whether the store can be reached, as it changes.
    fn status(&self) -> watch::Receiver<Status>;

    /// Sets the observer of all answers, once.
    fn observe(&self, observer: Observer);

    /// Opens a feed of changes to locks. It follows nothing yet.
    fn feed(&self) -> Feed;

    /// Checks that the store offers locks in this mode; the error says why not.
    fn offers_mode(&self, _mode: Mode) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checks that the store offers feeds; the error says why not.
    fn offers_feeds(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Store of any kind.
pub type Store = Arc<dyn LockStore>;

/// Result of [`LockStore::list`].
pub type Listed = Result<Result<Page, Invalid>, StoreError>;

/// Result of [`LockStore::exchange`].
pub type Exchanged = Result<Vec<Arc<Publication>>, StoreError>;

/// Marks of sessions that operators have ended, and what coordinators have ended because of each.
pub type Marks = Vec<(Mark, EndedCount)>;

/// Result of [`LockStore::ended_sessions`].
pub type EndedSessions = Result<Option<Marks>, StoreError>;

/// Destination of a command's answer. An answer always comes: if no task is left to give one, because the process is about
/// to end, it is [`StoreError::Indeterminate`].
#[derive(Debug)]
pub struct Answer(Option<Destination>);

#[derive(Debug)]
enum Destination {
    Once(oneshot::Sender<Result<Stamped, StoreError>>),
    Numbered(u64, Arc<dyn Answers>),
}

/// Receiver of the answers to many commands, each under its number.
pub trait Answers: fmt::Debug + Send + Sync {
    /// Receives one. The store calls it on its own tasks; it must not block.
    fn answered(&self, number: u64, result: Result<Stamped, StoreError>);
}

impl Answers for mpsc::UnboundedSender<(u64, Result<Stamped, StoreError>)> {
    fn answered(&self, number: u64, result: Result<Stamped, StoreError>) {
        // The caller may be gone.
        let _ = self.send((number, result));
    }
}

impl Answer {
    /// Returns the destination of a single answer.
    pub fn once(destination: oneshot::Sender<Result<Stamped, StoreError>>) -> Self {
        Self(Some(Destination::Once(destination)))
    }

    /// Returns the destination of the answer to the command of this number.
    pub fn numbered(number: u64, destination: Arc<dyn Answers>) -> Self {
        Self(Some(Destination::Numbered(number, destination)))
    }

    /// Gives the answer. The caller may be gone.
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

/// Returns the error if the sending task is gone, because the runtime shuts down.
pub(crate) fn unanswered() -> StoreError {
    StoreError::Indeterminate {
        reason: "the coordinator is stopping".into(),
    }
}

/// Observer of each answer, called before the caller receives it, and even if the caller is gone: a hand-off in the answer to
/// a release must not depend on the caller's patience.
pub struct Observer {
    observe: Box<Observe>,
    unacknowledged: Box<Unacknowledged>,
}

type Observe = dyn Fn(&LockName, &Stamped) + Send + Sync;
type Unacknowledged = dyn Fn(&LockName, &Handed, &StoreError) + Send + Sync;

impl Observer {
    /// Returns an observer of answers, and of grants to waiters that failed because too few replicas acknowledged them. The
    /// store calls it on its own tasks; it must not block. If replicas acknowledge, grants to waiters come in an answer of
    /// their own, after that of the command that made them.
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

/// Page of names.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The names; a page with few or none may still have a next one.
    pub names: Vec<LockName>,
    /// The token of the next page; empty on the last.
    pub next: String,
}

/// Number of replicas that must acknowledge, and the time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The number of replicas, at least 1.
    pub replicas: u32,
    /// The time in which they must acknowledge.
    pub timeout: Duration,
}

/// Options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// `memory:`, `redis://[user[:password]@]host[:port][/database]`,
    /// `redis+sentinel://[user[:password]@]host[:port],…/master-name[/database][?sentinel-user=…&sentinel-password=…]`,
    /// `redis+cluster://[user[:password]@]host[:port],…`, or
    /// `redis+quorum://[user[:password]@]host[:port],…[/database][?durable=true]`; with `rediss` in the place of `redis`
    /// for TLS.
    pub url: String,
    /// Certificates, if the URL asks for TLS.
    pub tls: TlsFiles,
    /// Prefix of a lock's name in its Redis key.
    pub key_prefix: String,
    /// The time-out of a command.
    pub timeout: Duration,
    /// Number of connections for commands.
    pub connections: usize,
    /// The replicas that must acknowledge grants and renewals, if any.
    pub acknowledgement: Option<Acknowledgement>,
    /// The coordinator that opens it.
    pub coordinator: CoordinatorId,
    /// The sum of the longest TTL and lock-delay: coordinators on several independent masters must agree on it.
    pub max_hold: Duration,
    /// Measures the calls to its servers; a store in memory has none.
    pub meter: Meter,
}
