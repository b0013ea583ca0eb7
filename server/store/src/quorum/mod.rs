//! Locks on several independent Redis masters: a lock is held by whoever has it on a majority of them.
//!
//! The rules are apart from what talks to Redis:
//!
//! - [`decide`]: counting votes, and what they come to.
//! - [`standing`]: which masters have a vote.
//! - [`line`](mod@line): who waits for a name at this coordinator.
//! - [`record`]: what a master keeps of a grant.
//! - [`claims`]: what masters have of a hold that another stream takes over.
//!
//! Everything else asks and listens:
//!
//! - [`store`]: the [`LockStore`](crate::LockStore) itself.
//! - [`url`]: where the masters are.
//! - `script`: the operations on one master, which are in `lua/quorum/`, and their replies.
//! - `master`: commands to one master, coalesced; `keeper`: whether it has a vote, as that changes.
//! - `round`: a question that is put to all of them at once.
//! - `attempt`: an acquire, once; `undo`: what is left of one that came to nothing; `waiting`: whose turn it is; `turns`: what
//!   that comes to.
//! - `extend`, `resume`, `release`, `change`, `look`, `list`: the other operations.
//! - `wake`: what masters tell without being asked.
//! - `board`: whether there are enough of them.
//! - [`bootstrap`](mod@bootstrap): an operator's declaration that all of them are started for the first time.

pub mod bootstrap;
pub mod claims;
pub mod decide;
pub mod line;
pub mod record;
pub mod standing;
pub mod store;
pub mod url;

mod attempt;
mod board;
mod change;
mod extend;
mod keeper;
mod list;
mod look;
mod master;
mod release;
mod resume;
mod round;
mod script;
mod turns;
mod undo;
mod waiting;
mod wake;

pub use store::QuorumStore;
