//! Identity that a client's certificate shows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leasehold_store::certificates::expiry;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::name::check_name;
use crate::tls::ClientTrust;

/// Certificate of a connection's peer, which the handshake accepted.
#[derive(Debug)]
pub(crate) struct Shown {
    chain: Arc<[CertificateDer<'static>]>,
    /// The identity's name.
    pub(super) name: Arc<str>,
    /// Time at which it, or one between it and its authority, expires.
    pub(super) expires: SystemTime,
    /// The number of the last policy that accepted it; 0 is none.
    good_under: AtomicU64,
}

impl Shown {
    /// Reads a chain, the peer's own certificate first; returns `None` if it names no identity.
    pub(crate) fn new(chain: Arc<[CertificateDer<'static>]>) -> Option<Self> {
        let (own, between) = chain.split_first()?;
        let (name, own_is_over) = named(own)?;
        let now = SystemTime::now();
        // A certificate that had expired at the handshake was not needed for it.
        let between = between.iter().filter_map(expiry).filter(|at| *at > now);
        let expires = between.fold(own_is_over, SystemTime::min);
        Some(Self {
            chain,
            name: format!("cert:{name}").into(),
            expires,
            good_under: AtomicU64::new(0),
        })
    }

    /// Returns the chain, the peer's own certificate first.
    pub(crate) fn chain(&self) -> Arc<[CertificateDer<'static>]> {
        Arc::clone(&self.chain)
    }

    /// Returns whether it would be accepted now. The check is costly and the same for all streams of the connection, so it runs
    /// once under each policy.
    pub(super) fn is_good(&self, trust: &ClientTrust, policy: u64) -> bool {
        if self.good_under.load(Ordering::Relaxed) == policy {
            return true;
        }
        let is_good = trust.still_trusted(&self.chain);
        if is_good {
            self.good_under.store(policy, Ordering::Relaxed);
        }
        is_good
    }
}

/// Returns the name in a certificate, and its expiry: the first URI among its alternative names, or the first DNS name, or the
/// first e-mail address, or the common name of its subject. `None` if it has no valid name.
fn named(certificate: &CertificateDer<'_>) -> Option<(String, SystemTime)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let alternative = alternative.map_or(&[][..], |names| &names.value.general_names[..]);
    let ranked = alternative.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some((0, *uri)),
        GeneralName::DNSName(dns) => Some((1, *dns)),
        GeneralName::RFC822Name(address) => Some((2, *address)),
        _ => None,
    });
    // The first one of the lowest rank.
    let name = match ranked.min_by_key(|(rank, _)| *rank) {
        Some((_, name)) => name,
        None => certificate
            .subject()
            .iter_common_name()
            .next()?
            .as_str()
            .ok()?,
    };
    check_name(name).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some((name.to_owned(), UNIX_EPOCH + Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use rcgen::{CertificateParams, DnType, KeyPair, SanType};
    use rustls::pki_types::CertificateDer;

    use super::{Shown, named};

    fn certificate(
        common: &str,
        names: Vec<SanType>,
        until: SystemTime,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.remove(DnType::CommonName);
        if !common.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names = names;
        params.not_after = until.into();
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn it_counts_no_longer_than_those_between_it_and_its_authority() {
        // Certificates have whole seconds.
        let (hour, now) = (60 * 60, SystemTime::now());
        let now = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        for (chain, expires) in [
            (vec![now + hour], now + hour),
            (vec![now + hour, now + 2 * hour], now + hour),
            (vec![now + 2 * hour, now + 3 * hour, now + hour], now + hour),
            // It was let in without that one.
            (vec![now + 2 * hour, now - hour], now + 2 * hour),
            (vec![now - hour, now + hour], now - hour),
        ] {
            let chain = chain.into_iter();
            let chain = chain.map(|until| certificate("cn", Vec::new(), at(until)));
            let shown = Shown::new(chain.collect()).unwrap();
            assert_eq!(shown.expires, at(expires));
        }
    }

    #[test]
    fn the_first_of_the_strongest_kind_is_the_name() {
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
        let mail = |text: &str| SanType::Rfc822Name(text.try_into().unwrap());
        let address = || SanType::IpAddress("192.0.2.7".parse().unwrap());
        let over = UNIX_EPOCH + Duration::from_secs(1_893_456_000);
        let uris = vec![dns("a"), mail("b@c"), uri("spiffe://y"), uri("spiffe://z")];
        let hosts = vec![address(), mail("b@c"), dns("a"), dns("b")];
        for (common, names, expected) in [
            ("cn", uris, Some("spiffe://y")),
            ("cn", hosts, Some("a")),
            ("cn", vec![address(), mail("b@c")], Some("b@c")),
            ("cn", vec![address()], Some("cn")),
            ("cn", vec![], Some("cn")),
            ("", vec![], None),
            ("a\nb", vec![], None),
        ] {
            let found = named(&certificate(common, names, over));
            assert_eq!(found, expected.map(|name| (name.to_owned(), over)));
        }
        assert_eq!(named(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
