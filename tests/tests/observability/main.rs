//! Tests of a coordinator's metrics, liveness and health, as operators see them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod health;
mod labels;
mod soak;
mod stores;
mod work;

use std::time::Duration;

/// How long anything may take that follows a look at the coordinator's health, on a busy machine.
const SEEN: Duration = Duration::from_secs(20);
