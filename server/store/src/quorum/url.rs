//! Addresses of several independent masters, parsed once from `--store` and `--store-ca`.

use crate::redis::url::{RedisTarget, StoreUrlError, TlsFiles};

/// Fewest masters: with two, a majority is both of them.
const FEWEST: usize = 3;
/// Most masters.
const MOST: usize = 32;

/// Addresses of the masters, and their options.
#[derive(Clone, Debug)]
pub struct QuorumTarget {
    /// Each of them.
    pub masters: Vec<RedisTarget>,
    /// Whether they are declared to keep everything across restarts.
    pub durable: bool,
}

impl QuorumTarget {
    /// Returns whether a URL is one of several masters.
    pub fn is_meant_by(url: &str) -> bool {
        url.starts_with("redis+quorum:") || url.starts_with("rediss+quorum:")
    }

    /// Parses `redis+quorum://[user[:password]@]host[:port],host[:port],…[/database][?durable=true]`, or
    /// `rediss+quorum://…` for TLS, with 3 to 32 hosts. Login, database and authority are the same for all of them, as
    /// [`RedisTarget::parse`] has them.
    ///
    /// # Errors
    ///
    /// A [`StoreUrlError`] says what is wrong and what to write instead, and never shows the password.
    pub fn parse(url: &str, tls: impl Into<TlsFiles>) -> Result<Self, StoreUrlError> {
        let Some((scheme, rest)) = url.split_once("+quorum://") else {
            let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
            return Err(StoreUrlError::Scheme {
                scheme: scheme.to_owned(),
            });
        };
        let tls = tls.into();
        // Everything up to the last `@` is user and password, whatever it contains.
        let (login, rest) = rest
            .rfind('@')
            .map_or(("", rest), |at| rest.split_at(at + 1));
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let durable = match query {
            None => false,
            Some("durable=true") => true,
            Some("durable=false") => false,
            Some(_) => return Err(StoreUrlError::QuorumParameter),
        };
        let (hosts, path) = rest
            .find(['/', '#'])
            .map_or((rest, ""), |at| rest.split_at(at));
        let hosts: Vec<&str> = hosts.split(',').collect();
        if !(FEWEST..=MOST).contains(&hosts.len()) {
            return Err(StoreUrlError::NumberOfMasters {
                number: hosts.len(),
            });
        }
        let mut masters: Vec<RedisTarget> = Vec::with_capacity(hosts.len());
        for host in hosts {
            let master =
                RedisTarget::parse(&format!("{scheme}://{login}{host}{path}"), tls.clone())?;
            if masters
                .iter()
                .any(|other| other.address() == master.address())
            {
                return Err(StoreUrlError::SameMaster);
            }
            masters.push(master);
        }
        Ok(Self { masters, durable })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn lists_of_hosts_are_read() {
        let target = QuorumTarget::parse(
            "redis+quorum://u:p%40@a,b:7000,[::1]:7001/3?durable=true",
            None,
        )
        .unwrap();
        let shown: Vec<String> = target.masters.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "redis://u:***@a:6379/3",
                "redis://u:***@b:7000/3",
                "redis://u:***@[::1]:7001/3"
            ]
        );
        assert!(target.durable);
        assert!(
            !QuorumTarget::parse("redis+quorum://a,b,c,d", None)
                .unwrap()
                .durable
        );
        assert!(QuorumTarget::is_meant_by("rediss+quorum://a,b,c"));
        assert!(!QuorumTarget::is_meant_by("redis://a"));
    }

    #[test]
    fn malformed_urls_are_refused_without_their_password() {
        use StoreUrlError as E;
        type Check = fn(&StoreUrlError) -> bool;
        let cases: [(&str, Check); 11] = [
            ("redis://:hunter2@a,b,c", |e| matches!(e, E::Scheme { .. })),
            ("http+quorum://:hunter2@a,b,c", |e| {
                matches!(e, E::Scheme { .. })
            }),
            ("redis+quorum://:hunter2@a", |e| {
                matches!(e, E::NumberOfMasters { number: 1 })
            }),
            ("redis+quorum://:hunter2@a,b", |e| {
                matches!(e, E::NumberOfMasters { number: 2 })
            }),
            ("redis+quorum://:hunter2@a,b,", |e| {
                matches!(e, E::NoHost | E::Malformed(_))
            }),
            ("redis+quorum://:hunter2@a,,b", |e| {
                matches!(e, E::NoHost | E::Malformed(_))
            }),
            ("redis+quorum://:hunter2@a,b,a:6379", |e| {
                matches!(e, E::SameMaster)
            }),
            ("redis+quorum://:hunter2@a,b,c/x", |e| {
                matches!(e, E::BadDatabase)
            }),
            ("redis+quorum://:hunter2@a,b,c?durable", |e| {
                matches!(e, E::QuorumParameter)
            }),
            ("redis+quorum://:hunter2@a,b,c?durable=yes", |e| {
                matches!(e, E::QuorumParameter)
            }),
            ("redis+quorum://:hunter2@a,b,c#x", |e| {
                matches!(e, E::Fragment)
            }),
        ];
        for (url, expected) in cases {
            let error = QuorumTarget::parse(url, None)
                .err()
                .unwrap_or_else(|| panic!("{url:?} was accepted"));
            assert!(expected(&error), "{url:?} gave {error:?}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        }
    }
}
