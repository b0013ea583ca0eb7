//! Handle on a connection for the sessions that it carries: how it ended, and a way to kill it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    error::Error,
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::net::Shutdown;
use rustls::pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Notify, oneshot},
};
use tonic::Status;

use super::{
    cancels::{Cancels, Suspected},
    ending::Ending,
};
use crate::{
    access::Shown,
    admission::{Admission, CallQueue},
};

/// Connection that its HTTP server has left, with TLS around it or without.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

/// A handle on one connection: cheap to clone, and found in the extensions of every request that it carried.
///
/// It keeps neither the socket open nor the connection alive.
#[derive(Clone)]
pub struct ConnectionHandle {
    link: Arc<Link>,
}

struct Link {
    id: u64,
    peer: SocketAddr,
    opened: Instant,
    /// Nanoseconds from `opened` to the last successful read.
    last_read: AtomicU64,
    handshaken: AtomicBool,
    http1: AtomicBool,
    /// Calls in flight, if the connection speaks HTTP/1.
    in_flight: AtomicUsize,
    /// Nanoseconds from `opened` to the last end of a call or written byte, if the connection speaks HTTP/1.
    last_active: AtomicU64,
    /// For how long it may be silent because of the sessions on it: their TTLs, and how many have each.
    silences: Mutex<BTreeMap<Duration, usize>>,
    /// Silence after which the kernel ends the connection, if it probes the peer.
    probed: OnceLock<Duration>,
    cancels: Cancels,
    /// Calls begun since the last look.
    begun: AtomicUsize,
    /// Queue in which its unary calls wait for admission, once there was one.
    calls: OnceLock<Arc<CallQueue>>,
    ending: OnceLock<Ending>,
    killed: AtomicBool,
    released: AtomicBool,
    /// Notified when `ending` or `released` changes.
    changed: Notify,
    socket: Weak<TcpStream>,
    /// The identity that the client's certificates show, if any, once its TLS handshake is over.
    certificate: OnceLock<Arc<Shown>>,
    /// Receiver of the connection when its server drops it.
    successor: Mutex<Option<oneshot::Sender<Box<dyn Transport>>>>,
}

impl ConnectionHandle {
    pub(super) fn new(id: u64, peer: SocketAddr, socket: &Arc<TcpStream>) -> Self {
        Self {
            link: Arc::new(Link {
                id,
                peer,
                opened: Instant::now(),
                last_read: AtomicU64::new(0),
                handshaken: AtomicBool::new(false),
                http1: AtomicBool::new(false),
                in_flight: AtomicUsize::new(0),
                last_active: AtomicU64::new(0),
                silences: Mutex::default(),
                probed: OnceLock::new(),
                cancels: Cancels::default(),
                begun: AtomicUsize::new(0),
                calls: OnceLock::new(),
                ending: OnceLock::new(),
                killed: AtomicBool::new(false),
                released: AtomicBool::new(false),
                changed: Notify::new(),
                socket: Arc::downgrade(socket),
                certificate: OnceLock::new(),
                successor: Mutex::default(),
            }),
        }
    }

    /// Returns the connection's number, counted from 1 since the listener's start.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.link.id
    }

    /// Returns the address of the other end.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.link.peer
    }

    /// Returns the certificates with which the client has identified itself, its own first; `None` without TLS, and if it has shown
    /// none with an identity.
    #[must_use]
    pub fn peer_certificates(&self) -> Option<Arc<[CertificateDer<'static>]>> {
        self.certificate().map(|shown| shown.chain())
    }

    /// Returns the identity in the client's certificate; `None` if it has shown no certificate, or one without an identity.
    pub(crate) fn certificate(&self) -> Option<&Arc<Shown>> {
        self.link.certificate.get()
    }

    /// Returns the queue in which its unary calls wait for admission.
    pub(crate) fn calls(&self, admission: &Admission) -> &Arc<CallQueue> {
        let queue = || Arc::new(CallQueue::new(admission.share()));
        self.link.calls.get_or_init(queue)
    }

    /// Returns the connection as soon as its HTTP/1 server drops it, as it does after an answer that switches protocols. The new owner
    /// pings the peer, and the listener closes the connection if it stays silent.
    pub(crate) fn take_over(&self) -> oneshot::Receiver<Box<dyn Transport>> {
        let (sender, receiver) = oneshot::channel();
        *self.link.successor.lock() = Some(sender);
        receiver
    }

    /// Returns the sender to whoever [takes the connection over](Self::take_over), if anybody does.
    pub(super) fn successor(&self) -> Option<oneshot::Sender<Box<dyn Transport>>> {
        self.link.successor.lock().take()
    }

    /// Returns the time since the peer's last byte was read, or since the connection was accepted if none was yet.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        let last = Duration::from_nanos(self.link.last_read.load(Ordering::Relaxed));
        self.link.opened.elapsed().saturating_sub(last)
    }

    /// Lets the peer be silent for this long, for as long as the result lives, if that is longer than the listener's own limit. A session
    /// lives as long as its TTL says, and ends itself when that is over: its stream must not end before.
    #[must_use]
    pub fn allow_silence(&self, limit: Duration) -> SilenceAllowed {
        *self.link.silences.lock().entry(limit).or_default() += 1;
        self.set_probes();
        let handle = self.clone();
        SilenceAllowed { handle, limit }
    }

    /// Returns the longest silence that is allowed at present; zero if none is.
    pub(super) fn allowed_silence(&self) -> Duration {
        let silences = self.link.silences.lock();
        silences.keys().next_back().copied().unwrap_or_default()
    }

    /// Has the kernel probe the peer, if it is to, and end the connection after the silence that is allowed.
    fn set_probes(&self) {
        if let Some(silence) = self.link.probed.get()
            && let Some(socket) = self.link.socket.upgrade()
            && let Err(error) = probe(&socket, self.allowed_silence().max(*silence))
        {
            tracing::debug!(%error, peer = %self.link.peer, "failed to set probes of an HTTP/1 connection");
        }
    }

    /// Returns the way in which the connection ended; `None` while it is alive.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.link.ending.get().copied()
    }

    /// Waits until it is known how the connection ended.
    ///
    /// Requests that were read before the end may still be in the streams' buffers at that moment: a caller that must
    /// honour them (a `close` just before the process exits) reads its stream to its end first.
    pub async fn ended(&self) -> Ending {
        self.until(|handle| handle.ending()).await
    }

    /// Closes the connection at once: all reads and writes fail, pending ones included, and unsent data is discarded.
    /// Its ending is [local](Ending::Local), unless another one was known before.
    ///
    /// This is the only way to end a connection whose peer does not read: behind a full window neither a last message
    /// nor HTTP/2's GOAWAY would ever go out.
    pub fn kill(&self) {
        self.record(Ending::Local);
        self.link.killed.store(true, Ordering::Release);
        if let Some(socket) = self.link.socket.upgrade() {
            // Both fail only if the connection is gone already. Without the first, the kernel would keep and
            // retransmit up to megabytes for a peer that does not read.
            let _ = socket.set_zero_linger();
            // Wakes pending reads and writes, as a hang-up does.
            let _ = rustix::net::shutdown(&*socket, Shutdown::Both);
        }
    }

    /// Closes an HTTP/1 connection that is idle: its server finds the end of the input. Unlike [`kill`](Self::kill), it sends what
    /// was written, and no reset.
    pub(super) fn close(&self) {
        self.record(Ending::Local);
        if let Some(socket) = self.link.socket.upgrade() {
            // Fails only if the connection is gone already.
            let _ = rustix::net::shutdown(&*socket, Shutdown::Both);
        }
    }

    /// Returns whether the peer ended a request stream on this connection, so that the stream's locks may be released at
    /// once. Call it when the stream has ended, with its error, if any.
    ///
    /// If the connection ended first, its [`Ending`] decides. Otherwise the stream's own end does: a half-close and a
    /// cancel (both of which tonic shows as a plain end) and a reset by the peer are its doing; a message that does not
    /// decode, or a connection that was closed because the peer broke the protocol, is the coordinator's.
    #[must_use]
    pub fn peer_ended_stream(&self, error: Option<&Status>) -> bool {
        match self.ending() {
            Some(Ending::PeerClosed | Ending::PeerReset) => true,
            Some(Ending::Unreachable | Ending::Local) => false,
            None | Some(Ending::Finished) => {
                error.is_none_or(|status| http2_cause(status).is_some_and(h2::Error::is_remote))
            }
        }
    }

    pub(super) fn record(&self, ending: Ending) {
        if self.link.ending.set(ending).is_ok() {
            tracing::debug!(connection = self.link.id, peer = %self.link.peer, ?ending, "connection ended");
            self.link.changed.notify_waiters();
        }
    }

    /// Notes the client's certificates, its own first. They were good at the handshake, which is over before any request is read:
    /// [`ClientTrust`](crate::tls::ClientTrust) tells whether they still are.
    pub(super) fn note_certificates(&self, chain: Arc<[CertificateDer<'static>]>) {
        if let Some(shown) = Shown::new(chain) {
            // There is one handshake in a connection.
            let _ = self.link.certificate.set(Arc::new(shown));
        }
    }

    pub(super) fn note_read(&self) {
        self.link.last_read.store(self.now(), Ordering::Relaxed);
    }

    pub(super) fn note_call(&self) {
        self.link.begun.fetch_add(1, Ordering::Relaxed);
        if self.is_http1() {
            self.link.in_flight.fetch_add(1, Ordering::Relaxed);
            self.note_handshake();
        }
    }

    pub(super) fn note_call_over(&self) {
        if self.is_http1() {
            self.link.last_active.store(self.now(), Ordering::Relaxed);
            self.link.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notes that bytes were written. On HTTP/1 they belong to an answer, so that a request has come.
    pub(super) fn note_written(&self) {
        if self.is_http1() {
            self.link.last_active.store(self.now(), Ordering::Relaxed);
            self.note_handshake();
        }
    }

    /// Notes that the connection speaks HTTP/1, before its first request. The kernel probes its peer from now on, and ends the
    /// connection once nothing of the peer has come for `max_silence`.
    pub(super) fn note_http1(&self, max_silence: Option<Duration>) {
        self.link.http1.store(true, Ordering::Release);
        if let Some(silence) = max_silence {
            // A connection has one protocol.
            let _ = self.link.probed.set(silence);
            self.set_probes();
        }
    }

    /// Notes that the peer is pinged from now on, as over HTTP/2: silence means something.
    pub(super) fn note_pinged(&self) {
        self.link.http1.store(false, Ordering::Release);
    }

    pub(super) fn is_http1(&self) -> bool {
        self.link.http1.load(Ordering::Acquire)
    }

    /// Returns for how long an HTTP/1 connection has had no call in flight and no byte written; `None` during a call.
    pub(super) fn unused_for(&self) -> Option<Duration> {
        if self.link.in_flight.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let last = Duration::from_nanos(self.link.last_active.load(Ordering::Relaxed));
        Some(self.link.opened.elapsed().saturating_sub(last))
    }

    /// Returns the nanoseconds since the connection was opened.
    fn now(&self) -> u64 {
        u64::try_from(self.link.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns how many calls have begun since the last call of this.
    pub(super) fn calls_begun(&self) -> usize {
        self.link.begun.swap(0, Ordering::Relaxed)
    }

    pub(super) fn note_cancelled_at_once(&self) {
        if self.link.cancels.add(self.link.opened.elapsed()) {
            tracing::info!(
                peer = %self.link.peer,
                "a client cancels calls as soon as it makes them; reading less often from it"
            );
        }
    }

    pub(super) fn note_suspected(&self) -> Suspected {
        self.link.cancels.suspect(self.link.opened.elapsed())
    }

    pub(super) fn note_known(&self, suspected: Suspected) {
        self.link.cancels.is_known(&suspected);
    }

    /// Returns whether the connection cancels too many calls at once.
    pub(super) fn cancels_too_many(&self) -> bool {
        self.link.cancels.are_many(|| self.link.opened.elapsed())
    }

    pub(super) fn note_handshake(&self) {
        self.link.handshaken.store(true, Ordering::Release);
    }

    pub(super) fn has_handshaken(&self) -> bool {
        self.link.handshaken.load(Ordering::Acquire)
    }

    pub(super) fn is_killed(&self) -> bool {
        self.link.killed.load(Ordering::Acquire)
    }

    /// Notes that the server has dropped the connection.
    pub(super) fn release(&self) {
        self.record(Ending::Finished);
        self.link.released.store(true, Ordering::Release);
        self.link.changed.notify_waiters();
    }

    /// Waits until the server has dropped the connection.
    pub(super) async fn released(&self) {
        self.until(|handle| handle.link.released.load(Ordering::Acquire).then_some(()))
            .await;
    }

    async fn until<T>(&self, known: impl Fn(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.link.changed.notified();
            tokio::pin!(changed);
            // Registers before it looks, so that it misses no change in between.
            changed.as_mut().enable();
            if let Some(value) = known(self) {
                return value;
            }
            changed.await;
        }
    }
}

/// Silence that a connection is allowed for a session, for as long as this lives.
#[derive(Debug)]
pub struct SilenceAllowed {
    handle: ConnectionHandle,
    limit: Duration,
}

impl Drop for SilenceAllowed {
    fn drop(&mut self) {
        let mut silences = self.handle.link.silences.lock();
        if let Entry::Occupied(mut sessions) = silences.entry(self.limit) {
            *sessions.get_mut() -= 1;
            if *sessions.get() == 0 {
                sessions.remove();
            }
        }
        drop(silences);
        self.handle.set_probes();
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHandle")
            .field("id", &self.link.id)
            .field("peer", &self.link.peer)
            .field("ending", &self.ending())
            .finish()
    }
}

/// Number of probes without an answer after which the kernel gives a peer up.
const PROBES: u32 = 4;

/// Has the kernel probe an idle peer, and give up a peer that has not answered or taken anything for `silence`.
fn probe(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    // The kernel counts in seconds.
    let interval = (silence / 2 / PROBES).max(Duration::from_secs(1));
    let probes = socket2::TcpKeepalive::new()
        .with_time((silence / 2).max(Duration::from_secs(1)))
        .with_interval(interval)
        .with_retries(PROBES);
    let socket = socket2::SockRef::from(socket);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(all(target_os = "linux", not(leasehold_portable)))]
    socket.set_tcp_user_timeout(Some(silence))?;
    Ok(())
}

/// Returns the HTTP/2 error behind a status, if there is one.
fn http2_cause(status: &Status) -> Option<&h2::Error> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(http2) = error.downcast_ref() {
            return Some(http2);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use tokio::net::TcpListener;

    use super::*;

    async fn handle() -> ConnectionHandle {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = Arc::new(TcpStream::connect(address).await.unwrap());
        ConnectionHandle::new(1, address, &socket)
    }

    #[tokio::test]
    async fn only_a_peer_that_ended_the_connection_has_its_locks_released() {
        for (errors, by_peer) in [
            (&[Errno::CONNRESET, Errno::PIPE][..], true),
            (
                &[
                    Errno::TIMEDOUT,
                    Errno::HOSTUNREACH,
                    Errno::HOSTDOWN,
                    Errno::NETUNREACH,
                    Errno::NETDOWN,
                    Errno::NETRESET,
                    Errno::CONNABORTED,
                    Errno::NOPROTOOPT,
                    Errno::PROTO,
                    Errno::ACCESS,
                    Errno::NOBUFS,
                    Errno::IO,
                ],
                false,
            ),
        ] {
            for errno in errors {
                let handle = handle().await;
                handle.record(Ending::of(&io::Error::from(*errno)));
                assert_eq!(handle.ended().await.by_peer(), by_peer, "{errno:?}");
                // However the stream shows it, which does not know.
                let broken = Status::unknown("the transport broke");
                assert_eq!(handle.peer_ended_stream(None), by_peer, "{errno:?}");
                assert_eq!(
                    handle.peer_ended_stream(Some(&broken)),
                    by_peer,
                    "{errno:?}"
                );
                // What follows an unreachable peer looks like its doing, and is not.
                handle.record(Ending::PeerReset);
                assert_eq!(handle.peer_ended_stream(None), by_peer, "{errno:?}");
            }
        }
    }
}
