//! Force releases by an operator.

use std::time::Duration;

use leasehold_torture::locks;
use rand::{Rng, rngs::StdRng};
use tokio::time::sleep;

use crate::{
    coordinators::Coordinators,
    record::{Effects, Record},
};

/// Number of locks that are taken from their holders, one after the other.
const LOCKS: u32 = 20;
/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes locks from whoever holds them.
pub(super) async fn force(coordinators: &Coordinators, record: &Record, random: &mut StdRng) {
    let endpoints = coordinators.endpoints();
    let begun = record.begin("force release", "all", &Effects::forcing());
    for _ in 0..LOCKS {
        let endpoint = &endpoints[random.random_range(0..endpoints.len())];
        let lock = locks::any(random);
        if let Err(error) = coordinators.admin(endpoint).force_release(&lock).await {
            eprintln!("torture: no force release of {lock}: {error}");
        }
        sleep(PAUSE).await;
    }
    record.end(begun);
}
