//! Tests of watching: watchers get all events, in order, at once, and cost nothing while there are none.

mod cost;
mod ends;
mod events;
mod gaps;
mod snapshots;
mod soak;
mod watch;
