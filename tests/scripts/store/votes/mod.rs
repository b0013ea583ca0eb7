//! The rules of a quorum, without the connections to masters.

mod claims;
mod counting;
mod line;
mod standing;

use proptest::test_runner::{Config, RngSeed};

/// Returns a configuration whose random cases are the same in each run.
fn config() -> Config {
    Config {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Config::default()
    }
}
