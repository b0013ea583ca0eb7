//! Schedule of the simulated world: who has something to do next, and the steps from one event to the next.

use leasehold_core::{
    id::SessionId,
    session::{CommandFailure, Input, Phase},
};
use leasehold_server::coordinator::inbox::InboxEvent;

use crate::{
    client::Stream,
    coordinator::{ADMITTED, State},
    store::Event,
    world::{CLIENTS, COORDINATORS, World},
};

/// Most steps at one moment.
const MOST_AT_ONCE: usize = 2_000;

impl World {
    /// Notes that when a client has something to do may have changed.
    pub(crate) fn touch_client(&mut self, number: usize) {
        self.client_due[number] = None;
    }

    /// Notes that when a coordinator has something to do may have changed.
    pub(crate) fn touch_coordinator(&mut self, number: usize) {
        self.coordinator_due[number] = None;
    }

    pub(crate) fn touch_all(&mut self) {
        self.client_due = [None; CLIENTS];
        self.coordinator_due = [None; COORDINATORS];
    }

    /// Returns when something happens next.
    pub(crate) fn next_event(&mut self) -> u64 {
        let mut next = self.disturb_at.min(self.detect_at);
        next = next.min(self.watching_due());
        next = next.min(self.candidates_due());
        next = next.min(self.store.due().unwrap_or(u64::MAX));
        for number in 0..CLIENTS {
            let due = self.client_due[number].unwrap_or_else(|| self.find_client_due(number));
            self.client_due[number] = Some(due);
            next = next.min(due);
        }
        for number in 0..COORDINATORS {
            let due = self.coordinator_due[number];
            let due = due.unwrap_or_else(|| self.find_coordinator_due(number));
            self.coordinator_due[number] = Some(due);
            next = next.min(due);
        }
        next.max(self.now)
    }

    fn find_client_due(&self, number: usize) -> u64 {
        let mut next = self.clients[number].due().unwrap_or(u64::MAX);
        for stream in self.streams.values() {
            if stream.client == number {
                next = next.min(self.down_due(stream).unwrap_or(u64::MAX));
            }
        }
        next
    }

    fn find_coordinator_due(&self, number: usize) -> u64 {
        let coordinator = &self.coordinators[number];
        let mut next = match coordinator.state {
            State::Up => u64::MAX,
            State::Draining(at) | State::Stopping(at) | State::Down(at) => at,
        };
        next = next.min(self.sessions_due(number).unwrap_or(u64::MAX));
        if let Some(at) = coordinator.contended.next_timeout() {
            next = next.min(at.as_micros());
        }
        if !coordinator.is_store_up {
            next = next.min(coordinator.store_up_at);
        } else if coordinator.is_up() {
            next = next.min(coordinator.look_at);
        }
        for (stream, it) in &self.streams {
            if it.coordinator == number {
                next = next.min(self.up_due(*stream, it).unwrap_or(u64::MAX));
            }
        }
        next.max(coordinator.hung_until)
    }

    fn up_due(&self, number: usize, stream: &Stream) -> Option<u64> {
        let coordinator = &self.coordinators[stream.coordinator];
        let session = coordinator.sessions.get(&number);
        let hears = session.is_none_or(|served| served.hears());
        let due = stream.up.due().filter(|due| hears && *due != u64::MAX)?;
        Some(due.max(coordinator.hung_until))
    }

    fn down_due(&self, stream: &Stream) -> Option<u64> {
        let client = &self.clients[stream.client];
        let due = stream.down.due();
        let due = due.filter(|due| *due != u64::MAX && !stream.is_client_gone)?;
        Some(due.max(client.asleep_until))
    }

    /// Jumps to an event and does what is due then. Returns when something happens next.
    pub(crate) fn step(&mut self, now: u64) -> u64 {
        self.now = now;
        for _ in 0..MOST_AT_ONCE {
            self.do_due();
            let next = self.next_event();
            if next > now {
                self.check();
                return next;
            }
        }
        panic!("something is due again and again");
    }

    fn do_due(&mut self) {
        let now = self.now;
        if self.disturb_at <= now {
            self.disturb();
            self.touch_all();
        }
        if self.detect_at <= now {
            self.detect();
            self.forget_streams();
            self.touch_all();
        }
        for number in 0..COORDINATORS {
            if self.is_due(self.coordinator_due[number]) {
                self.run_coordinator(number);
            }
        }
        while self.store.due().is_some_and(|at| at <= now) {
            let (_, event) = self.store.agenda.pop_first().unwrap();
            self.digest(match &event {
                Event::Execute(_) => 1,
                Event::Reply(..) => 2,
                Event::WakeUp(..) => 3,
                Event::CleanUp(..) => 4,
            });
            self.happen(event);
        }
        for number in 0..COORDINATORS {
            if self.is_due(self.coordinator_due[number]) {
                self.hear_all(number);
            }
        }
        for client in 0..CLIENTS {
            if self.is_due(self.client_due[client]) {
                self.tell_all(client);
            }
            if self.is_due(self.client_due[client])
                && self.clients[client].due().is_some_and(|due| due <= now)
            {
                self.digest(7);
                self.run_client(client);
            }
        }
        if self.candidates_due() <= now {
            self.digest(8);
            self.run_candidates();
        }
        for number in 0..COORDINATORS {
            if self.is_due(self.coordinator_due[number])
                && self.coordinators[number].hung_until <= now
            {
                self.look_at_marks(number);
                self.run_contention(number);
                self.run_sessions(number);
            }
        }
        if self.watching_due() <= now {
            self.run_watching();
        }
    }

    /// Returns whether something may be due by now.
    fn is_due(&self, due: Option<u64>) -> bool {
        due.is_none_or(|due| due <= self.now)
    }

    /// Has a coordinator take in the next message of each stream, if it has arrived.
    fn hear_all(&mut self, number: usize) {
        let streams = self.streams.iter();
        let due = streams.filter(|(stream, it)| {
            let due = it.coordinator == number && !it.up.is_empty();
            due && self.up_due(**stream, it).is_some_and(|due| due <= self.now)
        });
        let due: Vec<usize> = due.map(|(stream, _)| *stream).collect();
        for number in due {
            if let Some(stream) = self.streams.get_mut(&number)
                && let Some(message) = stream.up.pop(self.now)
            {
                let coordinator = stream.coordinator;
                self.digest(5);
                self.hear(coordinator, number, message);
            }
        }
    }

    /// Has a client take in the next message of each stream, if it has arrived.
    fn tell_all(&mut self, client: usize) {
        let streams = self.streams.iter();
        let due = streams.filter(|(_, it)| {
            let due = it.client == client && !it.down.is_empty();
            due && self.down_due(it).is_some_and(|due| due <= self.now)
        });
        let due: Vec<usize> = due.map(|(stream, _)| *stream).collect();
        for number in due {
            if let Some(stream) = self.streams.get_mut(&number)
                && let Some(message) = stream.down.pop(self.now)
            {
                self.digest(6);
                self.told(number, message);
            }
        }
    }

    fn digest(&mut self, what: u64) {
        let digest = self.digest.rotate_left(5) ^ self.now ^ (what << 48);
        self.digest = digest.wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn forget_streams(&mut self) {
        self.streams
            .retain(|_, stream| !stream.is_client_gone || stream.up.due().is_some());
        self.candidates.forget_streams(&self.streams);
    }

    /// Has every session of a coordinator do what is due, until they have nothing to tell each other.
    pub(crate) fn run_sessions(&mut self, number: usize) {
        let sessions = &self.coordinators[number].sessions;
        let streams: Vec<usize> = sessions.keys().copied().collect();
        let mut is_quiet = false;
        while !std::mem::replace(&mut is_quiet, true) {
            for stream in &streams {
                is_quiet &= !self.run_session(number, *stream);
            }
        }
    }

    /// Has a session do what is due. Returns whether anything was.
    fn run_session(&mut self, number: usize, stream: usize) -> bool {
        let now = self.moment();
        let coordinator = &self.coordinators[number];
        let has_room = coordinator.acquiring < ADMITTED;
        let Some(served) = coordinator.sessions.get(&stream) else {
            return false;
        };
        let Some(session) = &served.session else {
            return false;
        };
        let is_due = session.next_timeout().is_some_and(|at| at <= now);
        let was_open = session.phase() == Phase::Open;
        let may_start = has_room && session.has_admission_queue();
        let mut events = Vec::new();
        served.inbox.take(&mut events);
        if is_due {
            self.serve(number, stream, "time", |session, context| {
                session.handle_timeout(context);
            });
            if was_open && !self.coordinators[number].sessions.contains_key(&stream) {
                self.seen.silent += 1;
            }
        }
        let has_events = !events.is_empty();
        for event in events {
            let input = match event {
                InboxEvent::Answered(id, result) => {
                    Input::StoreReply(id, result.map_err(CommandFailure::Store))
                }
                InboxEvent::EndedByOperator(order) => {
                    let id = order.mark.session;
                    if !self.is_to_end(number, stream, id) {
                        continue;
                    }
                    self.on_ended(number, stream, id);
                    Input::EndedByOperator
                }
                InboxEvent::Registry(owner, event) => Input::Registry(owner, event),
                InboxEvent::ReleaseRequested(owner, token, request) => {
                    Input::ReleaseRequested(owner, token, request)
                }
            };
            self.handle(number, stream, input);
        }
        if may_start && !is_due && !has_events {
            self.serve(number, stream, "room", |_, _| {});
        }
        is_due || has_events
    }

    /// Returns whether a session ends because an operator ends the one of this id. If not, it can be told again.
    fn is_to_end(&self, number: usize, stream: usize, id: SessionId) -> bool {
        let served = self.coordinators[number].sessions.get(&stream);
        served.is_some_and(|served| {
            let session = served.session.as_ref();
            let ends = session.is_some_and(|session| session.ends_with(id));
            if let Some(endable) = served.endable.as_ref().filter(|_| !ends) {
                endable.goes_on(id);
            }
            ends
        })
    }

    /// Returns when a session of a coordinator has something to do.
    pub(crate) fn sessions_due(&self, number: usize) -> Option<u64> {
        let sessions = self.coordinators[number].sessions.values();
        let due = sessions.filter_map(|served| served.session.as_ref()?.next_timeout());
        due.min().map(|at| at.as_micros())
    }
}
