//! Ends of certificates: those that coordinators have, those that the servers of the store show, and files of the program that
//! asks.

use std::time::{Duration, SystemTime};

use leasehold_store::examine::facts::Facts;

use crate::{
    check::Check,
    duration::text,
    finding::{
        Findings,
        Severity::{Error, Warning},
    },
    observed::{FileEnds, Observations},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time before its end from which on a certificate is named, as `check-config` and the alert have it.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(super) fn check(observed: &Observations, findings: &mut Findings) {
    let mut near = |subject: &str, what: &str, expires| {
        ends(observed.now, subject, what, expires, findings);
    };
    for (address, status) in observed.answers() {
        for certificate in &status.certificates {
            let what = format!("its certificate ({})", certificate.purpose);
            near(address, &what, certificate.expires);
        }
    }
    for (server, expires) in observed.store.iter().flat_map(|it| shown(&it.facts)) {
        near(server, "its certificate", expires);
    }
    for file in &observed.files {
        match file.ends {
            FileEnds::Chain(at) => near(&file.name, "the certificate in it", at),
            FileEnds::Authorities(at) => near(&file.name, "the last authority in it", at),
        }
    }
}

/// Returns the ends of the certificates that the servers of a store show.
fn shown(facts: &Facts) -> Vec<(&str, SystemTime)> {
    let servers = facts.servers.iter().filter_map(|it| {
        let report = it.report.as_ref().ok()?;
        Some((it.server.as_str(), report.certificate_expires?))
    });
    let standbys = facts.standbys.iter();
    let standbys = standbys.map(|it| (it.server.as_str(), it.certificate_expires));
    let sentinels = facts.sentinels.iter().filter_map(|it| {
        let report = it.report.as_ref().ok()?;
        Some((it.sentinel.as_str(), report.certificate_expires?))
    });
    servers.chain(standbys).chain(sentinels).collect()
}

/// Names a certificate that expires soon, or has expired.
fn ends(
    now: SystemTime,
    subject: &str,
    certificate: &str,
    expires: SystemTime,
    findings: &mut Findings,
) {
    let (severity, when) = match expires.duration_since(now) {
        Ok(left) if left >= SOON => return,
        Ok(left) if left >= DAY => (Warning, format!("expires in {}", text(left))),
        Ok(left) => (Error, format!("expires in {}", text(left))),
        Err(over) => (Error, format!("expired {} ago", text(over.duration()))),
    };
    let what = format!("{certificate} {when}");
    findings.add(severity, Check::CertificateEnds, subject, what);
}
