//! Simulation from many more seeds.

use crate::{SEEDS, live_through_storms};

#[test]
fn no_guard_lives_without_its_lock_from_thousands_of_seeds() {
    let seen = live_through_storms(SEEDS + 1, 20_000);
    if std::env::var("LEASEHOLD_SEED").is_err() {
        seen.transitions.print();
        seen.transitions.check();
    }
}
