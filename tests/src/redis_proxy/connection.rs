//! One connection through the proxy.

use std::{collections::VecDeque, io, sync::Arc};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::Instant,
};

use super::{Call, Listening, Loss, Orders, Shared, WakeUps, resp};

/// The channels of wake-ups begin with this.
const WAKE_UPS: &[u8] = b"lh:wake:";

/// The answer to a command on its way to Redis.
enum Due {
    /// It is passed on.
    Reply,
    /// It is passed on; after it, a command connection is set up.
    LastOfSetUp,
    /// It is lost.
    Lost(Loss),
}

/// Bytes to pass on, and whether the connection ends after them.
struct Passed {
    bytes: Vec<u8>,
    end: bool,
}

/// Treatment of replies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replies {
    Pass,
    Held,
    HeldUntil(Instant),
}

pub(super) struct Connection {
    number: u64,
    shared: Arc<Shared>,
    orders: watch::Receiver<Orders>,
    due: VecDeque<Due>,
    /// A command connection that is set up, or a subscription; counted while it works.
    ready: bool,
    listens: bool,
    subscribed: bool,
    /// Nothing passes any more, in either direction.
    silent: bool,
    /// A loss fell on it.
    broken: bool,
    /// Replies are kept back: for good, or until then.
    replies: Replies,
    late: Vec<u8>,
    /// A request that is kept back until the deliveries after so many; what follows it is thrown away.
    kept: Option<(Vec<u8>, u64)>,
}

impl Connection {
    pub(super) fn new(number: u64, shared: Arc<Shared>) -> Self {
        Self {
            number,
            orders: shared.orders.subscribe(),
            shared,
            due: VecDeque::new(),
            ready: false,
            listens: false,
            subscribed: false,
            silent: false,
            broken: false,
            replies: Replies::Pass,
            late: Vec::new(),
            kept: None,
        }
    }

    pub(super) async fn run(mut self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.shared.upstream).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let (mut requests, mut replies) = (BytesMut::new(), BytesMut::new());
        let ended = self.shared.ended.clone();
        loop {
            let (passed, to) = tokio::select! {
                biased;
                () = ended.cancelled() => return,
                Ok(()) = self.orders.changed() => {
                    if self.obey() { return } else { continue }
                }
                () = until(self.replies) => (self.let_pass(), &mut to_client),
                read = from_client.read_buf(&mut requests) => match read {
                    Ok(1..) => (self.on_requests(&mut requests), &mut to_server),
                    _ => return self.client_gone(from_server, to_server).await,
                },
                read = from_server.read_buf(&mut replies) => match read {
                    Ok(1..) => (self.on_replies(&mut replies), &mut to_client),
                    _ => return,
                },
            };
            if to.write_all(&passed.bytes).await.is_err() || passed.end {
                return;
            }
        }
    }

    fn on_requests(&mut self, requests: &mut BytesMut) -> Passed {
        let (mut bytes, mut end) = (Vec::new(), false);
        while let Some(length) = resp::length(requests)
            && !end
        {
            let message = requests.copy_to_bytes(length);
            if self.kept.is_some() {
                continue;
            }
            let words = resp::words(&message);
            let command = words.first().copied().unwrap_or_default();
            let subscribes = [&b"SUBSCRIBE"[..], b"PSUBSCRIBE", b"UNSUBSCRIBE"];
            if subscribes
                .iter()
                .any(|word| command.eq_ignore_ascii_case(word))
            {
                // Answered by pushes.
                self.listens = true;
                end = self.obey();
            } else if command.eq_ignore_ascii_case(b"EVALSHA") {
                match self.on_call(&message) {
                    None => self.due.push_back(Due::Reply),
                    Some(loss @ (Loss::ReplyCut | Loss::ReplyHeld | Loss::ReplyAfter(_))) => {
                        self.due.push_back(Due::Lost(loss));
                    }
                    Some(Loss::RequestCut) => {
                        self.lost();
                        end = true;
                    }
                    Some(Loss::RequestLate) => {
                        self.lost();
                        let deliveries = self.orders.borrow().deliveries;
                        self.kept = Some((message.to_vec(), deliveries));
                        continue;
                    }
                }
            } else if command.eq_ignore_ascii_case(b"SCRIPT") {
                self.due.push_back(Due::LastOfSetUp);
            } else {
                self.due.push_back(Due::Reply);
            }
            if !end && !self.silent {
                bytes.extend_from_slice(&message);
            }
        }
        Passed { bytes, end }
    }

    /// Counts a script call, and says whether it is lost. The calls by which coordinators look at the marks of ended sessions do not
    /// count, because they come at any time.
    fn on_call(&mut self, message: &[u8]) -> Option<Loss> {
        let contains = |bytes: &[u8]| message.windows(bytes.len()).any(|part| part == bytes);
        if contains(b"lh:ended-sessions:") {
            return None;
        }
        let mut state = self.shared.state();
        state.counts.calls += 1;
        let meant = match state.armed.front() {
            Some((Call::With(bytes), _)) => contains(bytes),
            Some((Call::Next, _)) => true,
            Some((Call::AfterWakeUp, _)) | None => false,
        };
        let armed = if meant { state.armed.pop_front() } else { None };
        state.calls_since_loss += u64::from(armed.is_none());
        armed.map(|(_, loss)| loss)
    }

    fn on_replies(&mut self, replies: &mut BytesMut) -> Passed {
        let (mut bytes, mut end) = (Vec::new(), false);
        while let Some(length) = resp::length(replies)
            && !end
        {
            let message = replies.copy_to_bytes(length);
            let passes = if message[0] == b'>' {
                self.on_push(&resp::words(&message))
            } else {
                match self.due.pop_front() {
                    Some(Due::Lost(loss)) => {
                        self.lost();
                        end = loss == Loss::ReplyCut;
                        self.replies = match loss {
                            Loss::ReplyAfter(time) => Replies::HeldUntil(Instant::now() + time),
                            _ => Replies::Held,
                        };
                    }
                    Some(Due::LastOfSetUp) => self.set_up(),
                    Some(Due::Reply) => {}
                    None => panic!("Redis answered what was not asked"),
                }
                true
            };
            if passes && !self.silent {
                match self.replies {
                    Replies::Pass => bytes.extend_from_slice(&message),
                    Replies::Held => {}
                    Replies::HeldUntil(_) => self.late.extend_from_slice(&message),
                }
            }
        }
        Passed { bytes, end }
    }

    /// Replies that were kept back for a time are passed on now.
    fn let_pass(&mut self) -> Passed {
        self.replies = Replies::Pass;
        self.mended(true);
        Passed {
            bytes: std::mem::take(&mut self.late),
            end: false,
        }
    }

    /// Returns whether a message that Redis sends of itself is passed on.
    fn on_push(&mut self, words: &[&[u8]]) -> bool {
        match words {
            [kind, channel, _] if *kind == b"message" && channel.starts_with(WAKE_UPS) => {}
            [kind, ..] if *kind == b"subscribe" && !self.subscribed => {
                self.subscribed = true;
                self.shared.state().subscribed += 1;
                // It may be meant to be silent from here on, with this answer still passed.
                self.orders.mark_changed();
                return true;
            }
            _ => return true,
        }
        let mut state = self.shared.state();
        if let Some((call @ Call::AfterWakeUp, _)) = state.armed.front_mut() {
            *call = Call::Next;
        }
        let passes = match state.wake_ups {
            WakeUps::Pass => !self.silent,
            WakeUps::Drop => false,
            WakeUps::DropNext => {
                state.wake_ups = WakeUps::Pass;
                false
            }
        };
        if passes {
            state.counts.woken += 1;
        } else {
            state.counts.not_woken += 1;
        }
        passes
    }

    /// Obeys the orders for subscriptions; returns whether this one is to end.
    fn obey(&mut self) -> bool {
        let orders = *self.orders.borrow_and_update();
        if !self.listens {
            return false;
        }
        if orders.listening == Listening::Cut || self.number < orders.cut_below {
            self.shared.state().counts.cut += 1;
            return true;
        }
        let silent = orders.listening == Listening::Silent || self.number < orders.silent_below;
        if silent && self.subscribed && !self.silent {
            self.silent = true;
            let mut state = self.shared.state();
            state.counts.silenced += 1;
            state.subscribed -= 1;
        }
        false
    }

    fn set_up(&mut self) {
        if !self.ready {
            self.ready = true;
            self.shared.state().ready += 1;
        }
    }

    /// Counts the loss that fell on this connection.
    fn lost(&mut self) {
        let mut state = self.shared.state();
        state.counts.lost += 1;
        state.calls_since_loss = 0;
        if !self.broken {
            self.broken = true;
            state.broken += 1;
            state.ready -= usize::from(self.ready);
        }
    }

    /// Notes that the client has closed the connection: requests that were kept back reach Redis on order.
    async fn client_gone(mut self, mut from_server: OwnedReadHalf, mut to_server: OwnedWriteHalf) {
        let Some((kept, deliveries)) = self.kept.take() else {
            return;
        };
        self.mended(false);
        let shared = Arc::clone(&self.shared);
        let arrived = async {
            let ordered = |orders: &Orders| orders.deliveries > deliveries;
            let ordered = self.orders.wait_for(ordered).await.map(drop);
            ordered.map_err(io::Error::other)?;
            to_server.write_all(&kept).await?;
            to_server.shutdown().await?;
            // Redis has carried it out when it has closed its side.
            from_server.read_to_end(&mut Vec::new()).await
        };
        tokio::select! {
            () = shared.ended.cancelled() => {}
            arrived = arrived => shared.state().counts.late += u64::from(arrived.is_ok()),
        }
    }

    /// Notes that the connection works again, or is gone for its client.
    fn mended(&mut self, works: bool) {
        self.broken = false;
        self.ready &= works;
        let mut state = self.shared.state();
        state.broken -= 1;
        state.ready += usize::from(self.ready);
    }
}

async fn until(replies: Replies) {
    match replies {
        Replies::HeldUntil(time) => tokio::time::sleep_until(time).await,
        Replies::Pass | Replies::Held => std::future::pending().await,
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if self.broken {
            state.broken -= 1;
        } else if self.ready {
            state.ready -= 1;
        }
        if self.subscribed && !self.silent {
            state.subscribed -= 1;
        }
    }
}
