//! Tests of a coordinator's metrics, liveness and health, as operators see them.

mod health;
mod labels;
mod soak;
mod stores;
mod work;

use std::time::Duration;

/// Longest time until the coordinator's health shows a change, on a busy machine.
const SEEN: Duration = Duration::from_secs(20);
