//! Who a client is, and whom it trusts: certificates, tokens, and what is refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod certificates;
mod gate;
mod refusals;

use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
