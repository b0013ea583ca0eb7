//! Where and how to connect.

use std::time::Duration;

use tonic::transport::Endpoint;

use crate::error::ConnectError;

/// How long a quiet connection stays unprobed, and how long a probe may go unanswered. Together longer than what is
/// common for a TTL: a lease must end by its own deadline, not because a probe was late.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What all sessions and calls of a client share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) endpoint: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff_min: Duration,
    pub(crate) backoff_max: Duration,
}

impl Settings {
    /// For the connection of one session.
    pub(crate) fn session_endpoint(&self) -> Result<Endpoint, ConnectError> {
        Ok(self
            .endpoint()?
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true))
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
            let settings = Settings {
                endpoint: endpoint.into(),
                connect_timeout: Duration::from_secs(1),
                backoff_min: Duration::ZERO,
                backoff_max: Duration::ZERO,
            };
            assert_eq!(settings.session_endpoint().is_ok(), good, "{endpoint}");
        }
    }
}
