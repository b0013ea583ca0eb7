//! Expiry times of certificates, as a metric.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, family::Family, gauge::Gauge},
};

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
    /// Returns its name in the metric.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Admin => "admin",
            Self::Store => "store",
        }
    }
}

/// Expiry times of the certificates in force. The metric is shown even while there are none. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates(Family<[(&'static str, &'static str); 1], Gauge>);

impl Certificates {
    /// Sets the expiry time of a certificate, or `None` if it is unknown.
    pub(crate) fn note(&self, purpose: Purpose, expires: Option<SystemTime>) {
        let labels = [("purpose", purpose.name())];
        let since = expires.and_then(|expires| expires.duration_since(UNIX_EPOCH).ok());
        if let Some(seconds) = since.and_then(|since| i64::try_from(since.as_secs()).ok()) {
            self.0.get_or_create(&labels).set(seconds);
        } else {
            self.0.remove(&labels);
        }
    }
}

impl Certificates {
    /// Returns the expiry time of each certificate in force, with its purpose.
    pub(crate) fn noted(&self) -> Vec<(&'static str, SystemTime)> {
        let purposes = [Purpose::Server, Purpose::Admin, Purpose::Store];
        let noted = purposes.into_iter().filter_map(|purpose| {
            let seconds = self.0.get(&[("purpose", purpose.name())])?.get();
            let since = Duration::from_secs(u64::try_from(seconds).ok()?);
            Some((purpose.name(), UNIX_EPOCH + since))
        });
        noted.collect()
    }
}

impl EncodeMetric for Certificates {
    fn encode(&self, encoder: MetricEncoder) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        EncodeMetric::metric_type(&self.0)
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
        assert_eq!(certificates.noted(), [("store", then)]);
        certificates.note(Purpose::Store, None);
        assert_eq!(certificates.noted(), []);
        assert!(!shown().contains(series), "{}", shown());
    }
}
