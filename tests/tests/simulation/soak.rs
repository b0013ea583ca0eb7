//! Simulation from many more seeds.

use std::env;

use crate::{SEEDS, live_through_storms};

#[test]
fn no_guard_lives_without_its_lock_from_thousands_of_seeds() {
    let is_short = env::var("SOAK").is_ok_and(|soak| soak == "short");
    live_through_storms(SEEDS + 1, if is_short { 1_000 } else { 20_000 });
}
