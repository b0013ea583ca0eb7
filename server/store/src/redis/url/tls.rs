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
use crate::WatchedFiles;

/// Files (PEM) for connections with TLS. The default names none: what this machine trusts is trusted, and nothing is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The file of trusted certificate authorities, in place of those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// The certificate with which we identify ourselves where a server asks for one, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl From<Option<&Path>> for TlsFiles {
    /// Returns the files of an authority, if any, without an identity.
    fn from(ca: Option<&Path>) -> Self {
        Self {
            ca: ca.map(Into::into),
            identity: None,
        }
    }
}

impl TlsFiles {
    /// Returns whether none is named.
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

    /// Watches all files from their present state on.
    fn watch(&self) -> WatchedFiles {
        let identity = self.identity.as_ref();
        let own = identity.into_iter().flat_map(|(cert, key)| [cert, key]);
        WatchedFiles::new(self.ca.iter().chain(own).cloned())
    }
}

/// TLS settings for new connections, made of the files as they were last read. The files are looked at before each new
/// connection, of which there are few, and read again if they have changed.
pub(in crate::redis) struct TlsSettings {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    watch: WatchedFiles,
    config: Arc<ClientConfig>,
}

impl TlsSettings {
    /// Reads the files.
    pub(super) fn read(files: TlsFiles) -> Result<Self, StoreUrlError> {
        // The watch begins before the files are read, so that no change in between is missed.
        let watch = files.watch();
        let config = Arc::new(read(&files)?);
        let current = Mutex::new(Current { watch, config });
        Ok(Self { files, current })
    }

    /// Returns the settings for a new connection. Changed files that can't be used leave the settings as they are, and are read
    /// again for the next connection. The log has each reason once.
    pub(in crate::redis) fn current(&self) -> Arc<ClientConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.watch.look() {
            match read(&self.files) {
                Ok(config) => {
                    current.config = Arc::new(config);
                    current.watch.used();
                    info!("took the certificates for the store over: new connections use them");
                }
                Err(error) => {
                    if current.watch.failed(&error) {
                        warn!(
                            %error,
                            "failed to take changed certificates for the store over: new connections use those before"
                        );
                    }
                }
            }
        }
        Arc::clone(&current.config)
    }
}

impl fmt::Debug for TlsSettings {
    /// Shows the names of the files alone: the contents include a key.
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
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt},
        sync::Arc,
    };

    use super::{TlsFiles, TlsSettings};

    #[test]
    fn files_that_could_not_be_used_or_became_readable_are_read_for_the_next_connection() {
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
            let watch = &mut settings.current.lock().unwrap().watch;
            assert!(watch.look(), "the next connection reads the file again");
            watch.look_again();
        }
        fs::write(&path, &pem).unwrap();
        assert!(!Arc::ptr_eq(&second, &settings.current()));
        assert!(!settings.current.lock().unwrap().watch.look());
    }
}
