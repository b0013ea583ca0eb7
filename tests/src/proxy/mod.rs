//! A TCP proxy that breaks connections on purpose.

mod connection;
#[cfg(test)]
mod tests;

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::connection::Connection;
use crate::ports::free_port;

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Treatment of the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// They are passed on.
    #[default]
    Forward,
    /// They are kept, and passed on when the direction flows again. The end of a connection is kept back likewise.
    Hold,
    /// They are thrown away, for good. The end of a connection is kept back until the direction flows again.
    Discard,
}

/// Way to end connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In order, as a process does that ends.
    Fin,
    /// With a reset.
    Rst,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    to_server: Flow,
    to_client: Flow,
    delay: Duration,
    refuse: bool,
    /// Connections with smaller numbers are held, whatever the flows are.
    held_below: u64,
}

impl Rules {
    fn flow(&self, connection: u64, direction: Direction) -> Flow {
        match direction {
            _ if connection < self.held_below => Flow::Hold,
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }
}

/// A proxy in front of one server. It ends, with its connections, when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    cuts: watch::Sender<Option<(u64, Cut)>>,
    listening: Arc<Notify>,
    /// The number of connections so far, which is the next one's number.
    accepted: Arc<AtomicU64>,
    /// The bytes that were passed on, in both directions.
    passed: Arc<AtomicU64>,
    connections: TaskTracker,
    ended: CancellationToken,
}

impl FaultProxy {
    /// Starts a proxy that forwards to `upstream`.
    ///
    /// # Panics
    ///
    /// If it can't listen.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, upstream).await
    }

    /// Does the same at another address of this process's.
    ///
    /// # Panics
    ///
    /// If it can't listen.
    pub async fn start_at(at: Ipv4Addr, upstream: SocketAddr) -> Self {
        // A port that stays ours while nothing listens on it: connections are to be refused at times.
        let address = SocketAddr::from((at, free_port()));
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let proxy = Self {
            address,
            rules: watch::Sender::new(Rules::default()),
            cuts: watch::Sender::new(None),
            listening: Arc::new(Notify::new()),
            accepted: Arc::default(),
            passed: Arc::default(),
            connections: TaskTracker::new(),
            ended: CancellationToken::new(),
        };
        let accept = Accept {
            address,
            upstream,
            rules: proxy.rules.subscribe(),
            cuts: proxy.cuts.subscribe(),
            listening: Arc::clone(&proxy.listening),
            accepted: Arc::clone(&proxy.accepted),
            passed: Arc::clone(&proxy.passed),
            connections: proxy.connections.clone(),
            ended: proxy.ended.clone(),
        };
        tokio::spawn(accept.run(listener));
        proxy
    }

    /// Starts a proxy in front of an `http://` endpoint.
    ///
    /// # Panics
    ///
    /// If it can't listen, or the endpoint has no numeric address.
    pub async fn before(endpoint: &str) -> Self {
        let address = endpoint.trim_start_matches("http://").parse();
        Self::start(address.expect("the endpoint is http://ADDRESS:PORT")).await
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does the same as an endpoint for gRPC clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of connections that it forwards now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of bytes that it has passed on so far, in both directions.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Sets what happens in one direction, on all connections.
    pub fn set_flow(&self, direction: Direction, flow: Flow) {
        self.rules.send_modify(|rules| match direction {
            Direction::ToServer => rules.to_server = flow,
            Direction::ToClient => rules.to_client = flow,
        });
    }

    /// Connections stay open, and new ones are accepted, but nothing passes. What is sent meanwhile is kept for
    /// [`forward`](Self::forward).
    pub fn black_hole(&self) {
        self.set_flow(Direction::ToServer, Flow::Hold);
        self.set_flow(Direction::ToClient, Flow::Hold);
    }

    /// Silences the present connections, as in a black hole, while new ones work.
    pub fn black_hole_present(&self) {
        let next = self.accepted.load(Ordering::SeqCst);
        self.rules.send_modify(|rules| rules.held_below = next);
    }

    /// Passes everything on again, the bytes that were held first.
    pub fn forward(&self) {
        self.rules.send_modify(|rules| {
            rules.to_server = Flow::Forward;
            rules.to_client = Flow::Forward;
            rules.held_below = 0;
        });
    }

    /// Bytes wait this long before they are passed on. Zero by default.
    pub fn set_delay(&self, delay: Duration) {
        self.rules.send_modify(|rules| rules.delay = delay);
    }

    /// Returns whether new connections are refused. Those that are there are left alone.
    pub async fn set_refuse(&self, refuse: bool) {
        let done = self.listening.notified();
        if self.rules.send_if_modified(|rules| {
            let changed = rules.refuse != refuse;
            rules.refuse = refuse;
            changed
        }) {
            done.await;
        }
    }

    /// Ends every connection, on both sides, whatever is held.
    pub async fn cut(&self, cut: Cut) {
        self.cuts.send_modify(|last| {
            let number = last.map_or(0, |(number, _)| number);
            *last = Some((number + 1, cut));
        });
        // The tracker can only be waited for once it is closed; it still tracks what comes later.
        self.connections.close();
        self.connections.wait().await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

struct Accept {
    address: SocketAddr,
    upstream: SocketAddr,
    rules: watch::Receiver<Rules>,
    cuts: watch::Receiver<Option<(u64, Cut)>>,
    listening: Arc<Notify>,
    /// The number of connections so far, which is the next one's number.
    accepted: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
    connections: TaskTracker,
    ended: CancellationToken,
}

impl Accept {
    async fn run(mut self, listener: TcpListener) {
        let mut listener = Some(listener);
        loop {
            let wanted = !self.rules.borrow_and_update().refuse;
            if wanted != listener.is_some() {
                listener = if wanted {
                    Some(listen_again(self.address).await)
                } else {
                    None
                };
                self.listening.notify_waiters();
            }
            tokio::select! {
                biased;
                () = self.ended.cancelled() => return,
                changed = self.rules.changed() => if changed.is_err() { return },
                accepted = accept(listener.as_ref()) => {
                    if let Ok(client) = accepted {
                        self.connect(client);
                    }
                }
            }
        }
    }

    fn connect(&self, client: TcpStream) {
        let mut cuts = self.cuts.clone();
        // Only cuts from now on are meant.
        cuts.mark_unchanged();
        let connection = Connection {
            number: self.accepted.fetch_add(1, Ordering::SeqCst),
            upstream: self.upstream,
            passed: Arc::clone(&self.passed),
            rules: self.rules.clone(),
            cuts,
            ended: self.ended.clone(),
        };
        self.connections.spawn(connection.run(client));
    }
}

/// Listens on the port of a listener that was dropped. A process that was being started then has it too until it executes its
/// program.
async fn listen_again(address: SocketAddr) -> TcpListener {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                sleep(Duration::from_millis(1)).await;
            }
            bound => return bound.expect("the port is ours"),
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}
