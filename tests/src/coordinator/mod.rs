//! Coordinators: in this process, for tests and examples that need one quickly, and as real processes, for tests that
//! kill and measure them.

mod in_process;
mod metrics;
mod process;

pub use in_process::Coordinator;
pub use metrics::Metrics;
pub use process::{CoordinatorOptions, CoordinatorProcess};
