//! Output: one JSON object for each measurement.

use leasehold_tests::load::{micros, millis, points};
use serde::Serialize;

use crate::{cycles, handoff};

/// Figures, and the rival that they belong to.
#[derive(Debug, Serialize)]
pub struct Measured<T> {
    /// The rival's name.
    pub rival: String,
    /// Its version, as it says itself or as its package is locked.
    pub version: String,
    /// The settings of the rival.
    pub settings: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: T,
}

/// Uncontended cycles.
#[derive(Debug, Serialize)]
pub struct CycleFigures {
    /// Cycles that ended within the measured time, a second.
    pub per_second: f64,
    /// Half of the cycles took no longer, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 cycles took no longer, in microseconds.
    pub p99_us: f64,
    /// The number of measured cycles.
    pub cycles: u64,
    /// The distribution: shares from 0 to at most 0.9999, and the microseconds that they did not exceed.
    pub quantiles: Vec<(f64, f64)>,
}

/// Contended hand-offs.
#[derive(Debug, Serialize)]
pub struct HandOffFigures {
    /// Half of the gaps from a release to the next grant were no longer, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 gaps were no longer, in microseconds.
    pub p99_us: f64,
    /// The longest wait, in milliseconds; 5000 is a lower bound, since it is of somebody who waited all the time.
    pub worst_wait_ms: f64,
    /// The mean of the actual holds, in milliseconds.
    pub mean_hold_ms: f64,
    /// The number of measured gaps: grants that followed a release.
    pub grants: u64,
    /// The distribution of the gaps: shares from 0 to at most 0.9999, and the microseconds that they did not exceed.
    pub quantiles: Vec<(f64, f64)>,
}

impl From<&cycles::Cycles> for CycleFigures {
    fn from(run: &cycles::Cycles) -> Self {
        Self {
            per_second: run.per_second,
            p50_us: micros(run.times.quantile(0.5)),
            p99_us: micros(run.times.quantile(0.99)),
            cycles: run.times.count(),
            quantiles: points(&run.times),
        }
    }
}

impl From<&handoff::HandOffs> for HandOffFigures {
    fn from(run: &handoff::HandOffs) -> Self {
        Self {
            p50_us: micros(run.gaps.quantile(0.5)),
            p99_us: micros(run.gaps.quantile(0.99)),
            worst_wait_ms: millis(run.worst_wait),
            mean_hold_ms: millis(run.mean_hold),
            grants: run.gaps.count(),
            quantiles: points(&run.gaps),
        }
    }
}
