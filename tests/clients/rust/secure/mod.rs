//! Tests of a client's identity and trust: certificates, tokens, and refusals.

mod certificates;
mod gate;
mod refusals;

use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
