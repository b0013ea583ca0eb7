//! Connection settings.

use std::{net::SocketAddr, time::Duration};

use tonic::transport::{Endpoint, Uri};

use crate::{
    endpoints::Endpoints,
    error::ConnectError,
    trace::TraceSource,
    transport::{Credentials, Target},
};

/// How long a quiet connection stays unprobed, and how long a probe may go unanswered. Together longer than what is
/// common for a TTL: a lease must end by its own deadline, not because a probe was late.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How much of a stream that tells what happens may lie here unread; the coordinator keeps the rest to itself.
const UNREAD: u32 = 64 << 10;
/// The same for all such streams of a connection together: the most that there is, since each is bounded already. With
/// less, some that are not read would hold up those that are.
const UNREAD_TOGETHER: u32 = (1 << 31) - 1;

/// What all sessions and calls of a client share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) endpoints: Endpoints,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff_min: Duration,
    pub(crate) backoff_max: Duration,
    /// What these endpoints are told of who asks, and trusted by.
    pub(crate) credentials: Credentials,
    /// Which trace what is asked is part of.
    pub(crate) traces: TraceSource,
}

impl Settings {
    /// The defaults.
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

    /// For the connection of one session, to one of the addresses that the endpoint stands for: whoever is there has to be
    /// what the endpoint names. A session lives for long: what is asked on it tells its own trace, and it is part of none.
    pub(crate) fn session_target(
        &self,
        url: &str,
        address: SocketAddr,
    ) -> Result<Target, ConnectError> {
        let (endpoint, origin) = self.endpoint_at(url, address)?;
        self.target(probed(endpoint).keep_alive_while_idle(true), &origin)
    }

    /// For streams that tell what happens. Probed while there are any: nothing is said on them for as long as nothing
    /// happens.
    pub(crate) fn watch_target(&self, url: &str) -> Result<Target, ConnectError> {
        let endpoint = self.endpoint(url)?;
        let uri = endpoint.uri().clone();
        let endpoint = probed(endpoint)
            .initial_stream_window_size(UNREAD)
            .initial_connection_window_size(UNREAD_TOGETHER);
        Ok(self.target(endpoint, &uri)?.traced(&self.traces))
    }

    /// For single calls.
    pub(crate) fn call_target(&self, url: &str) -> Result<Target, ConnectError> {
        let endpoint = self.endpoint(url)?;
        let uri = endpoint.uri().clone();
        Ok(self.target(endpoint, &uri)?.traced(&self.traces))
    }

    /// For single calls to one of the addresses that the endpoint stands for.
    pub(crate) fn call_target_at(
        &self,
        url: &str,
        address: SocketAddr,
    ) -> Result<Target, ConnectError> {
        let (endpoint, origin) = self.endpoint_at(url, address)?;
        Ok(self.target(endpoint, &origin)?.traced(&self.traces))
    }

    fn target(&self, endpoint: Endpoint, uri: &Uri) -> Result<Target, ConnectError> {
        Ok(Target::new(endpoint, uri, &self.credentials)?)
    }

    /// Returns an endpoint that connects to the address, and the URI of what must answer there.
    fn endpoint_at(&self, url: &str, address: SocketAddr) -> Result<(Endpoint, Uri), ConnectError> {
        let origin = self.endpoint(url)?.uri().clone();
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
            && uri.port_u16().is_some()
            && !authority.contains('@');
        if !is_known || !is_complete {
            return Err(invalid(None));
        }
        endpoint
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .user_agent(concat!("leasehold-client/", env!("CARGO_PKG_VERSION")))
            .map_err(|source| invalid(Some(source.into())))
    }
}

fn probed(endpoint: Endpoint) -> Endpoint {
    endpoint
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
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
            assert_eq!(settings.call_target(url).is_ok(), good, "{endpoint}");
        }
    }
}
