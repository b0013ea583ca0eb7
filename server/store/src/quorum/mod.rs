//! Locks on several independent Redis masters: the owner id on a majority of them holds a lock.
//!
//! The rules are pure:
//!
//! - [`decide`]: counts votes.
//! - [`standing`]: decides which masters have a vote.
//! - [`line`](mod@line): the queue of one name at this coordinator.
//! - [`record`]: the record that a master keeps of a grant.
//! - [`claims`]: decides on a hold that is renewed or resumed.
//!
//! The other modules talk to Redis:
//!
//! - [`store`]: the [`LockStore`](crate::LockStore) itself.
//! - `script`: the operations on one master, which are in `lua/quorum/`, and their replies.
//! - `master`: coalesces commands to one master; `keeper`: follows whether it has a vote.
//! - `round`: one question to all masters at once.
//! - `attempt`: one try of an acquire; `undo` and `undoing`: take back a failed one; `waiting`: the queues of acquires; `turns`: carries
//!   the first of each queue out.
//! - `holds`: renewals and resumes; `release`, `look`, `list`: the other operations.
//! - `ended`: marks of sessions that operators have ended.
//! - `wake`: messages that masters publish.
//! - `examine`: asks all masters for what an operator judges them by.
//! - `board`: whether enough masters have a vote.
//! - [`bootstrap`](mod@bootstrap): an operator's declaration that all masters start for the first time.

pub mod bootstrap;
pub mod claims;
pub mod decide;
pub mod line;
pub mod record;
pub mod standing;
pub mod store;

mod attempt;
mod board;
mod ended;
pub(crate) mod examine;
pub(crate) mod fuzzing;
mod holds;
mod keeper;
mod list;
mod look;
mod master;
mod release;
mod round;
mod script;
mod turns;
mod undo;
mod undoing;
mod waiting;
mod wake;

pub use store::QuorumStore;
