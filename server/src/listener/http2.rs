//! Settings of HTTP that go with the listener.

use std::time::Duration;

use tonic::transport::Server;

use crate::config::Config;

/// Most unread bytes of a peer in one stream: a few hundred requests.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Most unread bytes of a peer in all streams of a connection.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// Most bytes of one request's headers, as HTTP/2 counts them. With HTTP/1, the layer of Connect checks them. Leasehold's are a few
/// hundred; tokens of proxies and meshes need more.
pub(crate) const HEADER_LIST: u32 = 16 * 1024;
/// Streams that the server itself may reset over the whole life of a connection, in answer to invalid frames. The library's
/// own limit of 1024 would end a connection that lives for months.
const RESETS_BY_US: usize = 100_000;
/// Calls that may be cancelled before the server has accepted them. With the library's own limit of 20, sixty calls
/// cancelled quickly would end the connection, and its sessions.
const CANCELLED_UNSEEN: usize = 10_000;
/// Time that no connection goes without an answer: the listener closes silent ones much earlier.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns a tonic server for HTTP/1 and HTTP/2, with settings for long-lived sessions.
///
/// It pings each idle HTTP/2 connection every `keepalive-interval`, but leaves it to the listener to close one that does not
/// answer: HTTP/2's own time-out looks to a stream like a close by its client, cannot end a connection whose socket is
/// full, and after a pause of this process fires before the answer that waits in the socket is read.
pub fn http2_server(config: &Config) -> Server {
    let streams = config.max_concurrent_streams;
    Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(config.keepalive_interval))
        .http2_keepalive_timeout(Some(NEVER))
        .http2_adaptive_window(Some(false))
        .http2_max_header_list_size(HEADER_LIST)
        .http2_max_local_error_reset_streams(Some(RESETS_BY_US))
        .http2_max_pending_accept_reset_streams(Some(CANCELLED_UNSEEN.max(streams as usize)))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_concurrent_streams(streams)
}
