//! Expiry times of certificates, as a metric.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::shown::{Named, gauges};

/// Purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It identifies the coordinator to clients of the gRPC port.
    Server,
    /// It identifies the coordinator to clients of the admin port.
    Admin,
    /// It identifies the coordinator to the store.
    Store,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Server, Self::Admin, Self::Store];

    /// Returns its name in the metric.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Admin => "admin",
            Self::Store => "store",
        }
    }
}

/// Expiry time that stands for no certificate.
const NONE: i64 = i64::MIN;

/// Expiry times of the certificates in force. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Certificates(Arc<[AtomicI64; Purpose::ALL.len()]>);

impl Default for Certificates {
    fn default() -> Self {
        Self(Arc::new(Purpose::ALL.map(|_| AtomicI64::new(NONE))))
    }
}

impl Certificates {
    /// Sets the expiry time of a certificate, or `None` if it is unknown.
    pub(crate) fn note(&self, purpose: Purpose, expires: Option<SystemTime>) {
        let since = expires.and_then(|expires| expires.duration_since(UNIX_EPOCH).ok());
        let seconds = since.and_then(|since| i64::try_from(since.as_secs()).ok());
        self.0[purpose as usize].store(seconds.unwrap_or(NONE), Ordering::Relaxed);
    }
}

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let series = Purpose::ALL.into_iter().filter_map(|purpose| {
            let seconds = self.0[purpose as usize].load(Ordering::Relaxed);
            (seconds != NONE).then_some(([("purpose", purpose.name())], seconds))
        });
        let named = Named {
            name: "tls_certificate_expiry_timestamp_seconds",
            help: "When the first certificate of the chain that is shown expires, in seconds since 1970.",
        };
        gauges(&mut encoder, named, series)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Purpose;
    use crate::telemetry::Metrics;

    #[test]
    fn certificates_that_are_not_in_force_are_not_shown() {
        let metrics = Metrics::default();
        let certificates = metrics.certificates.clone();
        let shown = || metrics.encode_for_prometheus();
        let series = "leasehold_tls_certificate_expiry_timestamp_seconds{";
        assert!(!shown().contains(series), "{}", shown());
        let then = std::time::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
        certificates.note(Purpose::Store, Some(then));
        let line = format!("{series}purpose=\"store\"}} 1900000000\n");
        assert!(shown().contains(&line), "{}", shown());
        certificates.note(Purpose::Store, None);
        assert!(!shown().contains(series), "{}", shown());
    }
}
