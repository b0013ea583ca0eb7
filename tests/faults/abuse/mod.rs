//! Abuse of one coordinator beside a hundred clients that behave: its effect on them, and its cost.

#![expect(clippy::unwrap_used, reason = "tests")]

mod soak;
