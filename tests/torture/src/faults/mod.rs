//! Faults, drawn from the seed alone: one sequence against clients and their connections, one against coordinators and the store.

pub(crate) mod clients;
mod redis;
pub(crate) mod servers;

use std::time::Duration;

use leasehold_tests::{FaultProxy, proxy::Cut};
use rand::{Rng, rngs::StdRng};
use tokio::time::timeout;

/// Draws a time.
fn millis(random: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.random_range(from..to))
}

/// Ends the connections of a proxy. Does not wait for those that come meanwhile, of which there may always be one.
async fn cut(proxy: &FaultProxy, how: Cut) {
    let _ = timeout(Duration::from_millis(100), proxy.cut(how)).await;
}
