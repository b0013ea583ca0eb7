//! Redis scripts against the rules of the memory store, and the links and feeds that carry them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod common;
mod differential;
mod store;
