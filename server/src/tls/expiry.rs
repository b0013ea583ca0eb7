//! Warnings of certificates that are about to expire.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Tls;
use crate::{
    config::Config,
    files::FileWatch,
    telemetry::certificates::{Certificates, Purpose},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time before its expiry from which on a certificate is reported. The alert `LeaseholdCertificateExpires` has the same.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Returns when the first of these certificates expires; `None` if none of them can be read.
pub(super) fn earliest(chain: &[CertificateDer<'_>]) -> Option<SystemTime> {
    chain.iter().filter_map(over_at).min()
}

/// Returns when a certificate expires, if it can be read.
pub(crate) fn over_at(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    // A certificate that expired before 1970 has expired in any case.
    let seconds = certificate.validity().not_after.timestamp();
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// State of a certificate at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing to report.
    Good,
    /// It expires within this many whole days.
    Soon(u64),
    /// It has expired.
    Over,
}

impl Standing {
    fn of(expires: SystemTime, now: SystemTime) -> Self {
        match expires.duration_since(now) {
            Ok(left) if left >= SOON => Self::Good,
            Ok(left) if !left.is_zero() => Self::Soon(left.as_secs() / DAY.as_secs()),
            _ => Self::Over,
        }
    }
}

/// Keeps the metric in step with the certificates in force, those of `tls` and the one for the store, and logs a warning for a
/// loaded one that expires soon. This notes the present certificates, and the returned future notes their changes. Must be called
/// within a Tokio runtime.
pub(crate) fn follow_expiry(
    tls: Option<&Tls>,
    config: &Config,
    certificates: Certificates,
) -> impl Future<Output = ()> + Send + use<> {
    let mut of_ports = OfPorts {
        tls: tls.cloned(),
        serves_admin: config.admin_tls,
        certificates: certificates.clone(),
    };
    of_ports.note();
    let mut of_store = config.store_cert.clone().map(|path| {
        // The watch begins before the file is read, so that it misses no change.
        let watch = FileWatch::new([path.clone()]);
        OfStore {
            path,
            watch,
            certificates,
        }
    });
    if let Some(of_store) = &mut of_store {
        of_store.note();
    }
    async move {
        let ports = of_ports.follow();
        let store = async {
            match &mut of_store {
                Some(of_store) => of_store.follow().await,
                None => std::future::pending().await,
            }
        };
        tokio::join!(ports, store);
    }
}

/// Certificate of the coordinator's ports.
struct OfPorts {
    tls: Option<Tls>,
    serves_admin: bool,
    certificates: Certificates,
}

impl OfPorts {
    fn note(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        let expires = tls.expires();
        self.certificates.note(Purpose::Server, expires);
        if self.serves_admin {
            self.certificates.note(Purpose::Admin, expires);
        }
        tell("tls-cert", expires);
    }

    async fn follow(&mut self) {
        loop {
            match &mut self.tls {
                Some(tls) => tls.changed().await,
                None => std::future::pending().await,
            }
            self.note();
        }
    }
}

/// Certificate shown to the store: the file's present contents, because each new connection reads it.
struct OfStore {
    path: PathBuf,
    watch: FileWatch,
    certificates: Certificates,
}

impl OfStore {
    fn note(&mut self) {
        // The next connection with it reports an unreadable file.
        let Some(expires) = in_file(&self.path) else {
            self.watch.look_again();
            return;
        };
        self.certificates.note(Purpose::Store, Some(expires));
        tell("store-cert", Some(expires));
    }

    async fn follow(&mut self) {
        loop {
            self.watch.changed().await;
            self.note();
        }
    }
}

fn in_file(path: &Path) -> Option<SystemTime> {
    let pem = std::fs::read(path).ok()?;
    let chain: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    earliest(&chain.ok()?)
}

fn tell(setting: &'static str, expires: Option<SystemTime>) {
    let Some(expires) = expires else {
        return tracing::warn!(setting, "loaded a certificate whose expiry can't be read");
    };
    let until = humantime::format_rfc3339_seconds(expires);
    match Standing::of(expires, SystemTime::now()) {
        Standing::Good => {}
        Standing::Soon(days) => tracing::warn!(
            setting,
            %until,
            days,
            "a certificate in force expires soon: renew it in time"
        ),
        Standing::Over => tracing::error!(
            setting,
            %until,
            "a certificate in force has expired: peers that check it refuse to connect until it is renewed"
        ),
    }
}

/// Returns a warning for each certificate that the configuration names and that expires soon, or has expired. Skips certificates
/// that can't be read.
pub fn check_expiry(config: &Config) -> Vec<String> {
    let named = [
        ("tls-cert", &config.tls_cert),
        ("store-cert", &config.store_cert),
    ];
    let told = named.into_iter().filter_map(|(setting, path)| {
        let path = path.as_ref()?;
        let expires = in_file(path)?;
        let until = humantime::format_rfc3339_seconds(expires);
        let path = path.display();
        match Standing::of(expires, SystemTime::now()) {
            Standing::Good => None,
            Standing::Soon(days) => Some(format!(
                "{path} ({setting}) expires at {until}, in less than {} days: renew it in time",
                days + 1
            )),
            Standing::Over => Some(format!(
                "{path} ({setting}) expired at {until}: peers that check it refuse to connect until it is renewed"
            )),
        }
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::time::{Duration, UNIX_EPOCH};

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::pki_types::CertificateDer;

    use super::{DAY, SOON, Standing, earliest};

    fn until(year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_chain_is_over_with_the_first_of_it() {
        let year_2033 = UNIX_EPOCH + Duration::from_secs(1_988_150_400);
        let chain = [until(2040), until(2033), until(2035)];
        assert_eq!(earliest(&chain), Some(year_2033));
        let unreadable = CertificateDer::from(vec![0; 3]);
        assert_eq!(
            earliest(&[unreadable.clone(), until(2033)]),
            Some(year_2033)
        );
        assert_eq!(earliest(&[unreadable]), None);
        assert_eq!(earliest(&[]), None);
    }

    #[test]
    fn two_weeks_before_it_is_time_to_say_so() {
        let over = UNIX_EPOCH + SOON * 10;
        let second = Duration::from_secs(1);
        for (before, standing) in [
            (SOON * 2, Standing::Good),
            (SOON, Standing::Good),
            (SOON - second, Standing::Soon(13)),
            (DAY, Standing::Soon(1)),
            (second, Standing::Soon(0)),
            (Duration::ZERO, Standing::Over),
        ] {
            assert_eq!(Standing::of(over, over - before), standing, "{before:?}");
        }
        assert_eq!(Standing::of(over, over + second), Standing::Over);
    }
}
