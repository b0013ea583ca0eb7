//! Login, database and encryption that all servers of a store have in common.

use std::{fmt, sync::Arc};

use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;

use super::{
    StoreUrlError,
    error::MAX_DATABASE,
    tls::{TlsFiles, TlsSettings},
};

/// Access that all servers of a store have in common. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Access {
    pub(super) login: Option<Login>,
    pub(in crate::redis) database: u32,
    pub(super) tls: Option<Arc<TlsSettings>>,
    pub(super) kind: Kind,
}

/// Kind of server at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Kind {
    /// A Redis server by itself, or one that has replicas.
    Server,
    /// A node of a cluster.
    Node,
    /// A sentinel.
    Sentinel,
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
