//! Login, database and encryption that all servers of a store have in common.

use std::{fmt, sync::Arc};

use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;

use super::{
    Kind, RedisTarget, StoreUrlError,
    tls::{TlsFiles, TlsSettings},
};
use crate::redis::address::Address;

/// Default port of a Redis server in a store URL.
pub(super) const DEFAULT_PORT: u16 = 6379;

/// Largest database number that Redis can be configured for.
pub(super) const MAX_DATABASE: u32 = i32::MAX as u32;

/// Access that all servers of a store have in common. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Access {
    pub(super) login: Option<Login>,
    pub(super) database: u32,
    pub(super) tls: Option<Arc<TlsSettings>>,
    pub(super) kind: Kind,
}

/// User and password for `AUTH`.
#[derive(Clone)]
pub(in crate::redis) struct Login {
    /// The ACL user; `None` is Redis's `default`.
    pub(in crate::redis) user: Option<Arc<str>>,
    pub(in crate::redis) password: Arc<str>,
}

/// Settings to check a `rediss://` server.
#[derive(Clone)]
pub(in crate::redis) struct Tls {
    pub(in crate::redis) settings: Arc<TlsSettings>,
    pub(in crate::redis) name: ServerName<'static>,
}

impl Access {
    /// Reads the files, if there are any.
    pub(super) fn new(
        login: Option<Login>,
        database: u32,
        wants_tls: bool,
        files: TlsFiles,
        kind: Kind,
    ) -> Result<Self, StoreUrlError> {
        let tls = match (wants_tls, files.is_empty()) {
            (false, true) => None,
            (false, false) => return Err(StoreUrlError::CaWithoutTls),
            (true, _) => Some(Arc::new(TlsSettings::read(files)?)),
        };
        Ok(Self {
            login,
            database,
            tls,
            kind,
        })
    }

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

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***", self.user.as_deref().unwrap_or_default())
    }
}

impl Login {
    /// Parses the percent-encoded part before the `@`; returns `None` if it is empty.
    pub(super) fn parse(user: &str, password: &str) -> Result<Option<Self>, StoreUrlError> {
        let user = decode(user, "user")?;
        let password = decode(password, "password")?;
        match (user.is_empty(), password.is_empty()) {
            (true, true) => Ok(None),
            (false, true) => Err(StoreUrlError::UserWithoutPassword),
            (no_user, false) => Ok(Some(Self {
                user: (!no_user).then(|| user.into()),
                password: password.into(),
            })),
        }
    }
}

/// Decodes a percent-encoded part; `part` is what an error calls it.
pub(super) fn decode(text: &str, part: &'static str) -> Result<String, StoreUrlError> {
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

/// Reads a database number, with or without the slash before it.
pub(super) fn parse_database(path: &str) -> Result<u32, StoreUrlError> {
    let digits = path.strip_prefix('/').unwrap_or(path);
    if digits.is_empty() {
        return Ok(0);
    }
    // `parse` alone would accept a sign as well.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(StoreUrlError::BadDatabase);
    }
    digits
        .parse()
        .ok()
        .filter(|&database| database <= MAX_DATABASE)
        .ok_or(StoreUrlError::BadDatabase)
}
