//! Address of a master that sentinels name.

use std::sync::Arc;

use super::{
    Access, Kind, RedisTarget, StoreUrlError, TlsFiles,
    access::{Login, parse_database},
    list::ListUrl,
};

/// Default port of a sentinel in the URL.
const SENTINEL_PORT: u16 = 26_379;

/// Sentinels to ask, the master's name, and the logins for both. Cheap to clone.
///
/// `Debug` shows no password.
#[derive(Clone, Debug)]
pub struct SentinelUrl {
    /// The sentinels, in the order of the URL; at least one.
    pub(in crate::redis) sentinels: Arc<[RedisTarget]>,
    /// The name under which they know the master.
    pub(in crate::redis) master: Arc<str>,
    /// The access to the Redis servers.
    pub(in crate::redis) access: Access,
}

impl SentinelUrl {
    /// Parses `redis+sentinel://[user[:password]@]host[:port],host[:port],…/master-name[/database]`, or
    /// `rediss+sentinel://…` for TLS with both the sentinels and the Redis servers.
    ///
    /// User and password are those of the Redis servers; the parameters `sentinel-user` and `sentinel-password` are for
    /// the sentinels. All are percent-decoded. A sentinel's port defaults to 26379, the database to 0. Certificates are
    /// checked as [`RedisTarget::parse`] tells; those of the Redis servers must be for the addresses that the sentinels
    /// tell.
    ///
    /// # Errors
    ///
    /// A [`StoreUrlError`] says what is wrong and what to write instead, and never shows a password.
    pub fn parse(url: &str, tls: impl Into<TlsFiles>) -> Result<Self, StoreUrlError> {
        let url = ListUrl::parse(url, "sentinel", SENTINEL_PORT)?;
        let (master, database) = url.path.split_once('/').unwrap_or((url.path, ""));
        if master.is_empty() {
            return Err(StoreUrlError::NoMasterName);
        }
        // What Redis documents as the characters of such a name.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !master.bytes().all(fits) {
            return Err(StoreUrlError::BadMasterName);
        }
        let database = parse_database(database)?;
        let sentinel_login = sentinel_login(&url)?;
        let access = Access::new(url.login, database, url.wants_tls, tls.into(), Kind::Server)?;
        let to_sentinels = Access {
            login: sentinel_login,
            database: 0,
            tls: access.tls.clone(),
            kind: Kind::Sentinel,
        };
        Ok(Self {
            sentinels: to_sentinels.targets(&url.hosts)?,
            master: master.into(),
            access,
        })
    }
}

fn sentinel_login(url: &ListUrl<'_>) -> Result<Option<Login>, StoreUrlError> {
    let (mut user, mut password) = (None, None);
    for parameter in url.parameters(|| StoreUrlError::BadSentinelParameter) {
        let (name, value) = parameter?;
        let place = match name {
            "sentinel-user" => &mut user,
            "sentinel-password" => &mut password,
            _ => return Err(StoreUrlError::BadSentinelParameter),
        };
        if value.is_empty() || place.replace(Arc::from(value)).is_some() {
            return Err(StoreUrlError::BadSentinelParameter);
        }
    }
    match (user, password) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(StoreUrlError::SentinelUserWithoutPassword),
        (user, Some(password)) => Ok(Some(Login { user, password })),
    }
}

#[cfg(test)]
#[path = "sentinel_tests.rs"]
mod tests;
