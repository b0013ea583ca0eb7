//! Sessions: one lease stream each, and the holds on it.
//!
//! - `spec`, `messages`, `output`: the acquire that is asked for, and what tasks, handles and guards send each other;
//! - `machine`: the state machine without I/O. Its parts `holds`, `ids`, `stream`, `optional_move`, `heartbeats`, `pending`,
//!   `waiting` and `fate` have states of their own; `waits`, `requests`, `answers`, `moving` and `resume` are its transitions;
//! - `route`, `link`, `connection`: where to connect, and a connection;
//! - `driver`, `dialling`: the task that runs the machine on connections;
//! - `handle`, `builder`, `bodies`: the session as programs see it, and their work under its locks;
//! - `simulated`: the machine without the task, for the simulation.

mod answers;
mod bodies;
mod builder;
mod connection;
mod dialling;
mod driver;
mod fate;
mod handle;
mod heartbeats;
mod holds;
mod ids;
mod link;
mod lock_spec;
mod machine;
#[cfg(test)]
mod machine_tests;
mod messages;
mod moving;
mod optional_move;
mod output;
mod pending;
mod requests;
mod resume;
mod route;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
mod spec;
mod stream;
mod waiting;
mod waits;

pub(crate) use bodies::Body;
pub use builder::SessionBuilder;
pub(crate) use builder::{SessionOptions, session_setters};
pub use handle::Session;
pub use lock_spec::LockSpec;
pub(crate) use lock_spec::Mode;
pub use messages::SessionInfo;
pub(crate) use messages::{Change, Granted, HoldReply, Note};
pub(crate) use route::{At, Candidate, Route, addresses, find};
pub(crate) use spec::{AcquireSpec, Locks, value_fault};
