//! Connection settings.

use std::{net::SocketAddr, time::Duration};

use tonic::transport::{Endpoint, Uri};

use crate::{
    endpoints::Endpoints,
    error::ConnectError,
    trace::TraceSource,
    transport::{Credentials, Target},
};

/// Interval of probes on a quiet connection for events, and time limit of their answers.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Most bytes of a stream of events that may lie here unread; the coordinator keeps the rest.
const UNREAD: u32 = 64 << 10;
/// The same for all such streams of a connection together: the most that there is, since each is bounded already. With
/// less, some that are not read would hold up those that are.
const UNREAD_TOGETHER: u32 = (1 << 31) - 1;

/// Settings that all sessions and calls of a client share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) endpoints: Endpoints,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff_min: Duration,
    pub(crate) backoff_max: Duration,
    /// Credentials for these endpoints, and the CAs that they are trusted by.
    pub(crate) credentials: Credentials,
    /// Source of the trace that a request is part of.
    pub(crate) traces: TraceSource,
}

impl Settings {
    /// Returns the defaults.
    pub(crate) fn new(endpoints: Endpoints) -> Self {
        Self {
            endpoints,
            connect_timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            credentials: Credentials::default(),
            traces: TraceSource::default(),
        }
    }

    /// Returns the target of one session: one of the endpoint's addresses, where the server must be the one that the
    /// endpoint names. A session lives long and is part of no trace; each of its requests names its own. Its connection is not probed:
    /// the session misses answers to its heartbeats, and lives as long as its TTL says.
    pub(crate) fn session_target(
        &self,
        url: &str,
        address: SocketAddr,
    ) -> Result<Target, ConnectError> {
        let (endpoint, origin) = self.endpoint_at(url, Some(address))?;
        Ok(Target::new(endpoint, &origin, &self.credentials)?)
    }

    /// Returns the target of streams of events. Its connection is probed while there are any, because no message comes for
    /// as long as nothing happens.
    pub(crate) fn watch_target(
        &self,
        url: &str,
        address: Option<SocketAddr>,
    ) -> Result<Target, ConnectError> {
        let (endpoint, origin) = self.endpoint_at(url, address)?;
        let endpoint = endpoint
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .initial_stream_window_size(UNREAD)
            .initial_connection_window_size(UNREAD_TOGETHER);
        Ok(Target::new(endpoint, &origin, &self.credentials)?.traced(&self.traces))
    }

    /// Returns the target of single calls: the endpoint, or one of its addresses.
    pub(crate) fn call_target(
        &self,
        url: &str,
        address: Option<SocketAddr>,
    ) -> Result<Target, ConnectError> {
        let (endpoint, origin) = self.endpoint_at(url, address)?;
        Ok(Target::new(endpoint, &origin, &self.credentials)?.traced(&self.traces))
    }

    /// Returns an endpoint that connects to the address, if there is one, and the URI of what must answer there.
    fn endpoint_at(
        &self,
        url: &str,
        address: Option<SocketAddr>,
    ) -> Result<(Endpoint, Uri), ConnectError> {
        let endpoint = self.endpoint(url)?;
        let origin = endpoint.uri().clone();
        let Some(address) = address else {
            return Ok((endpoint, origin));
        };
        let endpoint = self.endpoint(&format!("http://{address}"))?;
        Ok((endpoint.origin(origin.clone()), origin))
    }

    fn endpoint(&self, url: &str) -> Result<Endpoint, ConnectError> {
        let invalid = |source| ConnectError::InvalidEndpoint {
            endpoint: url.to_owned(),
            source,
        };
        let endpoint =
            Endpoint::from_shared(url.to_owned()).map_err(|source| invalid(Some(source.into())))?;
        let uri = endpoint.uri();
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let is_complete = uri.host().is_some_and(|host| !host.is_empty())
            && uri.port_u16().is_some_and(|port| port > 0)
            && !authority.contains('@');
        // A fragment is not part of a `Uri`.
        let has_path = uri.path() != "/" || uri.query().is_some() || url.contains('#');
        if !is_known || !is_complete || has_path {
            return Err(invalid(None));
        }
        endpoint
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .user_agent(concat!("leasehold-client/", env!("CARGO_PKG_VERSION")))
            .map_err(|source| invalid(Some(source.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_that_can_be_connected_to_are_taken() {
        for (endpoint, good) in [
            ("http://127.0.0.1:7420", true),
            ("http://[::1]:7420", true),
            ("http://locks.example", true),
            ("127.0.0.1:7420", true),
            ("127.0.0.1", true),
            ("http://127.0.0.1:99999", false),
            ("http://127.0.0.1:", false),
            ("http://user@127.0.0.1", false),
            ("http://127.0.0.1:0", false),
            ("http://127.0.0.1:7420/", true),
            ("http://127.0.0.1:7420/path", false),
            ("http://127.0.0.1:7420?query", false),
            ("http://127.0.0.1:7420/#fragment", false),
            ("https://locks.example", true),
            ("https://[::1]:7420", true),
            ("ftp://locks.example", false),
            ("http://", false),
            ("https://", false),
            ("", false),
            ("not a url", false),
        ] {
            let settings = Settings::new(endpoint.into());
            let url = &settings.endpoints.urls()[0];
            assert_eq!(settings.call_target(url, None).is_ok(), good, "{endpoint}");
        }
    }
}
