//! Lease streams: the drivers of sessions, whose rules are in [`leasehold_core::session`].
//!
//! - [`driver`]: the task of one session, which feeds its machine with what happens and carries out what that says.
//! - `carry`: what it carries out, one output at a time.
//! - [`outbox`]: answers on their way to a client that may not read.
//! - [`opened`]: a session as its stream opens it, and the kinds of such streams.
//! - [`signals`]: what happens to a session from outside.
//! - [`traces`]: its requests, as traces and the log tell of them.
//! - [`sessions`]: the sessions of this coordinator, for operators and limits.

pub mod driver;
pub mod opened;
pub mod outbox;
pub mod sessions;
pub mod signals;
pub mod traces;

mod carry;
