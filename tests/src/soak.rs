//! Two lengths for soak tests, the tests that need long waits, load or statistics. A suite has them in its module `soak`, by
//! whose name `make test` leaves them out and `make soak` selects them.

use std::env;

/// Returns `short` if the environment variable `SOAK` is `short`, as in CI, and `full` otherwise: a number of rounds, or how
/// long a test goes on.
pub fn either<T>(full: T, short: T) -> T {
    if env::var_os("SOAK").is_some_and(|length| length == "short") {
        short
    } else {
        full
    }
}
