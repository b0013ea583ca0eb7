//! The rules of a quorum, apart from what talks to masters.
#![expect(clippy::unwrap_used, reason = "tests")]

mod claims;
mod grants;
mod line;
mod standing;
mod votes;
