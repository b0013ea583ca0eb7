//! Watchdog task of one connection: ends what HTTP would let linger.

use std::{future::pending, io, sync::Arc, time::Duration};

use tokio::{io::Interest, net::TcpStream, time::sleep};

use super::{ConnectionHandle, Connections, Ending, ListenerOptions};

/// Time that the server gets to read up to a close that the kernel already knows of.
const READ_UP: Duration = Duration::from_millis(250);
/// Factor by which the server gets longer while it still reads.
const READ_UPS: u32 = 20;
/// Extra time of a silent connection, so that after a pause of the coordinator (a stopped process, a starved machine) it
/// first reads what had arrived meanwhile.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// Number of looks at an HTTP/1 connection during a call, in the time for which it may be unused afterwards.
const LOOKS: u32 = 4;
/// Time that the server gets to drop a connection that has ended.
const LET_GO: Duration = Duration::from_secs(2);

/// Reason to kill a connection.
enum Overdue {
    Handshake,
    Silence,
    Unused,
}

/// Watches one connection until the server has dropped it.
pub(super) async fn watch(
    socket: Arc<TcpStream>,
    handle: ConnectionHandle,
    connections: Connections,
    options: Arc<ListenerOptions>,
) {
    tokio::select! {
        biased;
        _ = handle.ended() => {}
        () = half_closed(&socket, &handle) => handle.record(Ending::PeerClosed),
        overdue = overdue(&handle, &options) => {
            let totals = connections.totals();
            match overdue {
                Overdue::Handshake => {
                    totals.handshake_timeouts.inc();
                    tracing::debug!(peer = %handle.peer_addr(), "closing a connection without a handshake or a first request");
                    handle.kill();
                }
                Overdue::Silence => {
                    totals.silent.inc();
                    tracing::info!(peer = %handle.peer_addr(), idle = ?handle.idle_for(), "closing a silent connection");
                    handle.kill();
                }
                Overdue::Unused => {
                    tracing::debug!(peer = %handle.peer_addr(), "closing an unused HTTP/1 connection");
                    handle.close();
                }
            }
        }
    }
    // An ended connection with a full socket would keep HTTP/2 flushing for as long as the kernel retransmits.
    tokio::select! {
        biased;
        () = handle.released() => {}
        () = sleep(LET_GO) => handle.kill(),
    }
}

/// Waits until the peer has closed its sending side and the server has failed to notice.
///
/// HTTP/2 stops reading while it cannot write a control frame, so behind a full socket a close goes unread. (A reset
/// does not: it wakes the writer.) Where the server does read, it finds the close itself, after everything that was
/// sent before it; this only steps in late.
async fn half_closed(socket: &TcpStream, handle: &ConnectionHandle) {
    if closed(socket).await.is_err() {
        return pending().await;
    }
    for _ in 0..READ_UPS {
        sleep(READ_UP).await;
        // The peer may have sent much before, which the server reads in turns.
        if handle.idle_for() >= READ_UP {
            break;
        }
    }
    // A connection that was reset or timed out has no peer address any more. Its error is for the server's next read
    // or write to find: taking it here would make that one look like an orderly close.
    if socket.peer_addr().is_err() {
        pending().await
    }
}

/// Waits until the kernel knows that the peer has closed its sending side, or that the connection is gone.
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(leasehold_portable)
))]
async fn closed(socket: &TcpStream) -> io::Result<()> {
    // `PRIORITY` is signalled when the peer closes, but, unlike `READABLE`, not whenever there is something to read.
    socket.ready(Interest::PRIORITY).await.map(drop)
}

/// Waits until the kernel knows that the peer has closed its sending side, or that the connection is gone. Elsewhere than on
/// Linux the same signal tells of data, so the watchdog looks once in a while as long as there are data.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(leasehold_portable)
)))]
async fn closed(socket: &TcpStream) -> io::Result<()> {
    while !socket.ready(Interest::READABLE).await?.is_read_closed() {
        sleep(READ_UP).await;
    }
    Ok(())
}

async fn overdue(handle: &ConnectionHandle, options: &ListenerOptions) -> Overdue {
    let handshake = async {
        sleep(options.handshake_timeout).await;
        if handle.has_handshaken() {
            pending::<()>().await;
        }
    };
    let silence = async {
        let Some(limit) = options.max_silence else {
            return pending().await;
        };
        loop {
            match left(handle, limit) {
                // What is allowed for a session may end before.
                Some(left) if !left.is_zero() => sleep(left.min(limit)).await,
                None => sleep(limit / LOOKS).await,
                Some(_) => {
                    sleep(SECOND_LOOK).await;
                    if left(handle, limit).is_some_and(|left| left.is_zero()) {
                        return if handle.is_http1() {
                            Overdue::Unused
                        } else {
                            Overdue::Silence
                        };
                    }
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = handshake => Overdue::Handshake,
        overdue = silence => overdue,
    }
}

/// Returns the rest of the time for which a connection may be silent: `limit`, or longer if its sessions say so; with HTTP/1, for which
/// it may have no call and no byte written,
/// and `None` during a call. What HTTP/1 reads does not count: a client may send the head of a request byte by byte.
fn left(handle: &ConnectionHandle, limit: Duration) -> Option<Duration> {
    if handle.is_http1() {
        return Some(limit.saturating_sub(handle.unused_for()?));
    }
    let limit = limit.max(handle.allowed_silence());
    Some(limit.saturating_sub(handle.idle_for()))
}

#[cfg(test)]
mod tests;
