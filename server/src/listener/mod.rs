//! The accept loop under the gRPC server.
//!
//! A lease needs to know things about its connection that an HTTP/2 library neither tells nor does: how the peer
//! ended (closed, reset, or just fell silent), when it was last heard of, and how to close a connection whose peer
//! does not read. So the sockets are ours, and tonic serves what [`accept`] yields.
//!
//! - [`accept`] turns a listening socket into a stream of [`Connection`]s, up to a limit;
//! - [`ConnectionHandle`] travels in each request's extensions; a session asks it [how its stream
//!   ended](ConnectionHandle::peer_ended_stream) and uses its kill switch;
//! - with TLS, a connection's handshake is its own doing, and its endings are told as without;
//! - [`Connections`] is the registry: who is connected, how many were turned away, and the way to end them all;
//! - [`http2_server`] makes a tonic server whose HTTP/2 settings go with this listener.

mod accept;
mod cancels;
mod connection;
mod handle;
mod http2;
mod registry;
mod watchdog;
mod wire;

pub use accept::{ListenerOptions, accept};
pub use cancels::UnderWay;
pub use connection::Connection;
pub use handle::{ConnectionHandle, Ending};
pub use http2::http2_server;
pub use registry::{ConnectionTotals, Connections};
