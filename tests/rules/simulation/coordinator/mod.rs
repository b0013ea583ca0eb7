//! Coordinators of the simulated world: real session machines, real registries and the real conversion of messages. Only what
//! a driver does is written anew, on the world's time.

mod served;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use leasehold_client::simulation::StreamEnd as ClientEnd;
use leasehold_core::{
    command::Op,
    contention::{self, ContendedNames},
    id::{CoordinatorId, FencingToken, OwnerId, SessionId},
    lease::Lease,
    name::LockName,
    session::{Config, Context, Input, Phase, Request, Resumed, Session, StreamEnd},
};
use leasehold_proto::v1::{SessionRequest, session_request::Request as Asked};
use leasehold_server::{
    convert::{self, FieldBounds, session::Surroundings, stream::Kind},
    coordinator::{ends::Ends, inbox::InboxEvent, registry::Registry},
    limits::Limits,
    status::{Reason, Refusal},
};
use leasehold_store::{Store as AnyStore, memory::MemoryStore};
use prost::Message;

pub(crate) use self::served::{Served, Tracked};
use crate::{
    store::{Destination, Event, Run},
    world::{BOUNDS, LONGEST_TTL, World},
};

/// Most acquires of one coordinator on their way to the store.
pub(crate) const ADMITTED: usize = 4;

/// Message on its way to a coordinator, or the end of the stream as it sees that.
pub(crate) enum Up {
    Message(Vec<u8>),
    End(StreamEnd),
}

/// Stage of a coordinator's life.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    /// It stops then.
    Draining(u64),
    /// It has stopped, and ends then.
    Stopping(u64),
    /// It starts again then.
    Down(u64),
}

pub(crate) struct Coordinator {
    pub(crate) id: CoordinatorId,
    pub(crate) runs: u64,
    pub(crate) state: State,
    pub(crate) hung_until: u64,
    pub(crate) is_store_up: bool,
    pub(crate) store_up_at: u64,
    pub(crate) registry: Registry,
    /// Every owner id that was ever registered in this run.
    pub(crate) known: BTreeSet<OwnerId>,
    pub(crate) contended: ContendedNames,
    /// Releases in the background that are not done.
    pub(crate) cleanups: usize,
    pub(crate) floor: i64,
    /// Its sessions, by the numbers of their streams.
    pub(crate) sessions: BTreeMap<usize, Box<Served>>,
    /// Acquires on their way to the store.
    pub(crate) acquiring: usize,
    /// The sessions that operators can end here, and when it looks at the marks next.
    pub(crate) ends: Ends,
    pub(crate) look_at: u64,
}

impl Coordinator {
    pub(crate) fn new(number: usize, runs: u64) -> Self {
        Self {
            id: CoordinatorId::new(&format!("c{number}.{runs}")),
            runs,
            state: State::Up,
            hung_until: 0,
            is_store_up: true,
            store_up_at: 0,
            registry: Registry::default(),
            known: BTreeSet::new(),
            contended: ContendedNames::default(),
            cleanups: 0,
            floor: 0,
            sessions: BTreeMap::new(),
            acquiring: 0,
            ends: Ends::default(),
            look_at: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        !matches!(self.state, State::Down(_))
    }

    pub(crate) fn learn(&mut self, token: FencingToken) {
        self.floor = self.floor.max(token.get() + 1);
    }
}

/// Store and limits that the checks of messages need.
pub(crate) struct Checks {
    store: AnyStore,
    limits: Limits,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            store: Arc::new(MemoryStore::open().0),
            limits: Limits::new(leasehold_server::Config::default().into()),
        }
    }
}

impl Checks {
    pub(crate) fn bounds(&self) -> FieldBounds<'_> {
        FieldBounds {
            store: &self.store,
            ttl: &BOUNDS,
            max_wait: Duration::from_secs(3600),
            limits: &self.limits,
        }
    }
}

impl World {
    pub(crate) fn run(&self, number: usize) -> Run {
        (number, self.coordinators[number].runs)
    }

    /// Takes in what arrived on a stream.
    pub(crate) fn hear(&mut self, number: usize, stream: usize, message: Up) {
        self.touch_coordinator(number);
        let session = self.coordinators[number].sessions.get(&stream);
        let phase = session.and_then(|served| Some(served.session.as_ref()?.phase()));
        self.tell(|| match &message {
            Up::Message(bytes) => {
                let message = SessionRequest::decode(&bytes[..]);
                format!("coordinator {number} hears on {stream}: {message:?}")
            }
            Up::End(end) => format!("coordinator {number} hears the end of {stream}: {end:?}"),
        });
        match (message, phase) {
            (Up::Message(bytes), _) if self.candidates.has(stream) => {
                self.hear_candidate(number, stream, &bytes);
            }
            (Up::End(end), _) => {
                self.handle(number, stream, Input::StreamEnded(end));
                // Nobody is at its other end.
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.is_coordinator_gone = true;
                }
                let sessions = &mut self.coordinators[number].sessions;
                if sessions.get(&stream).is_some_and(|it| it.session.is_none()) {
                    sessions.remove(&stream);
                }
            }
            (Up::Message(bytes), None) => {
                let request = SessionRequest::decode(&bytes[..]).unwrap();
                self.open_or_refuse(number, stream, request, Kind::LeaseStream);
            }
            (Up::Message(bytes), Some(Phase::Open)) => {
                let request = SessionRequest::decode(&bytes[..]).unwrap();
                self.on_request(number, stream, request);
            }
            (Up::Message(_), Some(_)) => {}
        }
    }

    /// Opens a session with its first message, or ends its stream with the reason.
    pub(crate) fn open_or_refuse(
        &mut self,
        number: usize,
        stream: usize,
        request: SessionRequest,
        kind: Kind,
    ) {
        if let Err(refusal) = self.open(number, stream, request, kind) {
            self.coordinators[number].sessions.remove(&stream);
            self.answer(stream, Err(ClientEnd::Status(Box::new(refusal.into()))));
        }
    }

    fn open(
        &mut self,
        number: usize,
        stream: usize,
        request: SessionRequest,
        kind: Kind,
    ) -> Result<(), Refusal> {
        if matches!(
            self.coordinators[number].state,
            State::Draining(_) | State::Stopping(_)
        ) {
            return Err(Refusal::new(
                Reason::Draining,
                "the coordinator is going away",
            ));
        }
        // It is gone already.
        if self.streams[&stream].is_coordinator_gone {
            return Ok(());
        }
        let Some(Asked::Open(mut open)) = request.request else {
            let refusal = Refusal::new(Reason::NotOpen, "the first message is no `open`");
            return Err(self.wrong(refusal));
        };
        let sessions = &mut self.coordinators[number].sessions;
        let served = sessions
            .entry(stream)
            .or_insert_with(|| Box::new(Served::new(kind)));
        let opening = &mut served.opening;
        let (resume, more) = (std::mem::take(&mut open.resume), open.more);
        let (request_id, open) = opening.first.take().unwrap_or((request.request_id, open));
        let bounds = self.checks.bounds();
        opening.resume.add(resume, request_id, 100, bounds)?;
        if more {
            opening.first = Some((request_id, open));
            return Ok(());
        }
        let ttl = convert::ttl("open.ttl", open.ttl, &BOUNDS)?;
        let grace = convert::disconnect_grace("grace", open.disconnect_grace, ttl)?;
        let client_name = convert::client_name("name", &open.client_name)?;
        let rights = self.rights.granted();
        let (resume, denied) = std::mem::take(&mut opening.resume).finish(&rights);
        let id = self.draw_session(kind, stream);
        let sessions = &mut self.coordinators[number].sessions;
        let mut served = sessions.remove(&stream).expect("it was just there");
        let coordinator = &mut self.coordinators[number];
        served.surroundings = Some(Surroundings {
            session: id,
            ttl,
            coordinator: coordinator.id.clone(),
            limits: self.checks.limits.clone(),
            granted: rights,
            denied,
        });
        served.client.clone_from(&open.client_name);
        served.endable = Some(coordinator.ends.add(id, &served.inbox));
        for (at, resumption) in resume.iter().enumerate() {
            coordinator.known.insert(resumption.next);
            let inbox = Arc::clone(&served.inbox);
            if !coordinator.registry.claim(resumption.next, inbox) {
                for claimed in &resume[..at] {
                    coordinator.registry.forget(&claimed.next);
                }
                let refusal = Refusal::field("open.resume", "an owner id was used before");
                return Err(self.wrong(refusal));
            }
            if let Resumed::Hold { count, .. } = resumption.what {
                assert!(count > 0);
            }
        }
        let config = Config {
            id,
            client_name,
            grace,
            max_locks: 100,
            store_timeout: self.store_timeout,
            max_ttl: LONGEST_TTL,
            tells_tickets: kind.tells_tickets(),
            needs_replicas: false,
        };
        let is_store_up = coordinator.is_store_up;
        let now = self.moment();
        let owners = &mut self.owners;
        let mut fresh = || {
            *owners += 1;
            OwnerId::from_bytes((u128::from(*owners) << 64).to_be_bytes())
        };
        let mut context = Context {
            now,
            fresh_owner: &mut fresh,
        };
        let lease = Lease::open(ttl, now);
        let session = Session::open(config, lease, request_id, resume, &mut context);
        served.session = Some(session);
        self.coordinators[number].sessions.insert(stream, served);
        self.handle(number, stream, Input::StoreUp(is_store_up));
        Ok(())
    }

    fn draw_session(&mut self, kind: Kind, stream: usize) -> SessionId {
        let number = match kind {
            Kind::LeaseStream => {
                self.opened += 1;
                u128::from(self.opened)
            }
            // Operators end the last sessions of the clients more often than these.
            Kind::Candidacy => (stream as u128) << 64,
        };
        SessionId::from_bytes(number.to_be_bytes())
    }

    pub(crate) fn on_request(&mut self, number: usize, stream: usize, request: SessionRequest) {
        let heading = convert::request::heading(&request);
        let (request_id, kind) = (heading.id, heading.kind);
        let bounds = self.checks.bounds();
        let served = &self.coordinators[number].sessions[&stream];
        let stream_kind = served.kind;
        let mut request = match convert::request::request(request, bounds, stream_kind.closer()) {
            Ok(request) => request,
            Err(refusal) => {
                let refused = convert::session::refused(request_id, self.wrong(refusal));
                return self.answer(stream, Ok(refused));
            }
        };
        let served = &self.coordinators[number].sessions[&stream];
        let (Some(session), Some(surroundings)) = (&served.session, &served.surroundings) else {
            return;
        };
        let granted = &surroundings.granted;
        let owns = |owner: &OwnerId, name: &LockName| session.owns(owner, name);
        if let Err(refusal) = stream_kind.check(&request, kind, granted, owns) {
            self.seen.refused_by_rights += 1;
            let refused = convert::session::refused(request_id, refusal);
            return self.answer(stream, Ok(refused));
        }
        if let Request::Acquire(acquire) = &mut request {
            stream_kind.bound(acquire, granted);
        }
        self.handle(number, stream, Input::Request(request_id, request));
    }

    /// Returns a refusal of what only a hostile client asks for.
    pub(crate) fn wrong(&self, refusal: Refusal) -> Refusal {
        assert!(
            self.is_hostile,
            "the client asked for something wrong: {refusal:?}"
        );
        refusal
    }

    /// Takes in what happens to a coordinator, unless that has ended meanwhile.
    pub(crate) fn happen(&mut self, event: Event) {
        let by = match &event {
            Event::Execute(_) => None,
            Event::Reply(sent, _) => Some(sent.by),
            Event::WakeUp(by, _) | Event::CleanUp(by, _) => Some(*by),
        };
        if let Some(by) = by {
            self.touch_coordinator(by.0);
            let coordinator = &self.coordinators[by.0];
            if coordinator.runs != by.1 || !coordinator.is_up() {
                return;
            }
            if coordinator.hung_until > self.now {
                let at = coordinator.hung_until;
                return self.store.plan(at, event);
            }
        }
        match event {
            Event::Execute(sent) => self.execute(sent),
            Event::WakeUp(by, wake_up) => self.on_wake_up(by, wake_up),
            Event::CleanUp(by, pending) => self.send_clean_up(by, pending),
            Event::Reply(sent, result) => {
                let (by, name) = (sent.by, &sent.command.name);
                match &result {
                    Ok(stamped) => self.note(by, name, stamped),
                    // It may have handed the lock on: whoever waits here finds out at once. Others find out for themselves.
                    Err(error)
                        if error.is_indeterminate()
                            && matches!(sent.to, Destination::Session(..))
                            && !matches!(sent.command.op, Op::Renew { .. }) =>
                    {
                        self.recheck(by, name, Duration::ZERO);
                    }
                    Err(_) => {}
                }
                match sent.to {
                    Destination::Session(stream, id) => {
                        let coordinator = &mut self.coordinators[by.0];
                        if matches!(sent.command.op, Op::Acquire(_)) {
                            coordinator.acquiring -= 1;
                        }
                        if let Some(served) = coordinator.sessions.get(&stream) {
                            served.inbox.put(InboxEvent::Answered(id, result));
                        }
                    }
                    Destination::CleanUp(pending) => self.on_clean_up(by, pending, result),
                    Destination::Contention(id) => {
                        self.contend(by, contention::Input::Answered(id, result));
                    }
                }
            }
        }
    }
}
