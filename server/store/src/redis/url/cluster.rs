//! Address of a Redis Cluster.

use std::{fmt, sync::Arc};

use super::{
    Access, RedisTarget, StoreUrlError, TlsFiles,
    access::DEFAULT_PORT,
    list::{ListUrl, split_scheme},
};

/// Part after the `+` of the scheme.
const KIND: &str = "cluster";

/// Nodes to ask first, and the login for all nodes. Cheap to clone.
///
/// Neither `Display` nor `Debug` shows the password.
#[derive(Clone)]
pub struct ClusterUrl {
    seeds: Arc<[RedisTarget]>,
    access: Access,
}

/// Returns whether a store URL is that of a cluster.
pub(crate) fn is_cluster(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    split_scheme(scheme).is_some_and(|(_, kind)| kind.eq_ignore_ascii_case(KIND))
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
        let url = ListUrl::parse(url, KIND, DEFAULT_PORT)?;
        if !url.path.is_empty() {
            return Err(StoreUrlError::DatabaseOfCluster);
        }
        if url.query.is_some() {
            return Err(StoreUrlError::UnknownParameter);
        }
        let access = Access::new(url.login, 0, url.wants_tls, tls.into())?;
        let seeds: Result<Arc<[_]>, StoreUrlError> = url
            .hosts
            .iter()
            .map(|host| Ok(access.target(&host.name, host.port)?.into_node()))
            .collect();
        Ok(Self {
            seeds: seeds?,
            access,
        })
    }

    /// Returns the nodes to ask first, in the order of the URL; at least one.
    pub fn seeds(&self) -> &[RedisTarget] {
        &self.seeds
    }

    /// Returns the node at an address.
    ///
    /// # Errors
    ///
    /// [`StoreUrlError::BadTlsHost`] if the host cannot be the name in a certificate.
    pub(in crate::redis) fn node(
        &self,
        host: &str,
        port: u16,
    ) -> Result<RedisTarget, StoreUrlError> {
        Ok(self.access.target(host, port)?.into_node())
    }
}

impl fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.access.tls.is_some() { "s" } else { "" };
        write!(f, "redis{tls}+cluster://")?;
        if let Some(login) = &self.access.login {
            write!(f, "{}:***@", login.user.as_deref().unwrap_or_default())?;
        }
        for (index, seed) in self.seeds.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", seed.address())?;
        }
        Ok(())
    }
}

impl fmt::Debug for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_node_has_the_login() {
        let url = ClusterUrl::parse("redis+cluster://app:se%40cret@a:1,B,[::1]:7000/", None);
        let url = url.unwrap();
        assert_eq!(
            url.to_string(),
            "redis+cluster://app:***@a:1,b:6379,[::1]:7000"
        );
        let seeds: Vec<_> = url.seeds().iter().map(ToString::to_string).collect();
        assert_eq!(
            seeds,
            [
                "redis://app:***@a:1/0",
                "redis://app:***@b:6379/0",
                "redis://app:***@[::1]:7000/0"
            ]
        );
        let url = ClusterUrl::parse("rediss+cluster://h:1,g:2", None).unwrap();
        assert!(url.seeds().iter().all(RedisTarget::uses_tls));
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
        assert!(is_cluster("REDISS+Cluster://a"));
        assert!(!is_cluster("redis+sentinel://a") && !is_cluster("redis://a") && !is_cluster(""));
    }
}
