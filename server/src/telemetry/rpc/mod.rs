//! Calls by method: their number, how they ended, and the duration of unary calls.

mod layer;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use leasehold_core::time::Moment;
use leasehold_store::{
    clock,
    measure::{CALLS, Histogram},
};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use tonic::Code;

pub use self::layer::{CountedBody, Counting, RpcLayer};
use super::shown::{Labels, Named, counters, gauges, times};
use crate::methods::{self, Kind, METHODS};

/// gRPC's names of the status codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Counts of all methods.
#[derive(Debug)]
pub(super) struct Rpcs([OfMethod; METHODS.len()]);

#[derive(Debug, Default)]
struct OfMethod {
    in_flight: AtomicI64,
    ended: [AtomicU64; CODES.len()],
    /// Created when the first call of the method ends with the code, because most combinations never occur.
    seconds: [OnceLock<Histogram>; CODES.len()],
}

/// A call in flight. It ends when this is dropped, as cancelled unless another code is known.
#[derive(Debug)]
pub(super) struct Call {
    rpcs: Arc<Rpcs>,
    method: usize,
    since: Moment,
    code: Option<Code>,
}

impl Default for Rpcs {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OfMethod::default()))
    }
}

impl Rpcs {
    fn begin(self: &Arc<Self>, path: &str) -> Call {
        let method = methods::place(path);
        self.0[method].in_flight.fetch_add(1, Ordering::Relaxed);
        Call {
            rpcs: Arc::clone(self),
            method,
            since: clock::now(),
            code: None,
        }
    }
}

impl Call {
    /// Notes how the call ended. The first code counts.
    fn ended(&mut self, code: Code) {
        self.code.get_or_insert(code);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let of_method = &self.rpcs.0[self.method];
        let code = self.code.unwrap_or(Code::Cancelled) as usize;
        of_method.in_flight.fetch_sub(1, Ordering::Relaxed);
        of_method.ended[code].fetch_add(1, Ordering::Relaxed);
        if METHODS[self.method].kind == Kind::Unary {
            let seconds = of_method.seconds[code].get_or_init(|| Histogram::of_times(CALLS));
            seconds.observe_time(self.since.until(clock::now()), 1);
        }
    }
}

/// Collects the counts at each scrape.
#[derive(Debug)]
pub(super) struct RpcCollector(pub(super) Arc<Rpcs>);

impl RpcCollector {
    /// Returns each method with its counts.
    fn methods(&self) -> impl Iterator<Item = (Labels<2>, &OfMethod)> {
        METHODS.iter().zip(&self.0.0).map(|(method, of_method)| {
            let labels = [("service", method.service), ("method", method.name)];
            (labels, of_method)
        })
    }
}

impl Collector for RpcCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let in_flight = self.methods().map(|(labels, of_method)| {
            let in_flight = of_method.in_flight.load(Ordering::Relaxed);
            (labels, in_flight)
        });
        let named = Named {
            name: "rpcs_in_flight",
            help: "Calls and streams that are under way.",
        };
        gauges(&mut encoder, named, in_flight)?;
        let with_code = |[service, method]: Labels<2>, code| [service, method, ("code", code)];
        let ended = self.methods().flat_map(|(labels, of_method)| {
            let ended = CODES.into_iter().zip(&of_method.ended);
            let ended = ended.map(|(code, number)| (code, number.load(Ordering::Relaxed)));
            ended
                // Successes are shown from the start, so that a method's first failure can be compared with them.
                .filter(|(code, number)| *number > 0 || *code == "OK")
                .map(move |(code, number)| (with_code(labels, code), number))
        });
        let named = Named {
            name: "rpcs",
            help: "Calls and streams that have ended.",
        };
        counters(&mut encoder, named, ended)?;
        let seconds = self.methods().flat_map(|(labels, of_method)| {
            let seconds = CODES.into_iter().zip(&of_method.seconds);
            seconds.filter_map(move |(code, seconds)| {
                Some((with_code(labels, code), seconds.get()?.snapshot()))
            })
        });
        let named = Named {
            name: "rpc",
            help: "Time that calls with one answer took.",
        };
        times(&mut encoder, named, seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_the_order_of_their_numbers() {
        for (number, name) in (0..).zip(CODES) {
            let code = format!("{:?}", Code::from_i32(number));
            assert_eq!(code.to_uppercase(), name.replace('_', ""));
        }
    }
}
