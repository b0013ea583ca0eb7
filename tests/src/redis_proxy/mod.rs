//! A proxy in front of Redis that understands its protocol: it loses a script call or its reply, wake-ups, and the
//! subscription that they come by, and nothing else.

mod connection;
mod resp;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use self::connection::Connection;

/// Way in which a script call is lost, and the fate of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It is carried out; the connection ends instead of its reply.
    ReplyCut,
    /// It is carried out, and so is what follows it on its connection; no reply comes by that any more.
    ReplyHeld,
    /// It is carried out; its reply, and what follows that on its connection, comes so much later.
    ReplyAfter(Duration),
    /// It does not reach Redis: the connection ends instead.
    RequestCut,
    /// It does not reach Redis, nor does what follows it on its connection; but it alone does when
    /// [`deliver`](RedisProxy::deliver) is called, after the client has closed the connection.
    RequestLate,
}

/// Choice of the script call to lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The first that holds these bytes anywhere.
    With(Vec<u8>),
    /// The first after the next wake-up has come, whether that is passed on or dropped.
    AfterWakeUp,
    /// The next one.
    Next,
}

/// Treatment of the connections by which the client listens for wake-ups. Other connections are left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listening {
    /// They work.
    #[default]
    Works,
    /// Each ends as soon as it subscribes, those that are there at once.
    Cut,
    /// Each falls silent, in both directions, once it has subscribed; nothing comes of what was sent meanwhile.
    Silent,
}

/// Wake-ups that the proxy drops on their way to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeUps {
    /// None.
    #[default]
    Pass,
    /// The next one.
    DropNext,
    /// All.
    Drop,
}

/// Counts of events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Script calls that came from the client.
    pub calls: u64,
    /// Script calls that were lost, or whose reply was; counted when Redis has answered a call whose reply is to be lost.
    pub lost: u64,
    /// Number of requests kept back that have been delivered and executed since.
    pub late: u64,
    /// Wake-ups that were passed on.
    pub woken: u64,
    /// Wake-ups that were dropped, or came by a connection that is silent.
    pub not_woken: u64,
    /// Subscription connections that were cut.
    pub cut: u64,
    /// Subscription connections that fell silent.
    pub silenced: u64,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    armed: VecDeque<(Call, Loss)>,
    wake_ups: WakeUps,
    /// Script calls that were passed on since the last loss.
    calls_since_loss: u64,
    /// Command connections that are set up and work.
    ready: usize,
    /// Connections that a loss fell on and that are not closed yet, nor work again.
    broken: usize,
    /// Subscriptions that work.
    subscribed: usize,
}

/// Orders for connections.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    listening: Listening,
    /// Connections with smaller numbers end.
    cut_below: u64,
    /// Connections with smaller numbers are silent.
    silent_below: u64,
    /// The number of orders to deliver the requests kept back so far.
    deliveries: u64,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    orders: watch::Sender<Orders>,
    ended: CancellationToken,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proxy for one client of one Redis server. It ends, with its connections, when it is dropped.
#[derive(Debug)]
pub struct RedisProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepted: watch::Receiver<u64>,
}

impl RedisProxy {
    /// Starts a proxy in front of the Redis server at `upstream`.
    ///
    /// # Panics
    ///
    /// If it can't listen.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("loopback has free ports");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            upstream,
            state: Mutex::default(),
            orders: watch::Sender::new(Orders::default()),
            ended: CancellationToken::new(),
        });
        let (count, accepted) = watch::channel(0);
        tokio::spawn(accept(listener, Arc::clone(&shared), count));
        Self {
            address,
            shared,
            accepted,
        }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counts of events so far.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    /// Loses one script call, after those that were to be lost before.
    pub fn lose(&self, call: Call, loss: Loss) {
        self.shared.state().armed.push_back((call, loss));
    }

    /// Sets which wake-ups are dropped.
    pub fn set_wake_ups(&self, wake_ups: WakeUps) {
        self.shared.state().wake_ups = wake_ups;
    }

    /// Returns the number of script calls that have been passed on to Redis since the last loss.
    pub fn calls_since_loss(&self) -> u64 {
        self.shared.state().calls_since_loss
    }

    /// Returns the number of command connections that are set up and work.
    pub fn ready(&self) -> usize {
        self.shared.state().ready
    }

    /// Returns the number of open connections that suffered a loss, except those whose replies were only late.
    pub fn broken(&self) -> usize {
        self.shared.state().broken
    }

    /// Returns the number of subscription connections that have subscribed and work.
    pub fn subscribed(&self) -> usize {
        self.shared.state().subscribed
    }

    /// Sets what becomes of subscription connections.
    pub fn set_listening(&self, listening: Listening) {
        self.shared
            .orders
            .send_modify(|orders| orders.listening = listening);
    }

    /// Ends the subscription connections that are there. New ones work.
    pub fn cut_subscription(&self) {
        self.order_present(|orders| &mut orders.cut_below);
    }

    /// Silences the present subscription connections. New ones work.
    pub fn silence_subscription(&self) {
        self.order_present(|orders| &mut orders.silent_below);
    }

    /// Delivers the requests kept back until now to Redis, as soon as their client has closed the connection.
    pub fn deliver(&self) {
        let modify = |orders: &mut Orders| orders.deliveries += 1;
        self.shared.orders.send_modify(modify);
    }

    fn order_present(&self, which: impl Fn(&mut Orders) -> &mut u64) {
        let next = *self.accepted.borrow();
        let modify = |orders: &mut Orders| *which(orders) = next;
        self.shared.orders.send_modify(modify);
    }
}

impl Drop for RedisProxy {
    fn drop(&mut self) {
        self.shared.ended.cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, count: watch::Sender<u64>) {
    loop {
        let accepted = tokio::select! {
            () = shared.ended.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else { continue };
        let number = *count.borrow();
        count.send_replace(number + 1);
        tokio::spawn(Connection::new(number, Arc::clone(&shared)).run(client));
    }
}
