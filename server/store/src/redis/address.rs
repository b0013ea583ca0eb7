//! Address of a server.

use std::{fmt, sync::Arc};

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Address {
    /// A DNS name, an IPv4 address, or an IPv6 address without brackets.
    pub(super) host: Arc<str>,
    /// The TCP port, never 0.
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Parses `host:port` of a cluster's redirection: an IPv6 host has no brackets, and no host (or `?`) means that of the answering
    /// node.
    pub(super) fn read(text: &str, said_by: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some(match host {
            "" | "?" => Self {
                host: Arc::clone(&said_by.host),
                port,
            },
            host => Self::new(host, port),
        })
    }
}

impl fmt::Display for Address {
    /// Writes `host:port` as people do, an IPv6 host in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let said_by = Address::new("10.0.0.1", 7000);
        for (text, expected) in [
            ("127.0.0.1:7001", Some(Address::new("127.0.0.1", 7001))),
            (
                "node-2.example:6379",
                Some(Address::new("node-2.example", 6379)),
            ),
            ("2001:db8::1:7001", Some(Address::new("2001:db8::1", 7001))),
            (":7001", Some(Address::new("10.0.0.1", 7001))),
            ("?:7001", Some(Address::new("10.0.0.1", 7001))),
            ("127.0.0.1:0", None),
            ("127.0.0.1:70000", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            assert_eq!(Address::read(text, &said_by), expected, "{text}");
        }
    }
}
