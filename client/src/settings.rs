//! Where and how to connect.

use std::time::Duration;

use tonic::transport::Endpoint;

use crate::error::ConnectError;

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
    pub(crate) endpoint: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff_min: Duration,
    pub(crate) backoff_max: Duration,
}

impl Settings {
    /// The defaults.
    pub(crate) fn new(endpoint: String) -> Self {
        Self {
            endpoint,
            connect_timeout: Duration::from_secs(5),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
        }
    }

    /// For the connection of one session.
    pub(crate) fn session_endpoint(&self) -> Result<Endpoint, ConnectError> {
        Ok(self.probed()?.keep_alive_while_idle(true))
    }

    /// For streams that tell what happens. Probed while there are any: nothing is said on them for as long as nothing
    /// happens.
    pub(crate) fn watch_endpoint(&self) -> Result<Endpoint, ConnectError> {
        Ok(self
            .probed()?
            .initial_stream_window_size(UNREAD)
            .initial_connection_window_size(UNREAD_TOGETHER))
    }

    fn probed(&self) -> Result<Endpoint, ConnectError> {
        Ok(self
            .endpoint()?
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE))
    }

    /// For single calls.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, ConnectError> {
        let invalid = |source| ConnectError::InvalidEndpoint {
            endpoint: self.endpoint.clone(),
            source,
        };
        let endpoint =
            Endpoint::from_shared(self.endpoint.clone()).map_err(|source| invalid(Some(source)))?;
        let uri = endpoint.uri();
        if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
            return Err(invalid(None));
        }
        endpoint
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .user_agent(concat!("leasehold-client/", env!("CARGO_PKG_VERSION")))
            .map_err(|source| invalid(Some(source)))
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
            ("127.0.0.1:7420", false),
            ("https://locks.example", false),
            ("http://", false),
            ("", false),
            ("not a url", false),
        ] {
            let settings = Settings::new(endpoint.into());
            assert_eq!(settings.session_endpoint().is_ok(), good, "{endpoint}");
        }
    }
}
