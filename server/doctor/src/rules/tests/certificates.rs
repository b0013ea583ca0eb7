//! Certificates that end soon, and the finding of each.

use super::*;

pub(super) const CASES: &[Case] = &[
    (SINGLE, Check::CertificateEnds, Warning, |it| {
        status(it).certificates[0].expires = now() + DAY * 7
    }),
    (SINGLE, Check::CertificateEnds, Error, |it| {
        status(it).certificates[0].expires = now() + DAY / 2
    }),
    (SINGLE, Check::CertificateEnds, Error, |it| {
        status(it).certificates[0].expires = now() - DAY
    }),
    (QUORUM, Check::CertificateEnds, Warning, |it| {
        report(it).certificate_expires = Some(now() + DAY * 7)
    }),
    (Topology::Cluster, Check::CertificateEnds, Error, |it| {
        facts(it).standbys[1].certificate_expires = now() + DAY / 2
    }),
    (Topology::Sentinel, Check::CertificateEnds, Warning, |it| {
        let sentinel = facts(it).sentinels[2].report.as_mut().unwrap();
        sentinel.certificate_expires = Some(now() + DAY * 7);
    }),
    (SINGLE, Check::CertificateEnds, Warning, |it| {
        it.files[0].ends = FileEnds::Chain(now() + DAY * 7)
    }),
    (SINGLE, Check::CertificateEnds, Error, |it| {
        it.files[1].ends = FileEnds::Authorities(now() - DAY)
    }),
];
