//! Sessions: one lease stream each, and the holds on it.
//!
//! - `spec`: what is asked;
//! - `machine`, `waits`, `answers`, `changes`, `releases`, `replies`, `stream`, `holds`, `ids`, `heartbeats`: what to do upon
//!   each event, without I/O;
//! - `moving`, `resume`: the same, on the way from one stream to the next;
//! - `route`, `link`, `connection`: where to connect, and a connection;
//! - `driver`, `dialling`, `renewing`: the task that joins the two;
//! - `simulated`: the same without the task, for the simulation.

mod answers;
mod builder;
mod changes;
mod connection;
mod dialling;
mod driver;
mod handle;
mod heartbeats;
mod holds;
mod ids;
mod link;
mod machine;
#[cfg(test)]
mod machine_tests;
mod moving;
mod releases;
mod renewing;
mod replies;
mod resume;
mod route;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
mod spec;
mod stream;
mod waits;

pub use builder::SessionBuilder;
pub(crate) use builder::{SessionOptions, session_setters};
pub(crate) use changes::Change;
pub(crate) use driver::{HoldReply, Note};
pub use handle::{Session, SessionInfo};
pub(crate) use machine::Granted;
pub(crate) use route::{Candidate, addresses};
pub(crate) use spec::{AcquireSpec, Mode, Names};
