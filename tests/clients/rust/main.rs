//! The Rust client against real coordinators, over connections that break.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod elections;
mod secure;
mod sessions;
