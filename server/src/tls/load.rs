//! Certificates, keys and revocation lists, from files.

use std::{
    fmt::{self, Display},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use leasehold_store::certificates::earliest;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{
        NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::config::{ClientAuth, Config, unreadable};

/// Protocol of gRPC.
const HTTP2: &[u8] = b"h2";
/// Protocol of the admin port, and of clients of the API that can't use HTTP/2.
const HTTP1: &[u8] = b"http/1.1";

/// Settings from the files: those of each port, and the trust in clients.
pub(super) struct Loaded {
    /// Configuration of the gRPC port.
    pub(super) grpc: Arc<ServerConfig>,
    /// Configuration of the admin port.
    pub(super) admin: Arc<ServerConfig>,
    /// The verifier of clients' certificates, if clients are asked for any.
    pub(super) clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Time at which the first certificate of the served chain expires, if known.
    pub(super) expires: Option<SystemTime>,
}

impl fmt::Debug for Loaded {
    /// Shows nothing, because it holds keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").finish_non_exhaustive()
    }
}

/// Reads all files that the `tls-…` settings name, without using them. Returns every fault: a file that can't be read or is
/// malformed, and a key that is not the certificate's. Reads a file even if another setting that it needs is missing.
#[must_use]
pub fn check(config: &Config) -> Vec<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut faults = Vec::new();
    let chain = config.tls_cert.as_deref().map(|cert| (cert, chain(cert)));
    let private = config.tls_key.as_deref().map(|key| (key, private(key)));
    match (chain, private) {
        (Some((cert, Ok(chain))), Some((key, Ok(private)))) => {
            faults.extend(pair((cert, chain), (key, private), &provider).err());
        }
        (chain, private) => {
            faults.extend(chain.and_then(|(_, chain)| chain.err()));
            faults.extend(private.and_then(|(_, private)| private.err()));
        }
    }
    let roots = config.tls_client_ca.as_deref().map(|ca| (ca, roots(ca)));
    let lists = config.tls_client_crl.as_deref().map(lists).transpose();
    match (roots, lists) {
        (Some((ca, Ok(roots))), Ok(lists)) => {
            faults.extend(verifier(config, (ca, roots), lists, &provider).err());
        }
        (roots, lists) => {
            faults.extend(roots.and_then(|(_, roots)| roots.err()));
            faults.extend(lists.err());
        }
    }
    faults
}

/// Returns the files that the settings name.
pub(super) fn files(config: &Config) -> Vec<PathBuf> {
    let files = [
        &config.tls_cert,
        &config.tls_key,
        &config.tls_client_ca,
        &config.tls_client_crl,
    ];
    files.into_iter().flatten().cloned().collect()
}

/// Reads the files. Returns `None` if the settings name no certificate.
pub(super) fn load(config: &Config) -> Result<Option<Loaded>, String> {
    let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) else {
        return Ok(None);
    };
    // Names the provider, so that no default one needs to be installed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certified = pair((cert, chain(cert)?), (key, private(key)?), &provider)?;
    let expires = earliest(&certified.cert);
    let identity = Arc::new(SingleCertAndKey::from(certified));
    let clients = match &config.tls_client_ca {
        Some(ca) => {
            let lists = config.tls_client_crl.as_deref().map(lists).transpose()?;
            Some(verifier(config, (ca, roots(ca)?), lists, &provider)?)
        }
        None => None,
    };
    let server =
        |clients: Option<Arc<dyn ClientCertVerifier>>, protocols: &[&[u8]]| -> Result<_, String> {
            let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
                .map_err(|error| unusable("tls-cert", cert, error))?;
            let builder = match clients {
                Some(clients) => builder.with_client_cert_verifier(clients),
                None => builder.with_no_client_auth(),
            };
            let mut server = builder.with_cert_resolver(Arc::clone(&identity) as _);
            server.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
            Ok(Arc::new(server))
        };
    Ok(Some(Loaded {
        grpc: server(clients.clone(), &[HTTP2, HTTP1])?,
        admin: server(None, &[HTTP1])?,
        clients,
        expires,
    }))
}

/// Reads the certificates of the file `tls-cert`.
fn chain(cert: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    all("tls-cert", cert, "CERTIFICATE")
}

/// Reads the key of the file `tls-key`.
fn private(key: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read("tls-key", key)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        let detail = match error {
            pem::Error::NoItemsFound if holds(&pem, "ENCRYPTED PRIVATE KEY") => {
                "its key is encrypted; expected one without a passphrase, in a file that only the coordinator's user may read".to_owned()
            }
            pem::Error::NoItemsFound => "it has no PRIVATE KEY section".to_owned(),
            other => other.to_string(),
        };
        unusable("tls-key", key, detail)
    })
}

/// Combines a chain with its key.
fn pair(
    (cert, chain): (&Path, Vec<CertificateDer<'static>>),
    (key, private): (&Path, PrivateKeyDer<'static>),
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    CertifiedKey::from_der(chain, private, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => unusable(
            "tls-key",
            key,
            format!(
                "it is not the key of the first certificate of {} (tls-cert)",
                cert.display()
            ),
        ),
        rustls::Error::InvalidCertificate(_) => unusable("tls-cert", cert, error),
        _ => unusable("tls-key", key, error),
    })
}

/// Reads the authorities of the file `tls-client-ca`.
fn roots(ca: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in all::<CertificateDer<'static>>("tls-client-ca", ca, "CERTIFICATE")? {
        roots
            .add(certificate)
            .map_err(|error| unusable("tls-client-ca", ca, error))?;
    }
    Ok(roots)
}

/// Reads the revocation lists of the file `tls-client-crl`.
fn lists(crl: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    all("tls-client-crl", crl, "X509 CRL")
}

fn verifier(
    config: &Config,
    (ca, roots): (&Path, RootCertStore),
    lists: Option<Vec<CertificateRevocationListDer<'static>>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .with_crls(lists.unwrap_or_default());
    if config.client_auth() == ClientAuth::Optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| {
        let (setting, path) = match (&error, &config.tls_client_crl) {
            (VerifierBuilderError::InvalidCrl(_), Some(crl)) => ("tls-client-crl", crl.as_path()),
            _ => ("tls-client-ca", ca),
        };
        unusable(setting, path, error)
    })
}

/// Reads all sections of one kind; there must be at least one.
fn all<T: PemObject>(
    setting: &'static str,
    path: &Path,
    section: &'static str,
) -> Result<Vec<T>, String> {
    let pem = read(setting, path)?;
    let found: Result<Vec<T>, _> = T::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(
            setting,
            path,
            format!("it has no {section} section"),
        )),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(setting, path, error)),
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        let remedy = "check the path and that the coordinator's user may read it";
        unreadable(setting, path, None, format!("{error}; {remedy}"))
    })
}

fn holds(pem: &[u8], section: &str) -> bool {
    String::from_utf8_lossy(pem).contains(&format!("-----BEGIN {section}-----"))
}

fn unusable(setting: &str, path: &Path, fault: impl Display) -> String {
    format!("failed to use {} ({setting}): {fault}", path.display())
}
