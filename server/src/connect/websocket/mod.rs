//! WebSockets, for methods that stream both ways over HTTP/1.1.
//!
//! One WebSocket is one call. Each text message is one message of the stream in JSON; the last one is `{"end": …}`, with the error if
//! the call failed, and a close frame follows it. The client ends its stream by a close frame, or by the end of its connection.
//!
//! - `upgrade`: the request that asks for it, and its answer;
//! - `requests`: the queue between the socket and the call's request body;
//! - `answering`: a bound on the answers to pings;
//! - `socket`: the task that serves a WebSocket, until the call or the connection has ended.

mod answering;
mod requests;
mod socket;
#[cfg(test)]
mod tests;
mod upgrade;

pub(super) use self::{
    socket::{Settings, serve},
    upgrade::{Upgrade, is_asked},
};
