//! Abuse of one coordinator beside a hundred clients that behave: its effect on them, and its cost.

mod soak;
