//! Listener under the gRPC server, for HTTP/2 and HTTP/1.
//!
//! A lease needs functions of its connection that an HTTP/2 library lacks: how the peer ended (closed, reset, or
//! silent), when it last sent something, and how to close a connection whose peer does not read. So this module owns
//! the sockets, and tonic serves the connections that [`accept`] yields.
//!
//! - [`accept`] turns a listening socket into a stream of [`Connection`]s, up to a limit;
//! - [`ConnectionHandle`] travels in each request's extensions; a session asks it [how its stream
//!   ended](ConnectionHandle::peer_ended_stream) and uses its kill switch;
//! - with TLS, a connection does its own handshake, and reports its endings as without;
//! - a connection's first bytes show its protocol. HTTP/1 has no pings: silence during a call says nothing, so the kernel probes the
//!   peer, and the watchdog closes a connection on which nothing is asked or answered;
//! - a WebSocket takes its connection over from tonic ([`ConnectionHandle`]), pings its peer, and is watched like HTTP/2;
//! - [`Connections`] is the registry: it knows all connections, counts refused ones, and can end them all;
//! - [`http2_server`] makes a tonic server whose HTTP/2 settings go with this listener.

mod accept;
mod calls;
mod cancels;
mod connection;
mod ending;
mod handle;
mod http2;
mod options;
mod registry;
#[cfg(test)]
pub(crate) mod tests;
mod watchdog;
mod wire;

pub use accept::accept;
pub use calls::UnderWay;
pub use connection::Connection;
pub use ending::Ending;
pub(crate) use handle::Transport;
pub use handle::{ConnectionHandle, SilenceAllowed};
pub(crate) use http2::HEADER_LIST;
pub use http2::http2_server;
pub use options::ListenerOptions;
pub use registry::{ConnectionTotals, Connections};
