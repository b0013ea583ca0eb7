//! The address of one Redis server.

use std::{fmt, sync::Arc};

use rustls::pki_types::ServerName;
use url::{Host, Url};

use super::{
    StoreUrlError, TlsFiles,
    access::{Access, Kind, Login, Tls, parse_database},
    error::DEFAULT_PORT,
};
use crate::redis::address::Address;

/// One Redis server: where it is, how to log in and which database to use. Cheap to clone.
///
/// Neither `Display` nor `Debug` shows the password.
#[derive(Clone)]
pub struct RedisTarget {
    pub(super) address: Address,
    pub(super) access: Access,
    pub(super) tls: Option<Tls>,
}

impl Access {
    /// Returns one server of the store.
    ///
    /// # Errors
    ///
    /// [`StoreUrlError::BadTlsHost`] if the host cannot be the name in a certificate.
    pub(in crate::redis) fn target(&self, address: &Address) -> Result<RedisTarget, StoreUrlError> {
        let tls = match &self.tls {
            None => None,
            Some(settings) => Some(Tls {
                settings: Arc::clone(settings),
                name: ServerName::try_from(address.host.to_string())
                    .map_err(|_| StoreUrlError::BadTlsHost)?,
            }),
        };
        Ok(RedisTarget {
            address: address.clone(),
            access: self.clone(),
            tls,
        })
    }

    /// Returns several servers of the store.
    pub(super) fn targets<T>(&self, addresses: &[Address]) -> Result<T, StoreUrlError>
    where
        T: FromIterator<RedisTarget>,
    {
        let targets = addresses.iter().map(|address| self.target(address));
        targets.collect()
    }
}

impl RedisTarget {
    /// Parses `redis://[user[:password]@]host[:port][/database]`, or `rediss://…` for TLS. User and password are
    /// percent-decoded; an IPv6 host is in brackets; the port defaults to 6379 and the database to 0.
    ///
    /// With `rediss://`, the server's certificate must be signed by an authority of the files, or, without one, by one that
    /// this machine trusts. The files are read here, and again for a new connection when they have changed.
    ///
    /// # Errors
    ///
    /// A [`StoreUrlError`] says what is wrong and what to write instead, and never shows the password.
    pub fn parse(url: &str, tls: impl Into<TlsFiles>) -> Result<Self, StoreUrlError> {
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
        let login = Login::parse(url.username(), url.password().unwrap_or_default())?;
        let database = parse_database(url.path())?;
        let access = Access::new(login, database, wants_tls, tls.into(), Kind::Server)?;
        access.target(&Address::new(&host, port))
    }

    /// Returns where it is.
    pub(in crate::redis) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the database number that each connection selects.
    pub fn database(&self) -> u32 {
        self.access.database
    }

    /// Returns whether connections are encrypted (`rediss://`).
    pub fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(in crate::redis) fn kind(&self) -> Kind {
        self.access.kind
    }

    /// Returns whether this is the same host and port.
    pub(in crate::redis) fn is_same_server(&self, other: &Self) -> bool {
        self.address == other.address
    }

    /// Returns its name in messages: "Redis at host:port" or "the sentinel at host:port".
    pub(crate) fn label(&self) -> String {
        let what = match self.kind() {
            Kind::Server | Kind::Node => "Redis",
            Kind::Sentinel => "the sentinel",
        };
        format!("{what} at {}", self.address)
    }

    pub(in crate::redis) fn login(&self) -> Option<&Login> {
        self.access.login.as_ref()
    }

    pub(in crate::redis) fn tls(&self) -> Option<&Tls> {
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
        if let Some(login) = self.login() {
            write!(f, "{login:?}@")?;
        }
        write!(f, "{}/{}", self.address, self.database())
    }
}

impl fmt::Debug for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisTarget({self})")
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
