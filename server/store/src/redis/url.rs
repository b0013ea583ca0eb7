//! The address of a Redis server, parsed once from `--store` and `--store-ca`.
//!
//! A store URL holds a password, and a malformed one may hold pieces of it anywhere (an unencoded `/`, `#`, `?` or `@`
//! in a password moves the rest of it into the path, the fragment, the query or the host). So no error here repeats
//! what was written, but for the scheme and the name of the CA file.

use std::{fmt, io, path::Path, sync::Arc};

use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use thiserror::Error;
use url::{Host, Url};

/// The port of a store URL that names none.
const DEFAULT_PORT: u16 = 6379;

/// The largest database number that Redis can be configured for.
const MAX_DATABASE: u32 = i32::MAX as u32;

/// Why a store URL was refused. No variant repeats a part of the URL that could hold a piece of its password.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// It isn't a URL at all.
    #[error(
        "the store URL cannot be read ({0}); write redis://[user[:password]@]host[:port][/database], and in a user or \
         password percent-encode every character that is not a letter or digit (`/` is %2F, `#` is %23, `@` is %40)"
    )]
    Malformed(#[source] url::ParseError),
    /// It has a tab, a line break or another control character, often the newline at the end of a file.
    #[error(
        "the store URL has a line break or another control character in it; remove it, or percent-encode it"
    )]
    ControlCharacter,
    /// The scheme is none that this store speaks.
    #[error("the store URL begins with `{scheme}:`; write redis:// or, for TLS, rediss://")]
    Scheme {
        /// What the URL begins with.
        scheme: String,
    },
    /// There is no host in it.
    #[error("the store URL names no host; write redis://host[:port][/database]")]
    NoHost,
    /// The port is zero.
    #[error(
        "port 0 of the store URL cannot be connected to; leave the port out for {DEFAULT_PORT}"
    )]
    PortZero,
    /// A user without a password, which is most often a password without the colon before it.
    #[error(
        "the store URL has a user without a password; write redis://user:password@host, or redis://:password@host for \
         a password alone"
    )]
    UserWithoutPassword,
    /// A `%` that no two hexadecimal digits follow, or bytes that are not UTF-8.
    #[error(
        "the {part} of the store URL is not percent-encoded UTF-8; a literal `%` is written %25"
    )]
    BadEncoding {
        /// Which part: "user" or "password".
        part: &'static str,
    },
    /// The path is something other than a database number.
    #[error(
        "the path of the store URL must be nothing, or one database number from 0 to {MAX_DATABASE}, as in \
         redis://host/5; if the slash belongs to a password, write it %2F"
    )]
    BadDatabase,
    /// There is a query; no parameter is known.
    #[error(
        "the store URL has a query (`?…`), but takes no parameters; if the `?` belongs to a password, write it %3F"
    )]
    UnknownParameter,
    /// There is a fragment.
    #[error(
        "the store URL has a fragment (`#…`), but takes none; if the `#` belongs to a password, write it %23"
    )]
    Fragment,
    /// A CA file was given for a connection without TLS.
    #[error(
        "a CA file was given, but redis:// does not use TLS; write rediss:// or leave the CA file out"
    )]
    CaWithoutTls,
    /// The host cannot be the name in a certificate.
    #[error(
        "the host of the store URL is neither a DNS name nor an IP address, so its certificate cannot be checked"
    )]
    BadTlsHost,
    /// The CA file cannot be read.
    #[error("the CA file {file} of the store cannot be read: {source}")]
    CaUnreadable {
        /// The file, as it was given.
        file: String,
        /// What reading it ended with.
        source: io::Error,
    },
    /// The CA file holds something other than certificates.
    #[error("the CA file {file} of the store holds no usable PEM certificate: {detail}")]
    CaUnusable {
        /// The file, as it was given.
        file: String,
        /// What is wrong with it.
        detail: String,
    },
    /// This machine has no certificate authorities of its own.
    #[error(
        "no certificate authority is installed on this machine; name the CA file of the Redis server (--store-ca)"
    )]
    NoSystemCa,
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// One Redis server: where it is, how to log in and which database to use. Cheap to clone.
///
/// Neither `Display` nor `Debug` shows the password.
#[derive(Clone)]
pub struct RedisTarget {
    host: Arc<str>,
    port: u16,
    login: Option<Login>,
    database: u32,
    tls: Option<Tls>,
}

/// What `AUTH` is sent.
#[derive(Clone)]
pub(super) struct Login {
    /// The ACL user; `None` is Redis's `default`.
    pub(super) user: Option<Arc<str>>,
    pub(super) password: Arc<str>,
}

/// How a `rediss://` server is checked.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl RedisTarget {
    /// Parses `redis://[user[:password]@]host[:port][/database]`, or `rediss://…` for TLS. User and password are
    /// percent-decoded; an IPv6 host is in brackets; the port defaults to 6379 and the database to 0.
    ///
    /// With `rediss://`, the server's certificate must be signed by a certificate of the PEM file `ca`, or, without
    /// one, by an authority that this machine trusts. The file is read here, once.
    ///
    /// # Errors
    ///
    /// A [`StoreUrlError`] says what is wrong and what to write instead, and never shows the password.
    pub fn parse(url: &str, ca: Option<&Path>) -> Result<Self, StoreUrlError> {
        // The parser would drop tabs and line breaks in silence, and a password with them.
        if url.chars().any(char::is_control) {
            return Err(StoreUrlError::ControlCharacter);
        }
        let url = Url::parse(url).map_err(StoreUrlError::Malformed)?;
        let wants_tls = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            scheme => {
                return Err(StoreUrlError::Scheme {
                    scheme: scheme.to_owned(),
                });
            }
        };
        if url.query().is_some() {
            return Err(StoreUrlError::UnknownParameter);
        }
        if url.fragment().is_some() {
            return Err(StoreUrlError::Fragment);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(Host::Domain(_)) | None => return Err(StoreUrlError::NoHost),
        };
        let port = match url.port() {
            Some(0) => return Err(StoreUrlError::PortZero),
            port => port.unwrap_or(DEFAULT_PORT),
        };
        let login = parse_login(&url)?;
        let database = parse_database(url.path())?;
        let tls = match (wants_tls, ca) {
            (false, None) => None,
            (false, Some(_)) => return Err(StoreUrlError::CaWithoutTls),
            (true, ca) => Some(Tls {
                config: tls_config(ca)?,
                name: ServerName::try_from(host.clone()).map_err(|_| StoreUrlError::BadTlsHost)?,
            }),
        };
        Ok(Self {
            host: host.into(),
            port,
            login,
            database,
            tls,
        })
    }

    /// The host: a DNS name, an IPv4 address, or an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` as people write it, an IPv6 host in brackets.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The database number that each connection selects.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// The ACL user that each connection logs in as; `None` without a login, or for Redis's `default` user.
    pub fn user(&self) -> Option<&str> {
        self.login.as_ref()?.user.as_deref()
    }

    /// Whether connections are encrypted (`rediss://`).
    pub fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }
}

impl fmt::Display for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.uses_tls() {
            "rediss://"
        } else {
            "redis://"
        })?;
        if self.login.is_some() {
            write!(f, "{}:***@", self.user().unwrap_or_default())?;
        }
        write!(f, "{}/{}", self.address(), self.database)
    }
}

impl fmt::Debug for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisTarget({self})")
    }
}

fn parse_login(url: &Url) -> Result<Option<Login>, StoreUrlError> {
    let user = decode(url.username(), "user")?;
    let password = decode(url.password().unwrap_or_default(), "password")?;
    match (user.is_empty(), password.is_empty()) {
        (true, true) => Ok(None),
        (false, true) => Err(StoreUrlError::UserWithoutPassword),
        (no_user, false) => Ok(Some(Login {
            user: (!no_user).then(|| user.into()),
            password: password.into(),
        })),
    }
}

fn decode(text: &str, part: &'static str) -> Result<String, StoreUrlError> {
    let complete = text.split('%').skip(1).all(|rest| {
        rest.as_bytes()
            .get(..2)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !complete {
        return Err(StoreUrlError::BadEncoding { part });
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(StoreUrlError::BadEncoding { part }),
    }
}

fn parse_database(path: &str) -> Result<u32, StoreUrlError> {
    let digits = path.strip_prefix('/').unwrap_or(path);
    if digits.is_empty() {
        return Ok(0);
    }
    // `parse` alone would take a sign as well.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(StoreUrlError::BadDatabase);
    }
    digits
        .parse()
        .ok()
        .filter(|&database| database <= MAX_DATABASE)
        .ok_or(StoreUrlError::BadDatabase)
}

fn tls_config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, StoreUrlError> {
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

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
