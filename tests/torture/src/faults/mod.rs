//! Faults, drawn from the seed alone: one sequence against clients and their connections, one against coordinators and the store.

pub(crate) mod clients;
mod credentials;
mod kinds;
mod operators;
mod redis;
pub(crate) mod servers;

use std::time::Duration;

use leasehold_tests::{FaultProxy, Host, proxy::Cut};
use rand::{Rng, rngs::StdRng};
use tokio::{
    task::block_in_place,
    time::{sleep, timeout},
};

/// Draws a time.
fn millis(random: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.random_range(from..to))
}

/// Ends the connections of a proxy. Does not wait for those that come meanwhile, of which there may always be one.
async fn cut(proxy: &FaultProxy, how: Cut) {
    let _ = timeout(Duration::from_millis(100), proxy.cut(how)).await;
}

/// Has the first host of each pair hear nothing of the second one for a time.
async fn partition(pairs: &[(&Host, &Host)], time: Duration) {
    let all = || pairs.iter();
    block_in_place(|| all().for_each(|(deaf, mute)| deaf.ignore(mute)));
    sleep(time).await;
    block_in_place(|| all().for_each(|(deaf, mute)| deaf.hear(mute)));
}
