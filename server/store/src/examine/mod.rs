//! Examination of a store: asks each server once for the facts by which an operator judges it, and changes nothing.
//!
//! - [`facts`]: the answers.
//! - `redis::examine`: examines one server, as the store's user; `redis::sentinel` and `redis::cluster` find it.
//! - `quorum::examine`: several independent masters.

pub mod facts;

use std::{fmt, time::Duration};

use self::facts::{Facts, Topology};
use crate::{
    StoreUrlError, TlsFiles,
    quorum::examine::examine_masters,
    redis::{
        examine::{Examination, examine_one},
        keys::Keys,
        sentinel::examine::examine_master,
        url::{ClusterUrl, QuorumUrl, RedisTarget, SentinelUrl, kind_of},
    },
};

/// Store to examine, and how to reach it.
#[derive(Clone)]
pub struct Place {
    /// The store's URL.
    pub url: String,
    /// Certificates, if the URL asks for TLS.
    pub tls: TlsFiles,
    /// The prefix of every lock's key.
    pub key_prefix: String,
    /// Whether coordinators wait for acknowledgements of replicas, which takes a right of its own.
    pub acknowledged: bool,
    /// Time that each server has to be connected to, and then to answer each question.
    pub timeout: Duration,
}

impl fmt::Debug for Place {
    /// Leaves the URL out, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}

/// Asks all servers of a store at once. A server that can't be asked is a fact, too.
///
/// # Errors
///
/// If the URL is not valid, or a file of certificates can't be used.
pub async fn examine(place: &Place) -> Result<Facts, StoreUrlError> {
    let Place { url, tls, .. } = place;
    let examination = Examination {
        keys: Keys::new(&place.key_prefix),
        acknowledged: place.acknowledged,
        timeout: place.timeout,
    };
    if url == "memory:" {
        return Ok(Facts::of(Topology::Memory));
    }
    let tls = tls.clone();
    Ok(match &*kind_of(url) {
        "sentinel" => examine_master(&SentinelUrl::parse(url, tls)?, &examination).await,
        "cluster" => {
            let url = ClusterUrl::parse(url, tls)?;
            crate::redis::cluster::examine::examine_cluster(&url, &examination).await
        }
        "quorum" => examine_masters(&QuorumUrl::parse(url, tls)?, &examination).await,
        _ => {
            let target = RedisTarget::parse(url, tls)?;
            Facts {
                servers: vec![examine_one(&target, &examination).await],
                ..Facts::of(Topology::Single)
            }
        }
    })
}
