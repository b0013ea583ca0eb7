//! Judgement of clients' certificates by the authorities and revocation lists in force.

use std::{future::pending, sync::Arc};

use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

use super::load::Loaded;

/// Judges clients' certificates by the authorities and revocation lists in force now. Clones share them.
///
/// The handshake has accepted a certificate already; this tells whether it would still do so. The default, of a coordinator that
/// asks for no certificates, trusts none.
#[derive(Clone, Debug, Default)]
pub struct ClientTrust {
    loaded: Option<watch::Receiver<Arc<Loaded>>>,
}

impl ClientTrust {
    pub(super) fn new(loaded: watch::Receiver<Arc<Loaded>>) -> Self {
        Self {
            loaded: Some(loaded),
        }
    }

    /// Returns whether a client with this chain (its own certificate first) would be accepted now: issued by a trusted
    /// authority, neither expired nor revoked.
    #[must_use]
    pub fn still_trusted(&self, chain: &[CertificateDer<'_>]) -> bool {
        let Some(loaded) = &self.loaded else {
            return false;
        };
        let verifier = loaded.borrow().clients.clone();
        match (verifier, chain) {
            (Some(verifier), [leaf, between @ ..]) => verifier
                .verify_client_cert(leaf, between, UnixTime::now())
                .is_ok(),
            _ => false,
        }
    }

    /// Waits until authorities or lists were read again, so that trust may have changed; for ever if they never are. Several
    /// changes may count as one. May be dropped at any point.
    pub async fn changed(&mut self) {
        if let Some(loaded) = &mut self.loaded
            && loaded.changed().await.is_ok()
        {
            return;
        }
        pending().await
    }
}
