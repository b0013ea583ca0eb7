//! One coordinator, a hundred clients that behave, and abuse: what the hundred notice of it, and what it costs.

#![expect(clippy::unwrap_used, reason = "tests")]

mod deadlocked;
mod neighbours;
mod together;
