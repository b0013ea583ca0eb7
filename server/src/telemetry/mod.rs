//! Logging, traces and metrics.
//!
//! - [`logging`]: set-up and level of the log.
//! - [`requests`]: a log line and a span for each unary call; [`traces`]: sampling and export of spans.
//! - [`metrics`]: the metrics as a whole; [`families`] has them by name.
//! - [`level`]: gauges of things that exist. [`waits`]: durations. [`rpc`]: calls by method. `store` and `process`
//!   collect numbers of the store and the kernel; `certificates` has expiry times.
//! - `shown` and `text`: encoding.
//!
//! prometheus-client registers and encodes all of them. Histograms are our own, because those of prometheus-client lock a mutex
//! for each value: a message of 16 commands to the store would cost 0.8 µs in place of 35 ns.

pub(crate) mod certificates;
pub mod families;
pub mod level;
pub mod logging;
pub mod metrics;
mod process;
pub mod requests;
pub mod rpc;
mod shown;
mod store;
#[cfg(test)]
mod tests;
mod text;
pub mod traces;
pub mod waits;

pub(crate) use self::process::descriptors as open_files;
pub use self::{
    families::{Families, LOST_LOCK},
    level::{Level, Tracked},
    logging::{LogLevel, init_logging},
    metrics::Metrics,
    requests::{Followed, RequestLayer},
    traces::{CallerContext, Traces},
};
