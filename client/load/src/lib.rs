//! Measurement of locks under load: the check of every grant, and the distribution of times. `leasehold bench`, the benchmark,
//! its rivals and the tests under abuse measure with it.

mod distribution;
mod exclusion;

pub use distribution::Distribution;
pub use exclusion::{Exclusion, Grant, Violation};
