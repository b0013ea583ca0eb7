//! Expiry of certificates: the metric, and warnings in time.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures_util::future::{FutureExt, OptionFuture};
use leasehold_store::certificates::{self, earliest};

use super::Tls;
use crate::{
    config::Config,
    follow::FileWatch,
    telemetry::certificates::{Certificates, Purpose},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time before its expiry from which on a certificate causes warnings. The alert `LeaseholdCertificateExpires` uses the same.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// State of a certificate at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It does not expire soon.
    Good,
    /// It expires in so many whole days.
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

/// Keeps the metric in step with the certificates in force, those of `tls` and the one for the store, and warns in the log when
/// a certificate that expires soon is taken over. The present certificates are noted when this returns, later ones by the future.
/// Must be called within a Tokio runtime.
pub(crate) fn follow_expiry(
    tls: Option<&Tls>,
    config: &Config,
    certificates: Certificates,
) -> impl Future<Output = ()> + Send + use<> {
    let ports = tls.cloned();
    let ports = ports.map(|tls| follow_ports(tls, config.admin_tls, certificates.clone()));
    let store = config.store_cert.clone();
    let store = store.map(|path| follow_store(path, certificates));
    let mut followed = Box::pin(async {
        tokio::join!(OptionFuture::from(ports), OptionFuture::from(store));
    })
    .fuse();
    let _ = (&mut followed).now_or_never();
    followed
}

/// Follows the certificate of the coordinator's own ports.
async fn follow_ports(mut tls: Tls, serves_admin: bool, certificates: Certificates) {
    loop {
        let expires = tls.expires();
        certificates.note(Purpose::Server, expires);
        if serves_admin {
            certificates.note(Purpose::Admin, expires);
        }
        report("tls-cert", expires);
        tls.changed().await;
    }
}

/// Follows the certificate for the store. The file is what is in force, because each new connection reads it.
async fn follow_store(path: PathBuf, certificates: Certificates) {
    let mut watch = FileWatch::new([path.clone()]);
    loop {
        match in_file(&path) {
            Some(expires) => {
                certificates.note(Purpose::Store, Some(expires));
                report("store-cert", Some(expires));
            }
            // The next connection reports why the file can't be read.
            None => watch.files.look_again(),
        }
        watch.changed().await;
    }
}

fn in_file(path: &Path) -> Option<SystemTime> {
    earliest(&certificates::in_file(path)?)
}

/// Warns in the log of a certificate that expires soon, or has expired.
fn report(setting: &'static str, expires: Option<SystemTime>) {
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

/// Returns a warning for each certificate of the configuration that expires soon, or has expired. Ignores those that can't be
/// read.
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
    use std::time::{Duration, UNIX_EPOCH};

    use super::{DAY, SOON, Standing};

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
