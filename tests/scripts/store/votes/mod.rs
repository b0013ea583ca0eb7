//! The rules of a quorum, without the connections to masters.

mod claims;
mod counting;
mod grants;
mod line;
mod standing;
