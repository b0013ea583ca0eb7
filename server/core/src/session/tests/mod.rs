//! Transitions of the session's machine, over the rules of locks, on virtual time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod acquires;
mod actors;
mod asked;
mod bounds;
mod changes;
mod crossings;
mod detached;
mod endings;
mod fixtures;
mod modes;
mod promises;
mod renewals;
mod rests;
mod resumes;
mod scene;
mod several;
