//! What an operator sees of a coordinator: its metrics, and whether it says that it serves.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod health;
mod labels;
mod liveness;
mod stores;
mod work;

use std::time::Duration;

/// How long anything may take that follows a look at the coordinator's health, on a busy machine.
const SEEN: Duration = Duration::from_secs(20);
