//! Choice of a store by URL.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::{
    memory::MemoryStore,
    quorum::QuorumStore,
    redis::{
        RedisStore,
        url::{ClusterUrl, QuorumUrl, RedisTarget, SentinelUrl, StoreUrlError, kind_of},
    },
    store::{Options, Store, WakeUp},
};

/// Opens a store. It need not be reachable yet: see [`LockStore::status`](crate::LockStore::status).
///
/// The receiver yields wake-ups from other coordinators.
pub fn open(options: Options) -> Result<(Store, mpsc::Receiver<WakeUp>), StoreUrlError> {
    if options.url == "memory:" {
        let (store, wake_ups) = MemoryStore::open();
        return Ok((Arc::new(store), wake_ups));
    }
    if kind_of(&options.url) == "quorum" {
        let (store, wake_ups) = QuorumStore::open(options)?;
        return Ok((Arc::new(store), wake_ups));
    }
    let (store, wake_ups) = RedisStore::open(options)?;
    Ok((Arc::new(store), wake_ups))
}

/// Checks the URL of a store, without reading files.
pub fn check_url(url: &str) -> Result<(), StoreUrlError> {
    if url == "memory:" {
        return Ok(());
    }
    let (scheme, rest) = url.split_at(url.find([':', '+']).unwrap_or(0));
    if scheme.eq_ignore_ascii_case("rediss") {
        check_redis_url(&format!("redis{rest}"))
    } else {
        check_redis_url(url)
    }
}

fn check_redis_url(url: &str) -> Result<(), StoreUrlError> {
    match &*kind_of(url) {
        "sentinel" => SentinelUrl::parse(url, None).map(drop),
        "cluster" => ClusterUrl::parse(url, None).map(drop),
        "quorum" => QuorumUrl::parse(url, None).map(drop),
        _ => RedisTarget::parse(url, None).map(drop),
    }
}
