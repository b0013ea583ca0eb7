//! Lease streams: the drivers of sessions, whose rules are in [`leasehold_core::session`].
//!
//! - [`driver`]: the task of one session, which feeds its machine with what happens and carries out what that says.
//! - `carry`: what it carries out, one output at a time.
//! - [`opened`]: a session as its stream opens it, and the kinds of such streams.
//! - [`signals`]: what happens to a session from outside.

pub mod driver;
pub mod opened;
pub mod signals;

mod carry;
