//! Task of one session.
//!
//! It feeds the session's machine ([`leasehold_core::session`]) with the client's messages, the answers of the store, what
//! others do to its locks, the fate of its connection, and time, and carries out what the machine says. However the task ends,
//! dropping the driver ends the session: what it has is released in the background.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use leasehold_core::{
    id::{OwnerId, SessionId},
    lease::Lease,
    mode::Mode,
    name::{ClientName, LockName},
    session::{Closer, Config, Context, Input, Phase, Request, Resumption, Session, StreamEnd},
};
use leasehold_proto::v1::{LostLock, SessionRequest, session_request};
use leasehold_store::{LockStore, Status as StoreStatus, clock};
use tokio::{
    sync::watch,
    task::{consume_budget, yield_now},
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use uuid::Uuid;

use super::{
    alarm::Alarm,
    carry::Carrier,
    outbox::Outbox,
    sessions::Listed,
    signals::{Signal, signals},
    wire::{Next, Wire},
};
use crate::{
    access::{self, Rights, rules::Permission},
    convert::{self, session::not_its_name},
    coordinator::{Coordinator, inbox::InboxEvent},
    limits::SessionPlace,
    listener::ConnectionHandle,
    status::{Reason, Refusal},
};

/// What each message counts of what the session's task may do in a turn, of which there are 128: two and what they lead to.
const MESSAGE: u32 = 60;
/// After so many events in a row a session lets others have their turn.
const EVENTS_IN_A_ROW: usize = 32;

/// When a coordinator that goes away stops serving its sessions.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Sessions are told to finish.
    pub draining: CancellationToken,
    /// How long they are given.
    pub drain_timeout: Duration,
    /// Sessions end, and leave what they hold to expire.
    pub stopping: CancellationToken,
    /// Changes when the machine was suspended.
    pub suspended: watch::Receiver<()>,
}

/// What a session is made of once its `open` was accepted.
#[derive(Debug)]
pub struct Opened {
    /// The request that opened it.
    pub request_id: u64,
    /// Its id.
    pub id: SessionId,
    /// Its client's name.
    pub client_name: ClientName,
    /// Its lease, begun when the `open` was received.
    pub lease: Lease,
    /// For how long it is kept for a resume when its peer ended the stream.
    pub grace: Duration,
    /// What it takes over from another stream.
    pub resume: Vec<Resumption>,
    /// What it was to take over and may not.
    pub denied: Vec<LostLock>,
    /// What its client may do.
    pub rights: Rights,
    /// Most holds and waiting acquires together.
    pub max_locks: usize,
    /// Its place among the sessions.
    pub listed: Listed,
    /// Its place among those of its caller.
    pub account: SessionPlace,
}

/// A session and what it is served with.
struct Driver<W: Wire> {
    session: Session,
    carrier: Carrier<W>,
    connection: ConnectionHandle,
    /// The client's side of the stream has ended, and there is nothing in that.
    heard_all: bool,
    drain_timeout: Duration,
}

/// Serves a session until it ends.
pub async fn serve<W: Wire>(
    coordinator: Coordinator,
    mut opened: Opened,
    connection: ConnectionHandle,
    mut outbox: Outbox<W>,
    mut incoming: Streaming<W::Asks>,
    shutdown: Shutdown,
) {
    let status = coordinator.store().status();
    let mut signals = signals(&shutdown, &connection, status, opened.rights.clone());
    let resume = std::mem::take(&mut opened.resume);
    let mut is_resuming = !resume.is_empty();
    outbox.following.of(opened.id);
    let (request, lease) = (opened.request_id, opened.lease.clone());
    let config = Config {
        id: opened.id,
        client_name: opened.client_name.clone(),
        grace: opened.grace,
        max_locks: opened.max_locks,
        store_timeout: coordinator.store_timeout(),
        max_hold: coordinator.bounds().max,
        tells_tickets: W::TELLS_TICKETS,
        needs_replicas: coordinator.is_acknowledged_by_replicas(),
    };
    let mut carrier = Carrier::new(coordinator, opened, outbox);
    if let Err(refusal) = carrier.claim(&resume) {
        carrier.outbox.fail(refusal.into());
        return carrier.outbox.flush().await;
    }
    let mut driver = Driver {
        session: with_context(|context| Session::open(config, lease, request, resume, context)),
        carrier,
        connection,
        heard_all: false,
        drain_timeout: shutdown.drain_timeout,
    };
    let is_up = driver.is_store_up();
    driver.handle(Input::StoreUp(is_up));
    let inbox = Arc::clone(&driver.carrier.inbox);
    let mut alarm = Alarm::new(clock::now());
    let mut owed = 0;
    let mut events = Vec::new();
    loop {
        // A client that sends without end lets others have their turn.
        while owed > 0 {
            consume_budget().await;
            owed -= 1;
        }
        let now = clock::now();
        // Before anything else, so that no flood of messages holds it up.
        if driver.carrier.outbox.check_at().is_some_and(|at| at <= now) {
            driver.carrier.outbox.check(now);
        }
        if driver.session.next_timeout().is_some_and(|at| at <= now) {
            with_context(|context| driver.session.handle_timeout(context));
        }
        driver.carry_out();
        if is_resuming && driver.session.phase() == Phase::Open {
            is_resuming = false;
            // How each lock is held is known only now, and what may be done with a name depends on that.
            driver.revise();
        }
        if driver.session.phase() == Phase::Ended {
            return driver.carrier.end_stream().await;
        }
        driver.carrier.end_stream().await;
        if driver.carrier.outbox.is_cut() && driver.session.phase() == Phase::Open {
            driver.handle(Input::StreamEnded(StreamEnd::Cut));
            continue;
        }
        if driver.session.phase() == Phase::Open
            && let Some(next) = driver.carrier.outbox.next()
        {
            driver.on_next(next);
            continue;
        }
        let due = [
            driver.session.next_timeout(),
            driver.carrier.outbox.check_at(),
        ];
        if let Some(due) = due.into_iter().flatten().min() {
            alarm.set(due, now);
        }
        let phase = driver.session.phase();
        tokio::select! {
            biased;
            Some(signal) = signals.next(), if matches!(phase, Phase::Open | Phase::Detached) => {
                if matches!(signal, Signal::Suspended) {
                    alarm.ring_soon();
                }
                driver.on_signal(signal, &mut incoming);
            }
            () = shutdown.stopping.cancelled(), if matches!(phase, Phase::Resuming | Phase::Lingering) => {
                driver.handle(Input::Stopping);
            }
            () = driver.carrier.outbox.drain(), if driver.carrier.outbox.has_backlog() => {}
            () = inbox.arrived() => {
                inbox.take(&mut events);
                for (number, event) in (1..).zip(events.drain(..)) {
                    driver.on_event(event);
                    if number % EVENTS_IN_A_ROW == 0 {
                        driver.carry_out();
                        yield_now().await;
                    }
                }
                // Memory that a burst needed is freed.
                events.shrink_to(EVENTS_IN_A_ROW);
            }
            message = incoming.message(), if driver.hears() => {
                owed = MESSAGE;
                driver.on_message(message);
            }
            () = alarm.rings() => {}
        }
    }
}

impl<W: Wire> Driver<W> {
    fn handle(&mut self, input: Input) {
        with_context(|context| self.session.handle(input, context));
    }

    fn carry_out(&mut self) {
        self.carrier.carry_out(&mut self.session);
    }

    fn is_store_up(&self) -> bool {
        let status = self.carrier.coordinator.store().status();
        matches!(*status.borrow(), StoreStatus::Up { .. })
    }

    /// Returns whether the client's messages are read.
    fn hears(&self) -> bool {
        !self.heard_all && self.session.phase() == Phase::Open && self.carrier.outbox.has_room()
    }

    fn revise(&mut self) {
        let granted = self.carrier.surroundings.granted.clone();
        let is_permitted = |name: &LockName, mode: Mode| {
            granted.permits(Permission::Acquire, W::place(mode), name.as_str())
        };
        with_context(|context| self.session.revise(&is_permitted, context));
    }

    fn on_event(&mut self, event: InboxEvent) {
        let input = match event {
            InboxEvent::Answered(id, result) => {
                let result = self.carrier.answered(id, result);
                Input::StoreReply(id, result)
            }
            InboxEvent::Registry(owner, event) => Input::Registry(owner, event),
        };
        self.handle(input);
    }

    fn on_signal(&mut self, signal: Signal, incoming: &mut Streaming<W::Asks>) {
        let is_open = self.session.phase() == Phase::Open;
        match signal {
            Signal::Stopping => self.handle(Input::Stopping),
            Signal::Ended(ending) if ending.by_peer() && is_open => {
                // What the peer had sent before may be a release or a close.
                while self.session.phase() == Phase::Open
                    && let Some(Ok(Some(message))) = incoming.message().now_or_never()
                {
                    self.on_heard(message);
                }
                self.on_stream_ended(StreamEnd::ByPeer);
            }
            // The stream says so itself.
            Signal::Ended(_) | Signal::Suspended => {}
            Signal::Draining => self.handle(Input::Draining(self.drain_timeout)),
            Signal::Store(is_up) => self.handle(Input::StoreUp(is_up)),
            Signal::Rights(Ok(granted)) => {
                self.carrier.surroundings.granted = granted;
                self.revise();
            }
            Signal::Rights(Err(refusal)) if is_open => self.break_off(refusal),
            // The client for whom it was kept is nobody any more.
            Signal::Rights(Err(_)) => with_context(|context| self.session.terminate(context)),
        }
    }

    fn on_message(&mut self, message: Result<Option<W::Asks>, Status>) {
        let end = match message {
            Ok(Some(message)) => return self.on_heard(message),
            Ok(None) if self.connection.peer_ended_stream(None) => {
                if self.carrier.outbox.is_ending() {
                    self.heard_all = true;
                    return;
                }
                StreamEnd::ByPeer
            }
            Ok(None) => StreamEnd::Cut,
            Err(status) if self.connection.peer_ended_stream(Some(&status)) => StreamEnd::ByPeer,
            Err(status) if status.code() == tonic::Code::OutOfRange => {
                let refusal = self.carrier.coordinator.limits().message_too_large();
                return self.break_off(refusal);
            }
            Err(status) if is_undecodable(&status) => {
                let message = format!(
                    "the stream held a message that can't be read: {}",
                    status.message()
                );
                return self.break_off(Refusal::new(Reason::UnknownRequest, message));
            }
            Err(_) => StreamEnd::Cut,
        };
        self.on_stream_ended(end);
    }

    fn on_stream_ended(&mut self, end: StreamEnd) {
        self.handle(Input::StreamEnded(end));
        if end == StreamEnd::ByPeer && self.session.phase() == Phase::Detached {
            // Nobody is at its other end.
            self.carrier.outbox.close();
        }
    }

    /// Ends the stream because the client broke the protocol, or is nobody any more. It may still believe in its locks.
    fn break_off(&mut self, refusal: Refusal) {
        self.carrier.fail(refusal);
        self.handle(Input::StreamEnded(StreamEnd::Cut));
    }

    fn on_heard(&mut self, message: W::Asks) {
        if let Some(request) = self.carrier.outbox.hear(message) {
            self.on_request(request, Closer::Client);
        }
    }

    fn on_next(&mut self, next: Next) {
        match next {
            Next::Ask(request) => self.on_request(request, Closer::Adapter),
            Next::Fail(refusal) => {
                self.carrier.fail(refusal);
                self.handle(Input::StreamEnded(StreamEnd::Failed));
            }
        }
    }

    /// Takes one request in. A bad request is answered with `error` and changes nothing.
    fn on_request(&mut self, request: SessionRequest, closer: Closer) {
        let request_id = request.request_id;
        let coordinator = &self.carrier.coordinator;
        coordinator
            .metrics()
            .count_request(request.request.as_ref());
        self.carrier.outbox.following.asked(&request);
        match self.decode(request, closer) {
            Ok(request) => {
                let is_heartbeat = matches!(request, Request::Heartbeat { .. });
                self.handle(Input::Request(request_id, request));
                if is_heartbeat {
                    self.carrier.heard(self.session.lease().heard_at());
                }
            }
            Err(refusal) => self.carrier.outbox.refuse(request_id, refusal),
        }
    }

    /// Checks a request's fields, and whether the client may ask it.
    fn decode(&self, request: SessionRequest, closer: Closer) -> Result<Request, Refusal> {
        let coordinator = &self.carrier.coordinator;
        let request_id = request.request_id;
        let Some(asked) = request.request else {
            self.count(false)?;
            return Err(Refusal::new(
                Reason::UnknownRequest,
                "the message holds no request that this coordinator knows; set one of the fields of `request`",
            ));
        };
        use session_request::Request as Asked;
        // What shows life or gives something back is never refused for being asked too often.
        self.count(matches!(
            asked,
            Asked::Heartbeat(_) | Asked::Release(_) | Asked::Cancel(_) | Asked::Close(_)
        ))?;
        match asked {
            Asked::Acquire(acquire) => {
                let acquire = convert::session::acquire(request_id, acquire, coordinator)?;
                for name in acquire.names.iter() {
                    self.check(acquire.mode, name)?;
                }
                Ok(Request::Acquire(acquire))
            }
            Asked::Release(release) => {
                let release = convert::session::release(&release, coordinator)?;
                self.check_hold("release.name", release)
            }
            Asked::SetValue(set_value) => {
                let set_value = convert::session::set_value(&set_value, coordinator)?;
                self.check_hold("set_value.name", set_value)
            }
            Asked::Downgrade(downgrade) => {
                let downgrade = convert::session::downgrade(&downgrade, coordinator)?;
                let downgrade = self.check_hold("downgrade.name", downgrade)?;
                if let Request::Downgrade { name, .. } = &downgrade {
                    // Shared, it is nothing to an election any more.
                    self.check(Mode::Shared, name)?;
                }
                Ok(downgrade)
            }
            Asked::Heartbeat(heartbeat) => Ok(Request::Heartbeat {
                sequence: heartbeat.sequence,
            }),
            Asked::Cancel(cancel) => Ok(Request::Cancel(cancel.acquire_request_id)),
            Asked::Close(_) => Ok(Request::Close(closer)),
            Asked::Open(_) => Err(Refusal::new(
                Reason::AlreadyOpen,
                "this stream's session is open already; open another stream for another session",
            )),
        }
    }

    fn count(&self, is_free: bool) -> Result<(), Refusal> {
        match &self.carrier.place {
            Some(place) if !is_free => self.carrier.coordinator.limits().request(&place.account),
            _ => Ok(()),
        }
    }

    fn check(&self, mode: Mode, name: &LockName) -> Result<(), Refusal> {
        let (granted, place) = (&self.carrier.surroundings.granted, W::place(mode));
        access::check_granted(granted, Permission::Acquire, place, name.as_str())
    }

    /// Refuses what concerns a hold of another name; a caller that has somebody else's owner id needs the permission.
    fn check_hold(&self, field: &str, request: Request) -> Result<Request, Refusal> {
        if let Request::Release { name, owner }
        | Request::SetValue { name, owner, .. }
        | Request::Downgrade { name, owner } = &request
        {
            match self.session.owns(owner, name) {
                Ok(true) => {}
                Ok(false) => self.check(Mode::Exclusive, name)?,
                Err(_) => return Err(not_its_name(field)),
            }
        }
        Ok(request)
    }
}

impl<W: Wire> Drop for Driver<W> {
    fn drop(&mut self) {
        with_context(|context| self.session.terminate(context));
        self.carry_out();
    }
}

/// Lends a session what it works with.
pub(super) fn with_context<T>(call: impl FnOnce(&mut Context<'_>) -> T) -> T {
    call(&mut Context {
        now: clock::now(),
        fresh_owner: &mut || OwnerId::from_bytes(Uuid::new_v4().into_bytes()),
    })
}

/// Returns whether the stream ended because a message could not be decoded.
fn is_undecodable(status: &Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::Internal | tonic::Code::ResourceExhausted | tonic::Code::Unimplemented
    )
}
