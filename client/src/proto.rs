//! Messages and stubs of the wire API, with the conversions of their durations.

use std::time::Duration;

pub(crate) use leasehold_proto::v1;

/// Returns a duration of the wire API; `None` if it is unset or negative.
pub(crate) fn duration(wire: Option<prost_types::Duration>) -> Option<Duration> {
    wire.and_then(|wire| Duration::try_from(wire).ok())
}

/// Returns a duration for the wire API.
pub(crate) fn wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}
