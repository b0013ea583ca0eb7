//! Replicas that have to acknowledge grants and renewals before they count: `--min-replicas`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod count;
mod ended;
mod site;
mod stopped;
