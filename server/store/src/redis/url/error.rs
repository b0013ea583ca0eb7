//! Errors of store URLs.

use std::io;

use thiserror::Error;

/// Default port of a Redis server in a store URL.
pub(super) const DEFAULT_PORT: u16 = 6379;

/// Largest database number that Redis can be configured for.
pub(super) const MAX_DATABASE: u32 = i32::MAX as u32;

/// Error of a store URL. No variant repeats a part of the URL that could contain a piece of its password.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// It is not a URL.
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
    /// The scheme is not supported.
    #[error(
        "the store URL begins with `{scheme}:`; write redis:// or, for TLS, rediss://; or redis+sentinel:// or \
         rediss+sentinel:// with a list of sentinels; or redis+cluster:// or rediss+cluster:// with a list of nodes"
    )]
    Scheme {
        /// The scheme of the URL.
        scheme: String,
    },
    /// It has no host.
    #[error("the store URL names no host; write redis://host[:port][/database]")]
    NoHost,
    /// A host in a list is malformed.
    #[error(
        "host {position} in the list of the store URL is neither a name nor an IP address (an IPv6 address is written in \
         brackets); if a comma, a colon or `@` belongs to a password, percent-encode it (%2C, %3A, %40)"
    )]
    BadHost {
        /// The host's number, counted from 1.
        position: usize,
    },
    /// The port of a host in a list is malformed.
    #[error(
        "the port of host {position} in the list of the store URL is not a number from 1 to 65535; if the colon belongs \
         to a password, write it %3A"
    )]
    BadPort {
        /// The host's number, counted from 1.
        position: usize,
    },
    /// A list has the same host and port twice.
    #[error(
        "host {position} in the list of the store URL was listed before; list each server once"
    )]
    RepeatedHost {
        /// The host's number, counted from 1.
        position: usize,
    },
    /// The master's name is missing after the list of sentinels.
    #[error(
        "the store URL does not say which master the sentinels are to be asked for; write \
         redis+sentinel://host,host,host/master-name"
    )]
    NoMasterName,
    /// The master's name has characters that no sentinel accepts.
    #[error(
        "the master's name in the store URL may hold letters, digits, `.`, `-` and `_`; if the slash before it belongs to \
         a password, write it %2F"
    )]
    BadMasterName,
    /// A parameter is unknown, or given twice.
    #[error(
        "a store URL with sentinels takes the parameters sentinel-user and sentinel-password, each once and with a \
         value; it has something else behind its `?` (in a password, write `?` as %3F and `&` as %26)"
    )]
    BadSentinelParameter,
    /// A user for the sentinels, but no password.
    #[error(
        "the store URL has a sentinel-user without a sentinel-password; add it, or remove the user"
    )]
    SentinelUserWithoutPassword,
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
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error(
        "the {part} of the store URL is not percent-encoded UTF-8; a literal `%` is written %25"
    )]
    BadEncoding {
        /// The part, such as "user" or "password".
        part: &'static str,
    },
    /// The path is something other than a database number.
    #[error(
        "the path of the store URL must end with one database number from 0 to {MAX_DATABASE}, or without one, as in \
         redis://host/5; if the slash belongs to a password, write it %2F"
    )]
    BadDatabase,
    /// A cluster has only one database.
    #[error(
        "the store URL of a Redis Cluster ends with its list of nodes, as there is no database to choose; if the slash \
         belongs to a password, write it %2F"
    )]
    DatabaseOfCluster,
    /// It has a query, but there are no parameters.
    #[error(
        "the store URL has a query (`?…`), but takes no parameters; if the `?` belongs to a password, write it %3F"
    )]
    UnknownParameter,
    /// Of several independent masters, too few or too many are named.
    #[error(
        "the store URL names {number} masters; write redis+quorum://host,host,host with 3 to 32 of them"
    )]
    NumberOfMasters {
        /// Their number.
        number: usize,
    },
    /// The query of several independent masters is unknown.
    #[error(
        "the store URL has a query (`?…`) other than ?durable=true; if the `?` belongs to a password, write it %3F"
    )]
    QuorumParameter,
    /// It has a fragment.
    #[error(
        "the store URL has a fragment (`#…`), but takes none; if the `#` belongs to a password, write it %23"
    )]
    Fragment,
    /// A file of certificates was given for a connection without TLS.
    #[error(
        "a CA file or a certificate was given, but the store URL does not ask for TLS; begin it with rediss, or leave the \
         file out"
    )]
    CaWithoutTls,
    /// The host cannot be the name in a certificate.
    #[error(
        "the host of the store URL is neither a DNS name nor an IP address, so its certificate cannot be checked"
    )]
    BadTlsHost,
    /// A file of certificates, or with a key, cannot be read.
    #[error("the file {file} for the store's TLS cannot be read: {source}")]
    FileUnreadable {
        /// The file, as it was given.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The CA file does not contain certificates.
    #[error("the CA file {file} of the store holds no usable PEM certificate: {detail}")]
    CaUnusable {
        /// The file, as it was given.
        file: String,
        /// The defect.
        detail: String,
    },
    /// The coordinator's own certificate, or its key, is malformed.
    #[error("the file {file} (--store-cert, --store-key) cannot be used: {detail}")]
    IdentityUnusable {
        /// The file, as it was given.
        file: String,
        /// The defect.
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
