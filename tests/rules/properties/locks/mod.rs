//! Property tests of the lock rules on random histories: several names, coordinators and owners, with time passed in.
//!
//! Each promise is a test of its own, and has a model of its own that knows nothing of how the state machine works:
//! it sees commands, replies and what a view shows, as a client and an operator would.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "tests fail by panicking"
)]

mod answers;
mod corners;
mod coverage;
mod crowds;
mod exclusion;
mod fifo;
mod fresh;
mod history;
mod hold;
mod idempotence;
mod lease;
mod ledger;
mod leftovers;
mod limit_changes;
mod line;
mod lock_delay;
mod memories;
mod model;
mod modes;
mod operations;
mod resuming;
mod revisions;
mod starvation;
mod steps;
mod tokens;
mod wake_ups;
mod watched;
mod watching;
mod world;

use proptest::test_runner::Config;

/// Returns a configuration of 64 random histories for each property.
fn config() -> Config {
    crate::config(64)
}
