//! Property tests of the rules: locks and their queues, and the detector of deadlocks, on random histories.

mod deadlocks;
mod locks;

use proptest::test_runner::{Config, RngSeed};

/// Returns a configuration of so many random cases for each property, or as many as `PROPTEST_CASES` in the environment says, made
/// from the seed 1, or that of `PROPTEST_RNG_SEED`. A case that fails is printed, cut down to what matters.
fn config(cases: u32) -> Config {
    let default = Config::default();
    Config {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => default.cases,
            None => cases,
        },
        rng_seed: match default.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            seed => seed,
        },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..default
    }
}
