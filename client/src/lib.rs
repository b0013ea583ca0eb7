//! Rust client of Leasehold, a lock coordinator with streaming leases.
//!
//! ```
//! # leasehold_tests::doc(async |client| {
//! # let endpoint = client.endpoint().to_owned();
//! use leasehold_client::Client;
//!
//! let client = Client::connect(endpoint).await?; // "http://127.0.0.1:7420", say
//! let guard = client.lock("orders/42").acquire().await?;
//! println!("held, with fencing token {}", guard.fencing_token());
//! guard.release().await?;
//! # Ok(()) });
//! ```
//!
//! Or let the work be stopped when the lock is lost:
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
//! and heartbeats arrive, the coordinator renews every lock that is held through it; when this process ends, however it
//! ends, the coordinator releases them at once. The coordinator answers each heartbeat with a time for which everything
//! held is good. A [`LockGuard`] counts that time from the moment the heartbeat was *sent*, on a monotonic clock that
//! also counts suspended time, so that its deadline comes before the lock can be given to anybody else:
//!
//! - at that deadline it says that it is lost, though the network be gone ([`LockGuard::is_held`] reads the clock
//!   itself; [`LockGuard::lost`] completes);
//! - it says so at once when the coordinator tells it, or when the stream ends, but for a
//!   [grace](ClientBuilder::disconnect_grace), in which it is [suspended](LockState::Suspended): not held, but perhaps held
//!   again;
//! - lost is final: a guard never comes back to life, and a lock is never silently taken again. Acquire it anew, and
//!   get a new [`FencingToken`].
//!
//! A lost stream is made again in the background, with growing pauses. Acquires that wait go on waiting on the new one.
//!
//! A coordinator that **stops on purpose** says so. Its locks are left to expire, so guards stay held until their own deadlines,
//! whatever the grace, and the session resumes them on the first coordinator that it reaches: the same one, once it has been
//! restarted, or another. A guard that is not resumed by its deadline is [lost](LostReason::Expired).
//!
//! # Several coordinators
//!
//! Given several [`Endpoints`], or names that resolve to several addresses, a client begins with any of them. Its sessions
//! move to another coordinator, with their locks and their places in queues, when their own
//!
//! - **goes away in order** (it drains): before it is gone if there is another one, else when it is back; guards are held
//!   throughout, and no acquire fails;
//! - **falls silent** (it hangs, or the network swallows what is said): when no heartbeat has been answered for half the TTL,
//!   before anything is lost;
//! - **breaks the connection** (it crashes): within the grace, if there is one; else the locks are lost at once, as always.
//!
//! A lock that moves keeps its fencing token: nobody else had it in between.
//!
//! # Encryption and identity
//!
//! `https://` endpoints are encrypted, and have to be certified for the name in the URL by a CA that the system, or
//! [`ClientBuilder::tls_ca`], trusts. Coordinators know the client by a [certificate](ClientBuilder::tls_identity) or a
//! [bearer token](ClientBuilder::bearer_token_file). Both come from files that may be replaced at any time: sessions move to
//! a connection with the new ones, with all that they hold. If they expire first, locks are
//! [suspended](LockState::Suspended) until the session has come back with new ones.
//!
//! # What it can't promise
//!
//! - **Something in the middle resets the connection**, and the coordinator hears it first: it takes that for the end of
//!   this process and hands the lock on, a moment before the guard knows.
//! - **A force release** by an operator hands the lock on at once; the guard hears of it a moment later.
//! - **Redis loses data**, or **steps its clock**: a lock may be granted again before its time.
//! - **This process is paused** between looking at the guard and acting on what it saw.
//!
//! [`LockGuard::fencing_token`] covers all of them: it rises with every grant, and whatever the lock protects refuses
//! what comes with a smaller one. Who can't fence asks for a [`LockRequest::lock_delay`] of the TTL, which covers the
//! first.
//!
//! # Elections
//!
//! Several instances campaign, one leads, everybody can see who, and a dead leader is replaced at once. An [`Election`]
//! is the exclusive lock of its name, so that a [`Leadership`] promises what a guard promises, no more and no less:
//!
//! ```
//! # leasehold_tests::doc(async |client| {
//! let election = client.election("scheduler");
//! let done = election
//!     .run_while_leader("10.0.0.7:8080", |leadership| async move {
//!         // Dropped at its deadline when the leadership is lost, and begun anew after the next election.
//!         leadership.fencing_token()
//!     })
//!     .await?;
//!
//! let mut observer = election.observe();
//! let now = observer.next().await.expect("it goes on")?;
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
//! | asking for a lock: exclusive or shared, how long to wait, what to attach | [`Client::lock`], [`LockRequest`] |
//! | permits of a semaphore | [`Client::semaphore`], [`Semaphore`] |
//! | several locks at once, all or none | [`Client::lock_all`], [`LockAllRequest`], [`LockGuards`] |
//! | holding a lock | [`LockGuard`], [`LockWatch`], [`LockState`], [`LostReason`] |
//! | holding one more than once; deadlocks | [`Client::actor`], [`Actor`], [`AcquireError::Deadlock`] |
//! | leading, by lease | [`Client::election`], [`Election`], [`Leadership`], [`LeadershipWatch`] |
//! | who leads, and every change | [`Election::leader`], [`Election::observe`], [`Observer`] |
//! | locks with another fate than the rest | [`Client::session`], [`Session`] |
//! | the trace that a request is part of | [`ClientBuilder::trace_context_from`], [`LockRequest::trace_context`], [`TraceContext`] |
//! | looking inside a coordinator, and whether each one serves | [`Admin`], [`Admin::status`] |
//! | what happens to locks, as it happens | [`Admin::watch_locks`], [`LockWatcher`], [`LockNews`] |
//! | everything else that the API can do | [`proto::v1`], with [`Client::channel`] |

#![cfg_attr(
    test,
    expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")
)]

mod actor;
mod admin;
mod builder;
mod calls;
mod client;
mod clock;
mod election;
mod endpoints;
mod error;
mod feed;
mod guard;
mod guards;
mod lease;
mod lock;
mod lock_all;
mod pauses;
mod semaphore;
mod session;
mod settings;
mod status;
mod trace;
mod transport;
mod watcher;

pub use actor::Actor;
pub use admin::Admin;
pub use builder::ClientBuilder;
pub use client::Client;
pub use election::{Election, Leader, LeaderChange, Leadership, LeadershipWatch, Observer};
pub use endpoints::Endpoints;
pub use error::{
    AcquireError, ConnectError, CredentialsError, Failure, FieldViolation, HoldError, WithLockError,
};
pub use guard::{LockGuard, LockWatch};
pub use guards::LockGuards;
pub use lease::{FencingToken, LockState, LostReason};
pub use lock::LockRequest;
pub use lock_all::LockAllRequest;
pub use semaphore::Semaphore;
pub use session::{Session, SessionBuilder, SessionInfo};
pub use status::CoordinatorStatus;
pub use trace::{TraceContext, TraceContextError};
pub use transport::Channel;
pub use watcher::{LockNews, LockWatcher};

/// The wire API: messages and generated stubs, for what this crate has no words for.
pub mod proto {
    pub use leasehold_proto::v1;
}
