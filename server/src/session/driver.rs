//! Task of one session.
//!
//! It feeds the session's machine ([`leasehold_core::session`]) with the client's messages, the answers of the store, what
//! others do to its locks, the fate of its connection, and time, and carries out what the machine says. However the task ends,
//! dropping the driver ends the session: what it has is released in the background.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, TryStreamExt};
use leasehold_core::{
    id::OwnerId,
    mode::Mode,
    name::LockName,
    session::{Config, Draining, Input, Phase, Request, Session, StreamEnd},
    time::Moment,
};
use leasehold_store::clock;
use prost::Message as _;
use tokio::task::{consume_budget, yield_now};
use tonic::Status;

use super::{
    carry::Carrier,
    opened::Opened,
    signals::{Shutdown, Signal, Signals, signals},
};
use crate::{
    access::rules::Permission,
    alarm::Alarm,
    audit::Why,
    convert::{
        request::{self as messages, Requests},
        stream::Kind,
    },
    coordinator::{Coordinator, end_order::Decision, executor::with_context, inbox::InboxEvent},
    listener::{ConnectionHandle, SilenceAllowed},
    outbox::Outbox,
    status::{Reason, Refusal},
    telemetry::waits::RequestKind,
};

/// Part of the 128 units of a turn of the session's task that each message takes: two messages and their consequences fit.
const MESSAGE: u32 = 60;
/// After so many events in a row a session lets others have their turn.
const EVENTS_IN_A_ROW: usize = 32;
/// Number of events for which an idle session keeps memory.
const EVENTS_KEPT: usize = 4;

/// Bytes of gRPC before each message.
const PREFIX: usize = 5;

/// A session and what it is served with. It is on the heap, and made before the future that serves it: that future, in which each
/// value that is passed on has a place of its own, would take three times as much.
struct Driver {
    kind: Kind,
    session: Session,
    carrier: Carrier,
    /// When to ask the client to move to another stream; `None` if it is not to be asked, or was.
    asked_to_move_at: Option<Moment>,
    /// Bytes of its requests after which to ask so; `None` if it can't move.
    max_stream_size: Option<usize>,
    /// Bytes of its requests since it was opened, or asked to move because of them.
    received: usize,
    connection: ConnectionHandle,
    /// The client may be silent for its TTL.
    _silence: SilenceAllowed,
    signals: Signals,
}

/// Opens a session at once, and returns what serves it until it ends.
pub fn serve(
    coordinator: Coordinator,
    opened: Opened,
    connection: ConnectionHandle,
    outbox: Outbox,
    requests: Requests,
    shutdown: Shutdown,
) -> impl Future<Output = ()> {
    let driver = open(coordinator, opened, connection, outbox, &shutdown);
    async move {
        match driver {
            Ok(driver) => driver.serve(requests, shutdown).await,
            Err(mut outbox) => outbox.flush().await,
        }
    }
}

/// Opens a session. If it may not resume what it asks to, returns the outbox, with the refusal.
fn open(
    coordinator: Coordinator,
    mut opened: Opened,
    connection: ConnectionHandle,
    mut outbox: Outbox,
    shutdown: &Shutdown,
) -> Result<Box<Driver>, Box<Outbox>> {
    let status = coordinator.store().status();
    let signals = signals(shutdown, &connection, status, opened.rights.clone());
    let kind = opened.kind;
    let resume = std::mem::take(&mut opened.resume);
    outbox.following.of(opened.id);
    let (request, lease, ttl) = (opened.request_id, opened.lease.clone(), opened.lease.ttl());
    let config = Config {
        id: opened.id,
        client_name: opened.client_name.clone(),
        grace: opened.grace,
        max_locks: opened.max_locks,
        store_timeout: coordinator.store_timeout(),
        max_ttl: coordinator.bounds().max,
        tells_tickets: kind.tells_tickets(),
        needs_replicas: coordinator.is_acknowledged_by_replicas(),
    };
    let mut carrier = Carrier::new(coordinator, opened, outbox);
    if let Err(refusal) = carrier.claim(&resume) {
        carrier.outbox.send(Err(refusal.into()));
        return Err(Box::new(carrier.outbox));
    }
    // A candidacy on a stream of its own can't be resumed.
    let settings = carrier.coordinator.limits().config();
    let settings = Some(settings).filter(|_| matches!(kind, Kind::LeaseStream));
    let age = settings
        .as_ref()
        .and_then(|settings| settings.max_session_age);
    let max_stream_size = settings.map(|settings| settings.max_stream_size);
    Ok(Box::new(Driver {
        kind,
        max_stream_size,
        received: 0,
        asked_to_move_at: age
            .map(|age| clock::now().after(age.mul_f64(fastrand::f64() / 2.0 + 0.75))),
        session: with_context(|context| Session::open(config, lease, request, resume, context)),
        carrier,
        _silence: connection.allow_silence(ttl),
        connection,
        signals,
    }))
}

impl Driver {
    async fn serve(mut self: Box<Self>, mut requests: Requests, shutdown: Shutdown) {
        let driver = &mut *self;
        let mut is_resuming = driver.session.phase() == Phase::Resuming;
        let is_up = driver.is_store_up();
        driver.handle(Input::StoreUp(is_up));
        let inbox = Arc::clone(driver.carrier.executor.inbox());
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
            if driver.asked_to_move_at.is_some_and(|at| at <= now) {
                driver.asked_to_move_at = None;
                driver.ask_to_move(true);
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
                driver.on_stream_ended(StreamEnd::Cut);
                continue;
            }
            let due = [
                driver.session.next_timeout(),
                driver.carrier.outbox.check_at(),
                driver.asked_to_move_at,
            ];
            alarm.set(due.into_iter().flatten().min(), now);
            let phase = driver.session.phase();
            tokio::select! {
                biased;
                Some(signal) = driver.signals.next(), if matches!(phase, Phase::Open | Phase::Detached) => {
                    if matches!(signal, Signal::Suspended) {
                        alarm.ring_soon();
                    }
                    driver.on_signal(signal, &mut requests);
                }
                () = shutdown.stopping.cancelled(), if matches!(phase, Phase::Resuming | Phase::Lingering) => {
                    driver.stop();
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
                    events.shrink_to(EVENTS_KEPT);
                }
                request = requests.try_next(), if driver.hears() => {
                    owed = MESSAGE;
                    driver.on_message(request);
                }
                () = alarm.rings() => {}
            }
        }
    }

    fn handle(&mut self, input: Input) {
        with_context(|context| self.session.handle(input, context));
    }

    fn stop(&mut self) {
        self.carrier.executor.set_why(Why::Stopped);
        self.handle(Input::Stopping);
    }

    fn carry_out(&mut self) {
        self.carrier.carry_out(&mut self.session);
    }

    /// Asks the client to move to another stream, perhaps of this coordinator if that `keeps_serving`. The client then has two sessions
    /// for a moment.
    fn ask_to_move(&mut self, keeps_serving: bool) {
        if let Some(place) = &mut self.carrier.place {
            place.account.may_be_replaced();
        }
        let deadline = self.carrier.coordinator.limits().config().drain_timeout;
        self.handle(Input::Draining(Draining {
            deadline,
            keeps_serving,
        }));
    }

    fn is_store_up(&self) -> bool {
        self.carrier.coordinator.store().status().borrow().is_up()
    }

    /// Returns whether the client's messages are read.
    fn hears(&self) -> bool {
        self.session.phase() == Phase::Open && self.carrier.outbox.has_room()
    }

    fn revise(&mut self) {
        let granted = &self.carrier.surroundings.granted;
        let is_permitted = |name: &LockName, mode: Mode| {
            granted.permits(Permission::Acquire, self.kind.place(mode), name.as_str())
        };
        with_context(|context| self.session.revise(&is_permitted, context));
    }

    fn on_event(&mut self, event: InboxEvent) {
        let input = match event {
            InboxEvent::Answered(id, result) => {
                let result = self.carrier.executor.answered(id, result);
                Input::StoreReply(id, result)
            }
            InboxEvent::Registry(owner, event) => Input::Registry(owner, event),
            InboxEvent::EndedByOperator(order) => {
                let (session, endable) = (&self.session, &mut self.carrier.endable);
                if !session.ends_with(order.mark.session) {
                    return endable.goes_on(order.mark.session);
                }
                match order.decide(endable.id(), session.names()) {
                    Decision::Ends => {
                        endable.ends(&order.mark, session.holds(), session.acquires());
                    }
                    Decision::GoesOn => return endable.goes_on(order.mark.session),
                    Decision::Denied => return endable.denies(&order.mark),
                }
                self.carrier.executor.set_why(Why::SessionEnded);
                Input::EndedByOperator
            }
            InboxEvent::ReleaseRequested(owner, token, request) => {
                Input::ReleaseRequested(owner, token, request)
            }
        };
        self.handle(input);
    }

    fn on_signal(&mut self, signal: Signal, requests: &mut Requests) {
        let is_open = self.session.phase() == Phase::Open;
        match signal {
            Signal::Stopping => self.stop(),
            Signal::Ended(ending) if ending.by_peer() && is_open => {
                // What the peer had sent before may be a release or a close.
                while self.session.phase() == Phase::Open
                    && let Some(Some(Ok(request))) = requests.next().now_or_never()
                {
                    self.on_request(request);
                }
                self.on_stream_ended(StreamEnd::ByPeer);
            }
            // The stream says so itself.
            Signal::Ended(_) | Signal::Suspended => {}
            Signal::Draining => self.ask_to_move(false),
            Signal::Store(is_up) => self.handle(Input::StoreUp(is_up)),
            Signal::Rights(Ok(granted)) => {
                self.carrier.surroundings.granted = granted;
                self.revise();
            }
            Signal::Rights(Err(refusal)) if is_open => self.break_off(refusal),
            // The client for whom it was kept is nobody any more.
            Signal::Rights(Err(_)) => {
                self.carrier.executor.set_why(Why::PermissionRevoked);
                with_context(|context| self.session.terminate(context));
            }
        }
    }

    fn on_message(&mut self, message: Result<Option<messages::Message>, Status>) {
        let end = match message {
            Ok(Some(request)) => return self.on_request(request),
            Ok(None) if self.connection.peer_ended_stream(None) => StreamEnd::ByPeer,
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
        self.carrier.executor.set_why(match end {
            StreamEnd::ByPeer => Why::ClientGone,
            StreamEnd::Cut => Why::CutOff,
        });
        self.handle(Input::StreamEnded(end));
        if end == StreamEnd::ByPeer && self.session.phase() == Phase::Detached {
            // Nobody is at its other end.
            self.carrier.outbox.close();
        }
    }

    /// Ends the stream because the client broke the protocol, or is nobody any more. It may still believe in its locks.
    fn break_off(&mut self, refusal: Refusal) {
        self.carrier.fail(refusal);
        self.on_stream_ended(StreamEnd::Cut);
    }

    /// Takes one request in. A bad request is answered with `error` and changes nothing.
    fn on_request(&mut self, request: messages::Message) {
        let heading = messages::heading(&request);
        let (request_id, kind) = (heading.id, heading.kind);
        self.carrier.coordinator.metrics().count_request(kind);
        if let Some(most) = self.max_stream_size {
            self.received += request.encoded_len() + PREFIX;
            if self.received >= most {
                self.received = 0;
                self.asked_to_move_at = Some(clock::now());
            }
        }
        self.carrier.outbox.following.asked(&heading);
        match self.decode(request, kind) {
            Ok(request) => {
                if matches!(request, Request::Close(_)) {
                    self.carrier.executor.set_why(Why::Closed);
                }
                self.handle(Input::Request(request_id, request));
                if kind == RequestKind::Heartbeat {
                    self.carrier.heard(self.session.lease().heard_at());
                }
            }
            Err(refusal) => self.carrier.refuse(request_id, refusal),
        }
    }

    /// Checks a request's fields, and whether the client may ask it.
    fn decode(&self, request: messages::Message, kind: RequestKind) -> Result<Request, Refusal> {
        let coordinator = &self.carrier.coordinator;
        if let Some(place) = &self.carrier.place
            && !kind.is_free()
        {
            coordinator.limits().request(&place.account)?;
        }
        let mut request =
            messages::request(request, coordinator.field_bounds(), self.kind.closer())?;
        let (session, granted) = (&self.session, &self.carrier.surroundings.granted);
        let owns = |owner: &OwnerId, name: &LockName| session.owns(owner, name);
        self.kind.check(&request, kind, granted, owns)?;
        if let Request::Acquire(acquire) = &mut request {
            self.kind.bound(acquire, granted);
        }
        Ok(request)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        with_context(|context| self.session.terminate(context));
        self.carry_out();
    }
}

/// Returns whether the stream ended because a message could not be decoded.
fn is_undecodable(status: &Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::Internal
            | tonic::Code::InvalidArgument
            | tonic::Code::ResourceExhausted
            | tonic::Code::Unimplemented
    )
}

#[cfg(test)]
mod tests;
