//! Tests of operation: a configuration that is checked before it counts, changes without a restart, and messages to
//! the service manager.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod announcement;
mod bad_starts;
mod check_config;
mod help;
mod reload;
mod service_manager;

use std::time::Duration;

use leasehold_tests::{CoordinatorProcess, wait};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits until the coordinator has logged a line with each of `words`.
async fn logged(coordinator: &CoordinatorProcess, words: &[&str]) -> String {
    wait::until("a line in the log", LIMIT, || async {
        let log = coordinator.log();
        let line = log
            .lines()
            .find(|line| words.iter().all(|word| line.contains(word)));
        line.map(str::to_owned).ok_or((words, log.clone()))
    })
    .await
}
