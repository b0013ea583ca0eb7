//! Address of a Redis Cluster.

use std::sync::Arc;

use super::{
    Access, Kind, RedisTarget, StoreUrlError, TlsFiles, error::DEFAULT_PORT, list::ListUrl,
};

/// Nodes to ask first, and the login for all nodes. Cheap to clone.
///
/// `Debug` does not show the password.
#[derive(Clone, Debug)]
pub struct ClusterUrl {
    /// The nodes to ask first, in the order of the URL; at least one.
    pub(in crate::redis) seeds: Arc<[RedisTarget]>,
    /// The access to all nodes.
    pub(in crate::redis) access: Access,
}

impl ClusterUrl {
    /// Parses `redis+cluster://[user[:password]@]host[:port],host[:port],…`, or `rediss+cluster://…` for TLS.
    ///
    /// The store asks the named nodes for the others. All have the same login, which is percent-decoded. A port defaults to
    /// 6379; there is no database to choose. Certificates are checked as [`RedisTarget::parse`] describes, and must be for the
    /// addresses that the nodes report of one another.
    ///
    /// # Errors
    ///
    /// A [`StoreUrlError`] says what is wrong and what to write instead, and never shows the password.
    pub fn parse(url: &str, tls: impl Into<TlsFiles>) -> Result<Self, StoreUrlError> {
        let url = ListUrl::parse(url, "cluster", DEFAULT_PORT)?;
        if !url.path.is_empty() {
            return Err(StoreUrlError::DatabaseOfCluster);
        }
        if url.query.is_some() {
            return Err(StoreUrlError::UnknownParameter);
        }
        let access = Access::new(url.login, 0, url.wants_tls, tls.into(), Kind::Node)?;
        Ok(Self {
            seeds: access.targets(&url.hosts)?,
            access,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_the_login() {
        let url = ClusterUrl::parse("redis+cluster://app:se%40cret@a:1,B,[::1]:7000/", None);
        let url = url.unwrap();
        assert!(!format!("{url:?}").contains("cret"));
        let seeds: Vec<_> = url.seeds.iter().map(ToString::to_string).collect();
        let expected = ["a:1", "b:6379", "[::1]:7000"];
        let expected = expected.map(|host| format!("redis://app:***@{host}/0"));
        assert_eq!(seeds, expected);
        let url = ClusterUrl::parse("rediss+cluster://h:1,g:2", None).unwrap();
        assert!(url.seeds.iter().all(RedisTarget::uses_tls));
    }

    #[test]
    fn nonsense_is_refused_without_the_password() {
        for url in [
            "redis+cluster://",
            "redis+cluster://:hunter2@",
            "redis+cluster://:hunter2@a,,b",
            "redis+cluster://:hunter2@a:0",
            "redis+cluster://:hunter2@a,a",
            "redis+cluster://:hunter2@a/1",
            "redis+cluster://:hunter2@a,b/0,c",
            "redis+cluster://:hunter2@a?x=1",
            "redis+cluster://:hunter2@a#x",
            "redis+cluster://hunter2@a",
            "redis+cluster:hunter2",
            "redis://:hunter2@a",
            "redis+clutter://:hunter2@a",
        ] {
            let error = ClusterUrl::parse(url, None).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
    }
}
