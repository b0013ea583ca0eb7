//! Driver's parts that Leasehold and its rivals are measured with: the check of every grant, the state of a contended run, and
//! the distribution of times.

mod course;
mod distribution;
mod exclusion;

pub use course::{Course, HandOffs};
pub use distribution::{Distribution, micros, millis};
pub use exclusion::Exclusion;
