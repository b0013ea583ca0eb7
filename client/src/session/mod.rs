//! Sessions: one lease stream each, and everything that is held through it.
//!
//! - `spec`: what is asked;
//! - `machine`, `waits`, `answers`, `changes`, `releases`, `stream`, `holds`, `heartbeats`: what to do upon each event,
//!   without I/O;
//! - `link`: the connection, made anew whenever it is lost;
//! - `driver`: the task that joins the two.

mod answers;
mod changes;
mod driver;
mod handle;
mod heartbeats;
mod holds;
mod link;
mod machine;
#[cfg(test)]
mod machine_tests;
mod releases;
mod spec;
mod stream;
mod waits;

pub(crate) use changes::Change;
pub(crate) use driver::{HoldReply, Note};
pub(crate) use handle::SessionOptions;
pub use handle::{Session, SessionBuilder, SessionInfo};
pub(crate) use machine::Granted;
pub(crate) use spec::{AcquireSpec, Mode, Names};
