//! TLS settings of `rediss://` connections. They are read again when their files change.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tracing::{info, warn};

use super::StoreUrlError;
use crate::Stamp;

/// Files (PEM) for connections with TLS. The default names none: what this machine trusts is trusted, and nothing is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Whose certificates are trusted, in place of the authorities that this machine trusts.
    pub ca: Option<PathBuf>,
    /// The certificate with which we identify ourselves where a server asks for one, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl From<Option<&Path>> for TlsFiles {
    /// An authority, if any, and no identity.
    fn from(ca: Option<&Path>) -> Self {
        Self {
            ca: ca.map(Into::into),
            identity: None,
        }
    }
}

impl TlsFiles {
    /// Whether none is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the files, and keeps nothing of them. Returns every fault: a file that can't be read or does not hold what it
    /// should, a key that is not the certificate's, and a machine without authorities where no file names any.
    #[must_use]
    pub fn check(&self) -> Vec<StoreUrlError> {
        let mut faults: Vec<_> = roots(self.ca.as_deref()).err().into_iter().collect();
        let Some((cert, key)) = &self.identity else {
            return faults;
        };
        match (chain(cert), private(key)) {
            // A key and its certificate are compared whoever is trusted.
            (Ok(chain), Ok(private)) => {
                let identity = (chain, (key.as_path(), private));
                faults.extend(config(RootCertStore::empty(), Some(identity)).err());
            }
            (chain, private) => {
                faults.extend(chain.err());
                faults.extend(private.err());
            }
        }
        faults
    }

    fn all(&self) -> impl Iterator<Item = &Path> {
        let identity = self.identity.as_ref();
        let own = identity.into_iter().flat_map(|(cert, key)| [cert, key]);
        self.ca.iter().chain(own).map(PathBuf::as_path)
    }

    /// What tells one state of the files from another.
    fn look(&self) -> Vec<Option<Stamp>> {
        self.all().map(Stamp::of).collect()
    }
}

/// What connections are set up with: the files as they were when they were read last. They are looked at for each new connection,
/// of which there are few, and read again if they are others.
pub(in crate::redis) struct TlsSettings {
    files: TlsFiles,
    now: Mutex<Now>,
}

struct Now {
    /// The files that it was made of.
    seen: Vec<Option<Stamp>>,
    config: Arc<ClientConfig>,
    /// Why others that came since could not be used.
    refused: Option<String>,
}

impl TlsSettings {
    /// Reads the files.
    pub(super) fn read(files: TlsFiles) -> Result<Self, StoreUrlError> {
        // Before they are read, so that a change in between is seen.
        let seen = files.look();
        let config = Arc::new(read(&files)?);
        let refused = None;
        Ok(Self {
            files,
            now: Mutex::new(Now {
                seen,
                config,
                refused,
            }),
        })
    }

    /// How to set a new connection up. Files that have changed and can't be used leave what was there, and are tried again for the
    /// next connection; why is told once.
    pub(in crate::redis) fn current(&self) -> Arc<ClientConfig> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.files.look();
        if seen != now.seen {
            match read(&self.files) {
                Ok(config) => {
                    *now = Now {
                        seen,
                        config: Arc::new(config),
                        refused: None,
                    };
                    info!("took the certificates for the store over: new connections use them");
                }
                Err(error) => {
                    let refused = Some(error.to_string());
                    if now.refused != refused {
                        warn!(
                            %error,
                            "failed to take changed certificates for the store over: new connections use those before"
                        );
                    }
                    now.refused = refused;
                }
            }
        }
        Arc::clone(&now.config)
    }
}

impl fmt::Debug for TlsSettings {
    /// The files alone: there is a key in what was read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

fn read(files: &TlsFiles) -> Result<ClientConfig, StoreUrlError> {
    let roots = roots(files.ca.as_deref())?;
    let identity = match &files.identity {
        Some((cert, key)) => Some((chain(cert)?, (key.as_path(), private(key)?))),
        None => None,
    };
    config(roots, identity)
}

/// A chain, and its key with the file that it is from.
type Identity<'a> = (
    Vec<CertificateDer<'static>>,
    (&'a Path, PrivateKeyDer<'static>),
);

fn config(
    roots: RootCertStore,
    identity: Option<Identity<'_>>,
) -> Result<ClientConfig, StoreUrlError> {
    // The provider is named, so that no default one needs to be installed before a URL can be parsed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let Some((chain, (key, private))) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    builder
        .with_client_auth_cert(chain, private)
        .map_err(|error| {
            let detail = format!("{error}; expected the key of the certificate beside it");
            unusable(key, detail)
        })
}

/// Reads the authorities that are trusted: those of `file`, else those that this machine trusts.
fn roots(file: Option<&Path>) -> Result<RootCertStore, StoreUrlError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => add_ca_file(&mut roots, path)?,
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(StoreUrlError::NoSystemCa);
            }
        }
    }
    Ok(roots)
}

/// Reads the certificates that are shown to the store.
fn chain(cert: &Path) -> Result<Vec<CertificateDer<'static>>, StoreUrlError> {
    let pem = open(cert)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| unusable(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable(cert, "it has no CERTIFICATE section".to_owned()));
    }
    Ok(chain)
}

/// Reads the key of the first of them.
fn private(key: &Path) -> Result<PrivateKeyDer<'static>, StoreUrlError> {
    PrivateKeyDer::from_pem_slice(&open(key)?).map_err(|error| {
        let detail = format!("{error}; expected a PRIVATE KEY section without a passphrase");
        unusable(key, detail)
    })
}

fn unusable(path: &Path, detail: String) -> StoreUrlError {
    StoreUrlError::IdentityUnusable {
        file: path.display().to_string(),
        detail,
    }
}

fn open(path: &Path) -> Result<Vec<u8>, StoreUrlError> {
    std::fs::read(path).map_err(|source| StoreUrlError::FileUnreadable {
        file: path.display().to_string(),
        source,
    })
}

fn add_ca_file(roots: &mut RootCertStore, path: &Path) -> Result<(), StoreUrlError> {
    let file = path.display().to_string();
    let pem = open(path)?;
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt},
        sync::Arc,
    };

    use super::{TlsFiles, TlsSettings};

    #[test]
    fn what_could_not_be_used_is_read_for_the_next_connection_and_so_is_what_becomes_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let ca = rcgen::generate_simple_self_signed(vec!["h".to_owned()]).unwrap();
        let pem = ca.cert.pem();
        fs::write(&path, &pem).unwrap();
        let settings = TlsSettings::read(TlsFiles::from(Some(path.as_path()))).unwrap();
        let first = settings.current();
        assert!(Arc::ptr_eq(&first, &settings.current()));

        // File systems keep times in steps.
        let changed = || fs::metadata(&path).map(|file| (file.ctime(), file.ctime_nsec()));
        let before = changed().unwrap();
        while changed().unwrap() == before {
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        }
        let second = settings.current();
        assert!(!Arc::ptr_eq(&first, &second));

        fs::write(&path, "").unwrap();
        for _ in 0..2 {
            assert!(Arc::ptr_eq(&second, &settings.current()));
            let now = settings.now.lock().unwrap();
            assert_ne!(now.seen, settings.files.look());
            assert!(now.refused.is_some());
        }
        fs::write(&path, &pem).unwrap();
        assert!(!Arc::ptr_eq(&second, &settings.current()));
        assert!(settings.now.lock().unwrap().refused.is_none());
    }
}
