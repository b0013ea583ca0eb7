//! Addresses of several independent masters, parsed once from `--store` and `--store-ca`.

use super::{
    Access, Kind, RedisTarget, StoreUrlError, TlsFiles, access::parse_database,
    error::DEFAULT_PORT, list::ListUrl,
};

/// Fewest masters: with two, a majority is both of them.
const FEWEST: usize = 3;
/// Most masters.
const MOST: usize = 32;

/// Addresses of the masters, and their options.
#[derive(Clone, Debug)]
pub(crate) struct QuorumUrl {
    /// Each of them.
    pub(crate) masters: Vec<RedisTarget>,
    /// Whether they are declared to keep everything across restarts.
    pub(crate) durable: bool,
}

impl QuorumUrl {
    /// Parses `redis+quorum://[user[:password]@]host[:port],host[:port],…[/database][?durable=true]`, or
    /// `rediss+quorum://…` for TLS, with 3 to 32 hosts. Login, database and authority are the same for all of them, as
    /// [`RedisTarget::parse`] has them.
    ///
    /// # Errors
    ///
    /// A [`StoreUrlError`] says what is wrong and what to write instead, and never shows the password.
    pub(crate) fn parse(url: &str, tls: impl Into<TlsFiles>) -> Result<Self, StoreUrlError> {
        let url = ListUrl::parse(url, "quorum", DEFAULT_PORT)?;
        let durable = match url.query {
            None | Some("durable=false") => false,
            Some("durable=true") => true,
            Some(_) => return Err(StoreUrlError::QuorumParameter),
        };
        let number = url.hosts.len();
        if !(FEWEST..=MOST).contains(&number) {
            return Err(StoreUrlError::NumberOfMasters { number });
        }
        let database = parse_database(url.path)?;
        let access = Access::new(url.login, database, url.wants_tls, tls.into(), Kind::Server)?;
        let masters = access.targets(&url.hosts)?;
        Ok(Self { masters, durable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_are_read() {
        let url = "redis+quorum://u:p%40@a,b:7000,[::1]:7001/3?durable=true";
        let target = QuorumUrl::parse(url, None).unwrap();
        let shown: Vec<String> = target.masters.iter().map(ToString::to_string).collect();
        let expected = ["a:6379", "b:7000", "[::1]:7001"];
        let expected = expected.map(|host| format!("redis://u:***@{host}/3"));
        assert_eq!(shown, expected);
        assert!(target.durable);
        let plain = QuorumUrl::parse("redis+quorum://a,b,c,d", None).unwrap();
        assert!(!plain.durable);
    }

    #[test]
    fn malformed_urls_are_refused_without_their_password() {
        use StoreUrlError as E;
        let of = |rest: &str| format!("redis+quorum://:hunter2@{rest}");
        let scheme = |e: &_| matches!(e, E::Scheme { .. });
        let host = |e: &_| matches!(e, E::BadHost { .. });
        let parameter = |e: &_| matches!(e, E::QuorumParameter);
        type Check = fn(&StoreUrlError) -> bool;
        let cases: [(String, Check); 11] = [
            ("redis://:hunter2@a,b,c".to_owned(), scheme),
            ("http+quorum://:hunter2@a,b,c".to_owned(), scheme),
            (of("a"), |e| matches!(e, E::NumberOfMasters { number: 1 })),
            (of("a,b"), |e| matches!(e, E::NumberOfMasters { number: 2 })),
            (of("a,b,"), host),
            (of("a,,b"), host),
            (of("a,b,a:6379"), |e| {
                matches!(e, E::RepeatedHost { position: 3 })
            }),
            (of("a,b,c/x"), |e| matches!(e, E::BadDatabase)),
            (of("a,b,c?durable"), parameter),
            (of("a,b,c?durable=yes"), parameter),
            (of("a,b,c#x"), |e| matches!(e, E::Fragment)),
        ];
        for (url, expected) in cases {
            let error = QuorumUrl::parse(&url, None)
                .err()
                .unwrap_or_else(|| panic!("{url:?} was accepted"));
            assert!(expected(&error), "{url:?} gave {error:?}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        }
    }
}
