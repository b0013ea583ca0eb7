//! TLS of connections: trusted authorities, and the client's own certificate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tonic::transport::Uri;

use super::files::{FromFiles, read};
use crate::error::CredentialsError;

/// Name of the protocol inside.
pub(super) const HTTP_2: &[u8] = b"h2";

/// TLS that the program asked for.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// File with the CAs of the coordinators, in place of those that the system trusts.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate to come with, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// The name in coordinators' certificates, in place of that in their URL.
    pub(crate) server_name: Option<String>,
}

/// The same, read and checked.
pub(super) struct Tls {
    config: FromFiles<Config>,
    server_name: Option<ServerName<'static>>,
}

#[derive(Clone)]
struct Config {
    config: Arc<ClientConfig>,
    /// Contents of the files that it was made of.
    sources: Arc<Vec<Vec<u8>>>,
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

impl Tls {
    pub(super) fn new(settings: &TlsSettings) -> Result<Self, CredentialsError> {
        let server_name = settings.server_name.as_deref().map(server_name);
        let system = match settings.ca {
            Some(_) => None,
            None => Some(system_roots()?),
        };
        let identity = settings.identity.as_ref();
        let paths = settings.ca.iter();
        let paths = paths.chain(identity.into_iter().flat_map(|(cert, key)| [cert, key]));
        let paths: Vec<_> = paths.cloned().collect();
        let settings = settings.clone();
        let make = move || config(&settings, system.as_ref());
        Ok(Self {
            config: FromFiles::new(paths, make)?,
            server_name: server_name.transpose()?,
        })
    }

    /// Returns the configuration for the files as they are now.
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.config.current().config
    }

    /// Returns a number that rises whenever the files have other certificates.
    pub(super) fn version(&self) -> u64 {
        self.config.version()
    }

    /// Returns the name that the certificate of the server behind this URL must have, whatever its address.
    pub(super) fn server_name(&self, uri: &Uri) -> Result<ServerName<'static>, CredentialsError> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => server_name(uri.host().unwrap_or_default()),
        }
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, CredentialsError> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| {
        let what = format!("the server name {name:?}");
        CredentialsError::invalid(what, "expected a DNS name or an IP address")
    })
}

fn system_roots() -> Result<RootCertStore, CredentialsError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!("a certificate that the system trusts can't be read: {error}");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = "there are none: name a file with those to trust";
        return Err(CredentialsError::invalid(
            "the system's CA certificates",
            why,
        ));
    }
    Ok(roots)
}

fn config(
    settings: &TlsSettings,
    system: Option<&RootCertStore>,
) -> Result<Config, CredentialsError> {
    let mut sources = Vec::new();
    let mut source = |path: &Path| {
        let bytes = read(path)?;
        sources.push(bytes.clone());
        Ok(bytes)
    };
    let mut roots = system.cloned().unwrap_or_else(RootCertStore::empty);
    if let Some(path) = &settings.ca {
        let what = || format!("the CA certificates in {}", path.display());
        for certificate in certificates(&source(path)?, &what)? {
            roots
                .add(certificate)
                .map_err(|error| CredentialsError::invalid(what(), error))?;
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialsError::invalid("the versions of TLS", error))?
        .with_root_certificates(roots);
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let what = || format!("the client certificate in {}", cert.display());
            let chain = certificates(&source(cert)?, &what)?;
            let key_bytes = source(key)?;
            let key = PrivateKeyDer::from_pem_slice(&key_bytes).map_err(|error| {
                CredentialsError::invalid(format!("the private key in {}", key.display()), error)
            })?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                CredentialsError::invalid(format!("{} with its key", what()), error)
            })?
        }
    };
    config.alpn_protocols.push(HTTP_2.to_vec());
    Ok(Config {
        config: Arc::new(config),
        sources: Arc::new(sources),
    })
}

fn certificates(
    pem: &[u8],
    what: &dyn Fn() -> String,
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| CredentialsError::invalid(what(), error))?;
    if certificates.is_empty() {
        let why = "there is no certificate in PEM in it";
        return Err(CredentialsError::invalid(what(), why));
    }
    Ok(certificates)
}
