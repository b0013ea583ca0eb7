//! Lease streams.
//!
//! - [`task`]: one task owns one session: what it holds and waits for, and its lease.
//! - `requests`: what a client may ask on its stream.
//! - `renewal`: keeping the holds alive, and telling what could not be.
//! - [`outbox`]: answers on their way to a client that may not read.
//! - [`sessions`]: the sessions of this coordinator, for operators and limits.

pub mod outbox;
pub mod sessions;
pub mod task;

mod renewal;
mod requests;
