//! Expiry of certificates: of chains that servers show, and of files.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Returns when a certificate expires, if it can be read.
#[must_use]
pub fn expiry(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    // The precise time before 1970 does not matter.
    let seconds = certificate.validity().not_after.timestamp();
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Returns when the first of these certificates expires, or `None` if none of them can be read. A chain is of use until then.
#[must_use]
pub fn earliest(chain: &[CertificateDer<'_>]) -> Option<SystemTime> {
    chain.iter().filter_map(expiry).min()
}

/// Returns when the last of these certificates expires, or `None` if none of them can be read. A file of authorities, which has
/// the former and the next one during a change, is of use until then.
#[must_use]
pub fn latest(authorities: &[CertificateDer<'_>]) -> Option<SystemTime> {
    authorities.iter().filter_map(expiry).max()
}

/// Returns the certificates of a PEM file, or `None` if it can't be read.
#[must_use]
pub fn in_file(path: &Path) -> Option<Vec<CertificateDer<'static>>> {
    let pem = std::fs::read(path).ok()?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    certificates.ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::pki_types::CertificateDer;

    use super::{earliest, latest};

    fn until(year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_chain_ends_with_its_first_and_authorities_with_their_last() {
        let year_2033 = UNIX_EPOCH + Duration::from_secs(1_988_150_400);
        let chain = [until(2040), until(2033), until(2035)];
        assert_eq!(earliest(&chain), Some(year_2033));
        assert_eq!(latest(&[until(2030), until(2033)]), Some(year_2033));
        let unreadable = CertificateDer::from(vec![0; 3]);
        let one = [unreadable.clone(), until(2033)];
        assert_eq!([earliest(&one), latest(&one)], [Some(year_2033); 2]);
        for none in [&[unreadable][..], &[]] {
            assert_eq!([earliest(none), latest(none)], [None; 2]);
        }
    }
}
