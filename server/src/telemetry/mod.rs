//! Logging, traces and metrics.
//!
//! - [`logging`]: where log lines go.
//! - [`requests`]: what is told of each unary call; [`traces`]: where spans go.
//! - [`metrics`]: the metrics as a whole; [`families`] has them by name.
//! - [`level`]: what exists now. [`waits`]: how long things take. [`rpc`]: calls by method. `store` and `connections` read
//!   what the store and the listener count; `certificates` tells when certificates expire, `process`
//!   what the kernel says of the process.
//! - `shown` and `text`: how all that is written.

pub(crate) mod certificates;
mod connections;
#[cfg(test)]
mod documented;
pub mod families;
pub mod level;
pub mod logging;
pub mod metrics;
mod process;
pub mod requests;
pub mod rpc;
mod shown;
mod store;
mod text;
pub mod traces;
pub mod waits;

pub use self::{
    families::Families,
    level::{Level, Tracked},
    logging::{LogLevel, LoggingError, init_logging},
    metrics::Metrics,
    requests::{Followed, RequestLayer},
    traces::{CallerContext, Traces, TracesError},
};
