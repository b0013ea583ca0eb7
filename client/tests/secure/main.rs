//! Tests of a client's identity and trust: certificates, tokens, and refusals.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod certificates;
mod gate;
mod refusals;

use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
