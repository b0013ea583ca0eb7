//! Faults: processes killed and stopped, connections cut and black-holed, Redis restarted.

mod cleanup;
mod contended;
mod late_replies;
mod line;
mod listings;
mod pauses;
mod renewals;
mod shutdown;
mod soak;
mod stepped_clock;
mod transport;
mod waiters;
