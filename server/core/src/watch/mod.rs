//! Events of locks for watchers, and the mirror that a coordinator derives them from.
//!
//! The store reports the changes of each operation ([`Telling`]), in the order in which it executed the operations. It does
//! not report the expiry of a hold. So a coordinator with watchers keeps a [`Mirror`] of the reported state, looks at a
//! name again when something on it should have expired ([`Op::Look`](crate::command::Op::Look)), and tells its watchers
//! what it finds. The answer to a look comes among the reports, so that both have one order.

mod event;
mod known;
mod mirror;
mod mirrored;

pub use event::*;
pub use mirror::Mirror;
