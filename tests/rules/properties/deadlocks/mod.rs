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
mod speed;
mod telling;
mod town;

use proptest::test_runner::Config;

/// Returns the configuration: 512 random worlds for each property, or as many as `PROPTEST_CASES` in the environment says. A
/// world that fails is printed, cut down to what matters.
fn config() -> Config {
    let default = Config::default();
    Config {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => default.cases,
            None => 512,
        },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..default
    }
}
