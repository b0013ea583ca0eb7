//! Limits on what one caller may have and ask for, so that none disturbs the others.
//!
//! - [`Account`]: the account of one caller: its sessions, its watchers, and its requests of the last second.
//! - [`Limits`]: hands out places, each of which counts for as long as it lives, and refuses when none is left.
//! - `attempts`: bounds how often one address may fail to authenticate.
//! - [`LimitLayer`]: counts calls before they are served; `bodies` bounds the time until they are complete.
//! - `files`: raises the limit of open files as far as the system permits.
//!
//! A limit is that of the configuration in force when a client asks. A lower limit never takes back what a client has.

mod account;
mod attempts;
mod bodies;
mod files;
mod layer;
mod names;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_core::name::LockName;
use tokio_util::sync::CancellationToken;

pub use self::{
    account::{Account, SessionPlace, WatcherPlace},
    files::{allow_many_files, most_connections},
    layer::LimitLayer,
    names::WaiterPlace,
};
use self::{
    account::{Accounts, StreamCount},
    names::Names,
};
use crate::{
    access::Caller,
    config::Config,
    follow::Reload,
    listener::Connections,
    status::{Reason, Refusal},
    telemetry::Metrics,
};

/// Time to retry after a refusal that only an end of unknown time lifts.
const LATER: Duration = Duration::from_secs(1);
/// Time to retry after a refusal that the next answer lifts.
const SOON: Duration = Duration::from_millis(100);

/// Most bytes of a message to health or reflection, which need little; `max-message-size` if that is less.
pub const LARGEST_OF_OTHERS: usize = 64 << 10;

/// A cheap handle on the limits of one coordinator.
#[derive(Clone, Debug)]
pub struct Limits {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    reload: Reload,
    /// Fixed at startup.
    max_message_size: usize,
    /// The time in which a call must send its message; fixed at startup.
    patience: Duration,
    /// The origin of the requests' times.
    began: Instant,
    accounts: Accounts,
    sessions: Arc<StreamCount>,
    waiters: Names,
    watchers: Arc<StreamCount>,
    /// The highest limit of a session's locks so far.
    most_locks: AtomicUsize,
}

impl Limits {
    /// Returns limits that follow this configuration.
    #[must_use]
    pub fn new(reload: Reload) -> Self {
        let config = reload.current();
        let max_message_size = config.max_message_size;
        Self {
            shared: Arc::new(Shared {
                reload,
                max_message_size,
                patience: config.handshake_timeout,
                began: Instant::now(),
                accounts: Accounts::default(),
                sessions: Arc::default(),
                waiters: Names::default(),
                watchers: Arc::default(),
                most_locks: AtomicUsize::new(config.max_locks_per_session),
            }),
        }
    }

    /// Keeps the listener's limit of connections, and the limits that metrics show, in step with the configuration, until `stop`.
    pub async fn follow(self, connections: Connections, metrics: Metrics, stop: CancellationToken) {
        let mut reload = self.shared.reload.clone();
        loop {
            metrics.set_limits(&self.config());
            let config = tokio::select! {
                () = stop.cancelled() => return,
                config = reload.changed() => config,
            };
            let most = most_connections(config.max_connections);
            connections.bound(most, config.max_connections_per_address);
            // Notes a limit that may be lowered again before the next call.
            let _ = self.most_locks();
        }
    }

    /// Returns the configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.shared.reload.current()
    }

    /// Returns the limits of the coordinator as a whole, and how much of each is in use: setting, use, limit.
    #[must_use]
    pub fn in_use(&self) -> [(&'static str, usize, usize); 2] {
        let config = self.config();
        [
            (
                "max-sessions",
                self.shared.sessions.count(),
                config.max_sessions,
            ),
            (
                "max-watchers",
                self.shared.watchers.count(),
                config.max_watchers,
            ),
        ]
    }

    /// Returns how many locks a session may resume: the highest limit since the start.
    #[must_use]
    pub fn most_locks(&self) -> usize {
        let now = self.config().max_locks_per_session;
        let before = &self.shared.most_locks;
        before.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// Returns the refusal of a message that is too large to be read. A retry cannot succeed.
    #[must_use]
    pub fn message_too_large(&self) -> Refusal {
        let limit = self.shared.max_message_size;
        Refusal::over(
            Reason::MessageTooLarge,
            ("max-message-size", limit),
            None,
            format!("a message is larger than {limit} bytes, which is the limit; it was not read"),
        )
    }

    /// Returns the refusal of such a message to health or reflection.
    #[must_use]
    pub fn message_of_others_too_large(&self) -> Refusal {
        let limit = self.shared.max_message_size.min(LARGEST_OF_OTHERS);
        Refusal::new(
            Reason::MessageTooLarge,
            format!(
                "a message to health or reflection is larger than {limit} bytes, which is the limit; it was not read"
            ),
        )
        .with("limit", limit)
    }

    /// Returns the account of this caller's calls to health. They count separately, so that other requests from the same
    /// address do not make the coordinator look dead.
    #[must_use]
    pub fn account_for_health(&self, caller: &Caller) -> Arc<Account> {
        let key = format!("health {}", caller.key());
        self.shared.accounts.of(key.into(), self.now())
    }

    /// Returns the account of this caller.
    #[must_use]
    pub fn account(&self, caller: &Caller) -> Arc<Account> {
        self.shared.accounts.of(caller.key(), self.now())
    }

    /// Counts one request of this caller.
    ///
    /// # Errors
    ///
    /// If it has made as many as it may, with the time after which it may make another one.
    pub fn request(&self, account: &Account) -> Result<(), Refusal> {
        let rate = self.config().max_requests_per_second;
        account.take(rate, self.now()).map_err(|wait| {
            Refusal::over(
                Reason::RateLimited,
                ("max-requests-per-second", rate),
                Some(wait),
                format!("{rate} requests a second are the most that a caller may make; this one was not served: ask again in {wait:?}"),
            )
        })
    }

    /// Counts requests of this caller without refusing them: later ones wait until these are paid for.
    pub fn owe(&self, account: &Account, requests: u32) {
        let rate = self.config().max_requests_per_second;
        account.owe(requests, rate, self.now());
    }

    /// Takes a place for one more session of this caller. A session that `resumes` another replaces one whose stream has
    /// ended, or that was asked to move.
    ///
    /// # Errors
    ///
    /// If the caller, or the coordinator, has as many as it may.
    pub fn session(&self, account: Arc<Account>, resumes: bool) -> Result<SessionPlace, Refusal> {
        let config = self.config();
        let limit = config.max_sessions_per_identity;
        let of_caller = account.sessions.take(limit, resumes).ok_or_else(|| {
            Refusal::over(
                Reason::TooManySessions,
                ("max-sessions-per-identity", limit),
                Some(LATER),
                format!("the caller has {limit} sessions here, which is the limit; close some, share sessions, or try another coordinator"),
            )
        })?;
        let limit = config.max_sessions;
        let of_all = self.shared.sessions.take(limit, resumes).ok_or_else(|| {
            Refusal::over(
                Reason::TooManySessions,
                ("max-sessions", limit),
                Some(LATER),
                format!("the coordinator has {limit} sessions, which is its limit; try another one or later"),
            )
        })?;
        Ok(SessionPlace {
            account,
            counted: [of_caller, of_all],
        })
    }

    /// Takes a place for one more acquire that may wait for this name.
    ///
    /// # Errors
    ///
    /// If as many wait as may.
    pub fn waiter(&self, name: &LockName) -> Result<WaiterPlace, Refusal> {
        let limit = self.config().max_waiters_per_name;
        let place = self.shared.waiters.enter(name, limit);
        place.ok_or_else(|| self.too_many_waiters(name))
    }

    /// Returns the refusal of an acquire that would wait for this name beyond `max-waiters-per-name`.
    pub fn too_many_waiters(&self, name: &LockName) -> Refusal {
        let limit = self.config().max_waiters_per_name;
        Refusal::over(
            Reason::TooManyWaiters,
            ("max-waiters-per-name", limit),
            Some(LATER),
            format!(
                "{limit} acquires wait for {:?} at this coordinator, which is the limit; try again later",
                name.as_str()
            ),
        )
    }

    /// Takes a place for a resumed waiter, whatever the limit: it keeps its place.
    pub fn waiter_again(&self, name: &LockName) -> WaiterPlace {
        self.shared.waiters.enter_anyway(name)
    }

    /// Takes a place for one more watcher or observer of this caller.
    ///
    /// # Errors
    ///
    /// If the caller, or the coordinator, has as many as it may.
    pub fn watcher(&self, account: Arc<Account>) -> Result<WatcherPlace, Refusal> {
        let config = self.config();
        let limit = config.max_watchers_per_identity;
        let of_caller = account.watchers.take(limit, false).ok_or_else(|| {
            Refusal::over(
                Reason::TooManyWatchers,
                ("max-watchers-per-identity", limit),
                Some(LATER),
                format!("the caller watches locks or observes elections here on {limit} streams, which is the limit; end some, share streams, or try another coordinator"),
            )
        })?;
        let limit = config.max_watchers;
        let of_all = self.shared.watchers.take(limit, false).ok_or_else(|| {
            Refusal::over(
                Reason::TooManyWatchers,
                ("max-watchers", limit),
                Some(LATER),
                format!("{limit} streams watch locks or observe elections here, which is the limit; try another coordinator, or later"),
            )
        })?;
        Ok(WatcherPlace {
            _account: account,
            _counted: [of_caller, of_all],
        })
    }

    /// Returns the nanoseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.shared.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Returns the refusal of `more` locks for a session that `has` some.
pub fn too_many_locks(has: usize, more: usize, limit: usize) -> Refusal {
    Refusal::over(
        Reason::TooManyLocks,
        ("max-locks-per-session", limit),
        Some(LATER),
        format!(
            "the session holds and waits for {has} locks, of {limit} that it may, and asks for {more} more; release some first"
        ),
    )
}

/// Returns the refusal of a request while `limit` others of the session are in flight; `so` says what happens to it.
pub fn too_many_in_flight(limit: usize, so: &str) -> Refusal {
    Refusal::new(
        Reason::TooManyRequests,
        format!(
            "the session has {limit} releases, set_values, downgrades and reduces in flight, which is the limit, so {so}; wait for answers before asking for more"
        ),
    )
    .with("limit", limit)
    .retry_after(SOON)
}

/// Returns the refusal of an acquire of too many names. A retry cannot succeed.
pub fn too_many_names(asked: usize, limit: usize) -> Refusal {
    Refusal::over(
        Reason::TooManyNames,
        ("max-names-per-acquire", limit),
        None,
        format!(
            "the acquire is for {asked} names, of {limit} that it may be; ask for fewer at a time"
        ),
    )
}

/// Returns the refusal of a page that is too large. A retry cannot succeed.
pub fn page_too_large(asked: i32, limit: usize) -> Refusal {
    Refusal::over(
        Reason::PageTooLarge,
        ("max-page-size", limit),
        None,
        format!("page_size is {asked}, of {limit} that it may be; ask for smaller pages"),
    )
}
