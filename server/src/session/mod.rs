//! Lease streams: the drivers of sessions, whose rules are in [`leasehold_core::session`].
//!
//! - [`driver`]: the task of one session, which feeds its machine with what happens and carries out what that says.
//! - `carry`: what it carries out, one output at a time.
//! - [`outbox`]: answers on their way to a client that may not read.
//! - [`wire`]: the words in which a client speaks; the session is the same for all of them.
//! - `signals`, `alarm`: what happens to a session from outside, and time.
//! - [`traces`]: its requests, as traces and the log tell of them.
//! - [`sessions`]: the sessions of this coordinator, for operators and limits.

pub mod driver;
pub mod outbox;
pub mod sessions;
pub mod traces;
pub mod wire;

mod alarm;
mod carry;
mod signals;
