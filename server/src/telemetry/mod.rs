//! Logging and metrics.
//!
//! - [`logging`]: where log lines go.
//! - [`metrics`]: what is counted; `level` counts what exists now, `connections` reads the listener's numbers.

mod connections;
pub mod level;
pub mod logging;
pub mod metrics;

pub use self::{
    level::{Level, Tracked},
    logging::{LogLevel, LoggingError, init_logging},
    metrics::{Families, Metrics},
};
