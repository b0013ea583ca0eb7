//! Sessions over WebSockets: what holds a lock, and what its connection's end does to it.

mod abuse;
mod client;
mod connections;
mod handshakes;
mod sessions;
