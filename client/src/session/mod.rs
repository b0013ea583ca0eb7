//! Sessions: one lease stream each, and everything that is held through it.
//!
//! - `machine`, `waits`, `answers`, `stream`, `holds`, `heartbeats`: what to do upon each event, without I/O;
//! - `link`: the connection, made anew whenever it is lost;
//! - `driver`: the task that joins the two.

mod answers;
mod driver;
mod handle;
mod heartbeats;
mod holds;
mod link;
mod machine;
#[cfg(test)]
mod machine_tests;
mod stream;
mod waits;

pub(crate) use driver::{HoldReply, Note};
pub(crate) use handle::SessionOptions;
pub use handle::{Session, SessionBuilder, SessionInfo};
pub(crate) use waits::AcquireSpec;
