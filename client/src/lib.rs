//! Rust client of Leasehold, a lock coordinator with streaming leases.
//!
//! ```
//! # leasehold_tests::doc(async |client| {
//! # let endpoint = client.endpoint().to_owned();
//! use leasehold_client::Client;
//!
//! let client = Client::connect(endpoint).await?; // "http://127.0.0.1:7420", say
//! let guard = client.lock("orders/42").await?;
//! println!("held, with fencing token {}", guard.fencing_token());
//! guard.release().await?;
//! # Ok(()) });
//! ```
//!
//! Or have the client stop the work when the lock is lost ([`Client::try_with_lock`] is for work that can fail):
//!
//! ```
//! # leasehold_tests::doc(async |client| {
//! let done = client
//!     .with_lock("orders/42", |lock| async move {
//!         // Write with lock.fencing_token(), and let the storage refuse smaller ones.
//!         lock.fencing_token()
//!     })
//!     .await?;
//! # assert!(done.get() > 0);
//! # Ok(()) });
//! ```
//!
//! # What a guard promises
//!
//! A [`Client`] opens a [`Session`]: a stream to the coordinator with a time to live (TTL). While the stream is alive
//! and heartbeats arrive, the coordinator renews every lock that the session holds; when this process ends, however it
//! ends, the coordinator releases them at once. The coordinator answers each heartbeat with a time for which every hold
//! is good. A [`LockGuard`] counts that time from the moment the session *sent* the heartbeat, on a monotonic clock that
//! also counts suspended time, so that its deadline comes before the coordinator can grant the lock to anybody else:
//!
//! - At that deadline the guard is lost, even without a network ([`LockGuard::is_held`] reads the clock itself;
//!   [`LockGuard::lost`] completes).
//! - The guard is lost at once when the coordinator says so, or when the stream ends, unless there is a
//!   [grace](ClientBuilder::disconnect_grace): then the guard is [suspended](LockState::Suspended), that is not held, but
//!   perhaps held again.
//! - A loss is final: a guard never comes back to life, and the client never silently takes a lock again. Acquire it anew,
//!   and get a new [`FencingToken`].
//!
//! The session replaces a lost stream in the background, with growing pauses. Acquires that wait go on waiting on the new
//! one. They also go on while the coordinator's store is down, and are asked for again until their wait is over, unless they are
//! [without retries](LockRequest::without_retries).
//!
//! A coordinator that **stops on purpose** says so and leaves its locks to expire. Guards stay held until their own
//! deadlines, whatever the grace, and the session resumes them on the first coordinator that it reaches: the same one after
//! a restart, or another. A guard that is not resumed by its deadline is [lost](LostReason::Expired).
//!
//! # Several coordinators
//!
//! Given several [`Endpoints`], or names that resolve to several addresses, a client begins with any of them. Its sessions
//! move to another coordinator, chosen at random so that many clients spread, with their locks and their places in queues,
//! if their own
//!
//! - **drains**: the session moves before the coordinator is gone if there is another one, else when it is back; guards are
//!   held throughout, and no acquire fails;
//! - **asks for it**, to spread sessions anew, and goes on serving: if there is no other stream to have, the session goes on where it
//!   is, and tries again every 10 s;
//! - **falls silent** (it hangs, or the network drops messages): the session moves when the coordinator has answered no
//!   heartbeat for half the TTL, before any lock is lost;
//! - **breaks the connection** (it crashes): the session moves within the grace, if there is one; else the locks are lost at
//!   once.
//!
//! A lock that moves keeps its fencing token, because nobody else had it in between.
//!
//! # Encryption and identity
//!
//! `https://` endpoints need a certificate for the name in the URL, from a CA that the system, or
//! [`ClientBuilder::tls_ca`], trusts. The client shows a [certificate](ClientBuilder::tls_identity) or a
//! [bearer token](ClientBuilder::bearer_token_file). Both come from files that may be replaced at any time: sessions then
//! move to a connection with the new ones, with all that they hold. If the old ones expire first, locks are
//! [suspended](LockState::Suspended) until the session has come back with new ones.
//!
//! # What a guard can't promise
//!
//! - **A device in between resets the connection**, and the coordinator notices first: it takes that for the end of this
//!   process and hands the lock on, a moment before the guard knows.
//! - **A force release** by an operator hands the lock on at once; the guard learns of it a moment later.
//! - **Redis loses data**, or **steps its clock**: the coordinator may grant a lock again before its time.
//! - **This process is paused** between reading the guard's state and acting on it.
//!
//! [`LockGuard::fencing_token`] covers all of them: it rises with every grant, and the protected resource refuses smaller
//! ones. If the resource can't refuse, ask for a [`LockRequest::lock_delay`] of the TTL, which covers the first.
//!
//! # Elections
//!
//! Several instances campaign, one leads, all can observe it, and the next candidate replaces a dead leader at once. An
//! [`Election`] is the exclusive lock of its name, so a [`Leadership`] promises what a guard promises, no more and no less:
//!
//! ```
//! # leasehold_tests::doc(async |client| {
//! let election = client.election("scheduler");
//! let done = election
//!     .run_while_leader("10.0.0.7:8080", |leadership| async move {
//!         // The client drops this when the leadership is lost, and begins anew after the next election.
//!         leadership.fencing_token()
//!     })
//!     .await?;
//!
//! let mut observer = election.observe();
//! let now = observer.next().await.expect("the observer goes on")?;
//! assert!(now.leader.is_none());
//! # Ok(()) });
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | connecting, to one coordinator or several, and its settings | [`Client`], [`Endpoints`], [`ClientBuilder`] |
//! | TLS, certificates, tokens | [`ClientBuilder::tls_ca`], [`ClientBuilder::bearer_token_file`], [`CredentialsError`] |
//! | requests for a lock: exclusive or shared, how long to wait, what to attach | [`Client::lock`], [`LockRequest`] |
//! | permits of a semaphore | [`Client::semaphore`], [`Semaphore`], [`PermitRequest`], [`SemaphorePermit`] |
//! | several locks at once, all or none | [`Client::lock_all`], [`LockSpec`], [`LockAllRequest`], [`LockGuards`] |
//! | work that runs while a lock is held | [`LockRequest::with`], [`LockRequest::try_with`], [`WithLockError`] |
//! | holding a lock | [`LockGuard`], [`LockWatch`], [`LockState`], [`LostReason`] |
//! | holding one more than once; deadlocks | [`Client::actor`], [`Actor`], [`AcquireError::Deadlock`] |
//! | a hold that outlives the process | [`Client::detached_lock`], [`DetachedRequest`], [`DetachedLock`] |
//! | leading, by lease | [`Client::election`], [`Election`], [`Leadership`], [`LeadershipWatch`] |
//! | the leader of an election, and every change | [`Election::leader`], [`Election::observe`], [`Observer`] |
//! | a further session, with a TTL of its own | [`Client::session`], [`Session`] |
//! | the trace that a request is part of | [`ClientBuilder::trace_context_from`], [`LockRequest::trace_context`], [`TraceContext`] |
//! | looking inside a coordinator, and whether each one serves | [`Admin`], [`LockView`], [`SessionView`], [`CoordinatorStatus`] |
//! | what happens to locks, as it happens | [`Admin::watch_locks`], [`LockWatcher`], [`LockWatchEvent`] |
//! | errors | [`AcquireError`], [`HoldError`], [`WithLockError`], [`ConnectError`], [`Failure`], [`FailureKind`] |
//! | everything else that the API can do | the generated stubs of the crate `leasehold-proto`, with [`Client::channel`] |
//!
//! Programs in `examples/` show a lock, work that can fail, a semaphore, an election and a watch.

#![cfg_attr(
    test,
    expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")
)]

mod actor;
mod admin;
mod builder;
mod calls;
mod candidacies;
mod client;
mod client_name;
mod clock;
mod detached;
mod election;
mod endpoints;
mod entry;
mod error;
mod feed;
mod guard;
mod guards;
mod lease;
mod pauses;
mod permit;
mod proto;
mod release_request;
mod request;
mod request_release;
mod semaphore;
mod session;
mod settings;
mod status;
mod token;
mod trace;
mod transport;
mod view;
mod watcher;

pub use actor::Actor;
pub use admin::Admin;
pub use builder::ClientBuilder;
pub use client::Client;
pub use detached::{DetachedLock, DetachedRequest};
pub use election::{Election, Leader, LeaderChange, Leadership, LeadershipWatch, Observer};
pub use endpoints::Endpoints;
pub use error::{
    AcquireError, ConnectError, CredentialsError, Failure, FailureKind, FieldViolation, HoldError,
    WithLockError,
};
pub use guard::{LockGuard, LockWatch};
pub use guards::LockGuards;
pub use lease::{LockState, LostReason};
pub use permit::SemaphorePermit;
pub use release_request::ReleaseRequest;
pub use request::{AcquireFuture, Grant, LockAllRequest, LockRequest, PermitRequest};
pub use request_release::RequestRelease;
pub use semaphore::Semaphore;
pub use session::{LockSpec, Session, SessionBuilder, SessionInfo};
pub use status::CoordinatorStatus;
pub use token::FencingToken;
pub use trace::{TraceContext, TraceContextError};
pub use transport::Channel;
pub use view::{
    CertificateView, CoordinatorView, ForceReleased, Holder, LimitView, LockEvent, LockEventKind,
    LockMode, LockPage, LockView, LockWatchEvent, PermissionView, SessionEnded, SessionView,
    StoreState, TokenCheck, Waiter,
};
pub use watcher::LockWatcher;

/// Sessions without their drivers, and the clock, for the workspace's own tests. No part of the API.
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation {
    pub use crate::clock::{read_clock, skew_clock};
    pub use crate::election::simulated::{Candidacies, Candidacy};
    pub use crate::session::simulated::{Acquire, Guard, Output, Session, StreamEnd};
}

#[doc(hidden)]
pub mod planted;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send_and_sync<T: Send + Sync>() {}

    fn is_error<T: std::error::Error + Send + Sync + Unpin + 'static>() {}

    fn is_send<T: Send>(of: T) -> T {
        of
    }

    #[test]
    fn every_public_type_is_send_and_sync() {
        is_send_and_sync::<(Client, ClientBuilder, Session, SessionBuilder, SessionInfo)>();
        is_send_and_sync::<(LockRequest, LockAllRequest, PermitRequest, Semaphore)>();
        is_send_and_sync::<(LockGuard, LockWatch, LockGuards, SemaphorePermit)>();
        is_send_and_sync::<(DetachedRequest, DetachedLock)>();
        is_send_and_sync::<(ReleaseRequest, RequestRelease)>();
        is_send_and_sync::<(LockState, LostReason, FencingToken, Actor, TraceContext)>();
        is_send_and_sync::<(Election, Leadership, LeadershipWatch, Leader, LeaderChange)>();
        is_send_and_sync::<(
            Admin,
            Channel,
            Endpoints,
            CoordinatorStatus,
            CoordinatorView,
        )>();
        is_send_and_sync::<(LockView, Holder, Waiter, LockMode, SessionView, StoreState)>();
        is_send_and_sync::<(LockWatchEvent, LockEvent, LockEventKind)>();
        is_send_and_sync::<(
            ForceReleased,
            SessionEnded,
            TokenCheck,
            Failure,
            FailureKind,
        )>();
        // These are polled by one task at a time.
        fn is_send<T: Send + Unpin>() {}
        is_send::<(Observer, LockWatcher, AcquireFuture<LockGuard>)>();
    }

    #[test]
    fn every_error_can_be_boxed_and_sent() {
        is_error::<AcquireError>();
        is_error::<HoldError>();
        is_error::<WithLockError>();
        is_error::<ConnectError>();
        is_error::<CredentialsError>();
        is_error::<Failure>();
        is_error::<TraceContextError>();
    }

    /// Compiles; the test never runs it.
    #[expect(dead_code, reason = "its types are the test")]
    fn work_under_a_lock_can_be_spawned(client: &'static Client) {
        drop(is_send(client.lock("a").into_future()));
        drop(is_send(client.lock("a").try_acquire()));
        drop(is_send(client.detached_lock("a").acquire()));
        drop(is_send(client.admin().request_release("a").send()));
        drop(is_send(client.with_lock("a", |_lock| async {})));
        drop(is_send(client.try_with_lock("a", |_lock| async {
            Ok::<(), WithLockError>(())
        })));
    }
}
