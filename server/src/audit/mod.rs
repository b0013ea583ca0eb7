//! Audit log: a line of JSON for each grant, each end of a hold, each election, each action of an operator and each attempt that
//! was denied. `docs/audit.md` describes the lines.
//!
//! A request only puts an [`Event`] into a bounded queue. One thread writes them, so that neither a slow file nor a full disk
//! delays anybody: lines are dropped instead, counted, and the log tells how many.
//!
//! - [`Audit`]: the handle, which does nothing if there is no audit log. The only place where events are made.
//! - `ledger`: the holds and waiters of this coordinator, with what a line tells of each.
//! - [`event`]: the events, and their lines.
//! - `shared`: what handles and writer share; `queue`: events on their way to the writer.
//! - `writing`: its beginning and end; `writer`: the thread that writes them, and follows a file that was moved.

pub mod event;
mod handle;
mod ledger;
mod queue;
mod shared;
mod writer;
mod writing;

pub use self::{
    event::{Action, Event, Operator, Why},
    handle::{Audit, Holder},
    writer::{Counters, check},
    writing::{Unwritten, Writing},
};
