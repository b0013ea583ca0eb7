//! Tests of operation: a configuration that is checked before it counts, changes without a restart, and messages to
//! the service manager.

mod bad_starts;
mod check_config;
mod reload;
mod service_manager;

use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
