//! Addresses of Redis servers, parsed once from `--store` and `--store-ca`.
//!
//! - `target`: one server, `redis://…`.
//! - `sentinel`: a master that sentinels name, `redis+sentinel://…`.
//! - `cluster`: a Redis Cluster, `redis+cluster://…`.
//! - `quorum`: several independent masters, `redis+quorum://…`.
//! - `list` and `hosts`: the parts that all URLs with a list of servers share.
//! - `access` and `tls`: login, database and TLS for all servers.
//!
//! A store URL contains a password, and a malformed one may contain pieces of it anywhere (an unencoded `/`, `#`, `?` or `@`
//! in a password moves the rest of it into the path, the fragment, the query or the host). So errors repeat only the scheme
//! and the name of the CA file.

mod access;
mod cluster;
mod error;
mod hosts;
mod list;
mod quorum;
mod sentinel;
mod target;
mod tls;

pub(super) use access::{Access, Kind, Tls};
pub use cluster::ClusterUrl;
pub use error::StoreUrlError;
pub(crate) use list::kind_of;
pub(crate) use quorum::QuorumUrl;
pub use sentinel::SentinelUrl;
pub use target::RedisTarget;
pub use tls::TlsFiles;
