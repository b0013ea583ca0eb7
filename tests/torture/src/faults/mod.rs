//! Faults, drawn from the seed alone: one sequence against clients and their connections, one against coordinators and the store.

pub(crate) mod clients;
mod redis;
pub(crate) mod servers;

use std::time::Duration;

use rand::{Rng, rngs::StdRng};

/// Draws a time.
fn millis(random: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.random_range(from..to))
}
