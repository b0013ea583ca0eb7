//! Certificates that end soon, and the finding of each.

use leasehold_store::examine::facts::Topology;

use super::{cases::Case, scene::*};
use crate::{
    Check,
    Severity::{Error, Warning},
    observed::FileEnds,
};

pub(super) const CASES: &[Case] = &[
    (
        SINGLE,
        |it| status(it).certificates[0].expires = now() + DAY * 7,
        Check::CertificateEnds,
        Warning,
    ),
    (
        SINGLE,
        |it| status(it).certificates[0].expires = now() + DAY / 2,
        Check::CertificateEnds,
        Error,
    ),
    (
        SINGLE,
        |it| status(it).certificates[0].expires = now() - DAY,
        Check::CertificateEnds,
        Error,
    ),
    (
        QUORUM,
        |it| report(it).certificate_expires = Some(now() + DAY * 7),
        Check::CertificateEnds,
        Warning,
    ),
    (
        Topology::Cluster,
        |it| facts(it).standbys[1].certificate_expires = now() + DAY / 2,
        Check::CertificateEnds,
        Error,
    ),
    (
        Topology::Sentinel,
        |it| {
            let sentinel = facts(it).sentinels[2].report.as_mut().unwrap();
            sentinel.certificate_expires = Some(now() + DAY * 7);
        },
        Check::CertificateEnds,
        Warning,
    ),
    (
        SINGLE,
        |it| it.files[0].ends = FileEnds::Chain(now() + DAY * 7),
        Check::CertificateEnds,
        Warning,
    ),
    (
        SINGLE,
        |it| it.files[1].ends = FileEnds::Authorities(now() - DAY),
        Check::CertificateEnds,
        Error,
    ),
];
