//! The rules of Leasehold: the state of a lock, the order of its waiters, and the validity of a lease.
//!
//! Everything here is deterministic: time and ids are passed in, nothing does I/O, sleeps or draws random numbers.
//!
//! - [`lock::LockState`] is one lock's state machine, `(state, command, now) → reply`. The memory store is that machine
//!   behind a mutex; the Redis scripts are tested against it, command by command.
//! - [`lease::Lease`] is one session's arithmetic: which deadline may be promised to the client, and when silence ends
//!   the session.
//! - [`session::Session`] is one client's session, and [`contention::ContendedNames`] what a coordinator does for the names
//!   that somebody waits for: machines without I/O, which the server drives. So are [`deadlock::detector::Detector`],
//!   [`cleanup::Cleanups`] (the releases that nobody waits for) and [`session::Call`] (the acquire of a unary call).
//! - [`ended::EndedSessions`] has the marks of the sessions that operators have ended.
//! - [`planted`]: faults that tests plant, none of which is in an ordinary build.
//! - [`watch::Mirror`] makes what happens to locks, as the store tells it, into events for whoever watches.
//! - The other modules hold the types that carry the bounds: they are parsed once at the edge and trusted inside.

#![cfg_attr(
    test,
    expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")
)]

pub mod cleanup;
pub mod command;
pub mod contention;
pub mod deadlock;
pub mod ended;
pub mod failure;
mod hold;
pub mod id;
pub mod lease;
pub mod lock;
pub mod mode;
pub mod name;
pub mod planted;
pub mod queue;
mod ranks;
mod replaced;
pub mod session;
mod show;
pub mod table;
pub mod time;
pub mod view;
pub mod watch;
