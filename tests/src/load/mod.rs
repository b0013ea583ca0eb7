//! Driver's parts that Leasehold and its rivals are measured with: the state of a contended run, and the points of a
//! distribution. `leasehold bench` shares the check of every grant and the distribution itself.

mod course;
mod points;

pub use course::{Course, HandOffs};
pub use leasehold_load::{Distribution, Exclusion};
pub use points::{micros, millis, points};
