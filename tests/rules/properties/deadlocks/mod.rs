//! Tests of the detector of deadlocks: the deadlocks it finds, the victims it chooses, and its messages.
//!
//! What is found is held against a model that knows nothing of the detector: it tries every way in which the world may go
//! on.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod accused;
mod agreement;
mod coverage;
mod generate;
mod history;
mod model;
mod passes;
mod scenes;
mod telling;
mod town;

use proptest::test_runner::Config;

/// Returns a configuration of 512 random worlds for each property.
fn config() -> Config {
    crate::config(512)
}
