//! The rules of a quorum, apart from what talks to masters.

mod claims;
mod counting;
mod grants;
mod line;
mod standing;
