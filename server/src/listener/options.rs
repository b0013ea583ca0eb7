//! Options of the listener.

use std::time::Duration;

use crate::{config::Config, limits::most_connections, tls::Tls};

/// Limits of the listener's connections.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// Connections served at the same time. One more is accepted and closed at once, so that its client sees a
    /// refusal rather than a time-out. 16384 by default.
    pub max_connections: usize,
    /// Connections of one address at the same time; 0 is any number. 0 by default.
    pub max_connections_per_address: usize,
    /// Time within which a connection must have sent its HTTP/2 preface and the header of its first SETTINGS frame, or the head of
    /// its first HTTP/1 request, its TLS handshake included. 5 seconds by default.
    pub handshake_timeout: Duration,
    /// Time without a single byte read after which a connection is closed as [`Ending::Local`](super::Ending::Local), unless a session on
    /// it has a longer TTL: then that. With HTTP/1,
    /// time without a call and without a byte written, however much of another request was read. `None` waits for ever. The HTTP/2
    /// server must ping more often than this; [`http2_server`](super::http2_server)
    /// does. 10 seconds by default.
    pub max_silence: Option<Duration>,
    /// Certificates to serve with. `None`, without TLS, by default.
    pub tls: Option<Tls>,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self::from(&Config::default())
    }
}

impl From<&Config> for ListenerOptions {
    /// Returns the options of a configuration, without TLS: its certificates have yet to be [read](Tls::start).
    fn from(config: &Config) -> Self {
        Self {
            max_connections: most_connections(config.max_connections),
            max_connections_per_address: config.max_connections_per_address,
            handshake_timeout: config.handshake_timeout,
            max_silence: Some(config.keepalive_interval + config.keepalive_timeout),
            tls: None,
        }
    }
}
