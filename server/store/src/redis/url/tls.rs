//! How the certificates of `rediss://` servers are checked.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::StoreUrlError;

/// Trusts what is signed by a certificate of the PEM file `ca`, or, without one, by an authority that this machine trusts.
/// The file is read here, once.
pub(super) fn tls_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, StoreUrlError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => add_ca_file(&mut roots, path)?,
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(StoreUrlError::NoSystemCa);
            }
        }
    }
    // The provider is named, so that no default one needs to be installed before a URL can be parsed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn add_ca_file(roots: &mut RootCertStore, path: &Path) -> Result<(), StoreUrlError> {
    let file = path.display().to_string();
    let pem = match std::fs::read(path) {
        Ok(pem) => pem,
        Err(source) => return Err(StoreUrlError::CaUnreadable { file, source }),
    };
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let added = match certificate {
            Ok(certificate) => roots.add(certificate).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(detail) = added {
            return Err(StoreUrlError::CaUnusable { file, detail });
        }
    }
    if roots.is_empty() {
        return Err(StoreUrlError::CaUnusable {
            file,
            detail: "it has no CERTIFICATE section".to_owned(),
        });
    }
    Ok(())
}
