//! End of a connection: whose doing it was, as far as the kernel and HTTP/2 tell.

use std::io;

/// End of a connection. The first cause that became known sticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer closed its side: its process exited or was killed, or it shut its sending side down.
    PeerClosed,
    /// The peer reset the connection: its process was killed with data unread, or its machine restarted.
    PeerReset,
    /// The kernel gave up (timed out, no route, unreachable). The peer may well be alive: this is silence.
    Unreachable,
    /// The coordinator ended it: silence, a missed handshake, a reader too slow, a shutdown. The peer did nothing.
    Local,
    /// HTTP/2 let go of it with the socket in good health: the client said goodbye, the server drained, or the
    /// protocol was broken. Whose doing it was differs from stream to stream, see
    /// [`ConnectionHandle::peer_ended_stream`](super::ConnectionHandle::peer_ended_stream).
    Finished,
}

impl Ending {
    /// Returns whether the peer is known to have ended the connection.
    #[must_use]
    pub const fn by_peer(self) -> bool {
        matches!(self, Self::PeerClosed | Self::PeerReset)
    }

    /// Returns the ending that a failed read or write stands for.
    ///
    /// Only an error that must come from the peer's side counts as its doing; every other is silence, which costs a
    /// waiter the rest of a TTL but never lets two holders overlap.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::PeerReset,
            _ => Self::Unreachable,
        }
    }
}
