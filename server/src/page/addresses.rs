//! Addresses of a coordinator's two ports as browsers see them: those that the page calls, and the origin that is the page's.
//!
//! A browser lets a page call another port only if that port allows the page's origin. The origin of the page is the admin port's, on
//! whatever name the operator's browser reached it by, so the coordinator can't know it beforehand. It is allowed if it is the admin
//! port on the same host as the call's. That alone would let a stranger in: their page could come from `http://evil.example:7421`, and
//! have that name point to the coordinator afterwards (DNS rebinding). So the host must be one that nobody can point elsewhere: an IP
//! address, `localhost`, or a name for which both ports show a certificate. `cors-origins` allows other names.

use std::net::SocketAddr;

use url::{Host, Url};

use crate::config::{Config, Origins};

/// Addresses of both ports of a coordinator.
#[derive(Debug)]
pub(super) struct Addresses {
    api: Port,
    admin: Port,
    /// Host of the API's port, if it is not that of the admin port.
    api_host: Option<Host>,
    /// Addresses that operators have named.
    named: Option<Origins>,
}

#[derive(Clone, Copy, Debug)]
struct Port {
    number: u16,
    has_tls: bool,
}

impl Addresses {
    pub(super) fn new(config: &Config, grpc: SocketAddr, admin: SocketAddr) -> Self {
        let has_tls = config.tls_cert.is_some();
        let is_same =
            grpc.ip().is_unspecified() || admin.ip().is_unspecified() || grpc.ip() == admin.ip();
        let api_host = match grpc.ip() {
            std::net::IpAddr::V4(address) => Host::Ipv4(address),
            std::net::IpAddr::V6(address) => Host::Ipv6(address),
        };
        Self {
            api: Port {
                number: grpc.port(),
                has_tls,
            },
            admin: Port {
                number: admin.port(),
                has_tls: has_tls && config.admin_tls,
            },
            api_host: (!is_same).then_some(api_host),
            named: config.page_coordinators.clone(),
        }
    }

    /// Returns the addresses that a page calls if its browser reached it by `host`.
    pub(super) fn coordinators(&self, host: &Host) -> Vec<String> {
        match &self.named {
            Some(named) => named.listed().to_vec(),
            None => vec![self.api.origin(self.api_host.as_ref().unwrap_or(host))],
        }
    }

    /// Returns whether an origin is that of this coordinator's page, for a call to `host`.
    pub(super) fn is_own(&self, origin: &[u8], host: &Host) -> bool {
        (is_certain(host) || self.admin.has_tls) && self.admin.origin(host).as_bytes() == origin
    }
}

impl Port {
    /// Returns the origin of this port on a host, as browsers write it.
    fn origin(self, host: &Host) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        let origin = url::Origin::Tuple(scheme.to_owned(), host.clone(), self.number);
        origin.ascii_serialization()
    }
}

/// Returns whether nobody can point a host elsewhere: it is an address, or this machine.
pub(super) fn is_certain(host: &Host) -> bool {
    match host {
        Host::Ipv4(_) | Host::Ipv6(_) => true,
        Host::Domain(name) => name == "localhost",
    }
}

/// Returns the host of an authority (`HOST:PORT`), unless it could mean something else where it is put.
pub(super) fn host_of(authority: &str) -> Option<Host> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter);
    if !authority.chars().all(is_plain) {
        return None;
    }
    let url = Url::parse(&format!("http://{authority}/")).ok()?;
    url.host().map(|host| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(config: &Config, grpc: &str, admin: &str) -> Addresses {
        Addresses::new(config, grpc.parse().unwrap(), admin.parse().unwrap())
    }

    fn with_tls() -> Config {
        Config {
            tls_cert: Some("cert.pem".into()),
            admin_tls: true,
            ..Config::default()
        }
    }

    fn is_own(addresses: &Addresses, origin: &str, authority: &str) -> bool {
        host_of(authority).is_some_and(|host| addresses.is_own(origin.as_bytes(), &host))
    }

    #[test]
    fn the_page_is_the_admin_port_of_the_host_that_is_called() {
        let plain = addresses(&Config::default(), "127.0.0.1:7420", "127.0.0.1:7421");
        for (origin, authority, expected) in [
            ("http://127.0.0.1:7421", "127.0.0.1:7420", true),
            ("http://localhost:7421", "localhost:7420", true),
            ("http://[::1]:7421", "[::1]:7420", true),
            // Another port, scheme or host.
            ("http://localhost:3000", "localhost:7420", false),
            ("http://localhost", "localhost:7420", false),
            ("https://localhost:7421", "localhost:7420", false),
            ("http://192.0.2.1:7421", "127.0.0.1:7420", false),
            ("http://127.0.0.1:7421", "localhost:7420", false),
            ("null", "localhost:7420", false),
            // A name that could be pointed here after its page was loaded from elsewhere.
            ("http://evil.example:7421", "evil.example:7420", false),
            ("http://localhost.evil:7421", "localhost.evil:7420", false),
        ] {
            let is_own = is_own(&plain, origin, authority);
            assert_eq!(is_own, expected, "{origin} to {authority}");
        }
    }

    #[test]
    fn a_name_is_certain_where_there_is_a_certificate() {
        let tls = addresses(&with_tls(), "0.0.0.0:7420", "0.0.0.0:7421");
        let name = "locks.example:7420";
        assert!(is_own(&tls, "https://locks.example:7421", name));
        assert!(!is_own(&tls, "http://locks.example:7421", name));
        assert!(!is_own(&tls, "https://other.example:7421", name));
        let half = Config {
            admin_tls: false,
            ..with_tls()
        };
        let half = addresses(&half, "0.0.0.0:7420", "0.0.0.0:7421");
        assert!(!is_own(&half, "http://locks.example:7421", name));
        let tls = addresses(&with_tls(), "0.0.0.0:7420", "0.0.0.0:443");
        assert!(is_own(&tls, "https://locks.example", name));
    }

    #[test]
    fn the_page_calls_the_host_that_it_came_from() {
        let called = |config: &Config, grpc: &str, authority: &str| {
            addresses(config, grpc, "127.0.0.1:7421").coordinators(&host_of(authority).unwrap())
        };
        let (plain, tls) = (Config::default(), with_tls());
        for (config, grpc, admin, expected) in [
            (&plain, "127.0.0.1", "localhost", "http://localhost"),
            (&plain, "0.0.0.0", "localhost", "http://localhost"),
            (&plain, "192.0.2.1", "127.0.0.1", "http://192.0.2.1"),
            (&tls, "0.0.0.0", "[::1]", "https://[::1]"),
        ] {
            let found = called(config, &format!("{grpc}:7420"), &format!("{admin}:7421"));
            assert_eq!(found, [format!("{expected}:7420")]);
        }
        let named = Config {
            page_coordinators: Some("https://a.example:7420,https://b.example".parse().unwrap()),
            ..Config::default()
        };
        let expected = ["https://a.example:7420", "https://b.example"];
        assert_eq!(called(&named, "0.0.0.0:1", "localhost:2"), expected);
    }
}
