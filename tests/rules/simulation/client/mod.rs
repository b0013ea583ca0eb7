//! Clients of the simulated world: real session machines, with programs that ask for locks and drivers that connect.

mod state;

use std::collections::BTreeMap;

use leasehold_client::{
    AcquireError,
    simulation::{Output, StreamEnd as ClientEnd},
};
use leasehold_core::session::StreamEnd;
use leasehold_proto::v1::{SessionResponse, session_response::Response};
use prost::Message;

pub(crate) use self::state::{Client, DRAWN};
use crate::{
    coordinator::{State, Up},
    dice::{MS, Pipe},
    transitions,
    weather::Weather,
    world::World,
};

/// How long a client waits for the end of a stream that it has left.
const GOODBYE: u64 = 2_000 * MS;
/// A stream, with what is on its way.
pub(crate) struct Stream {
    pub(crate) client: usize,
    pub(crate) coordinator: usize,
    /// The client's number of it.
    pub(crate) number: u64,
    pub(crate) up: Pipe<Up>,
    pub(crate) down: Pipe<Result<Vec<u8>, ClientEnd>>,
    /// Its client hears nothing of it any more.
    pub(crate) is_client_gone: bool,
    /// Its coordinator says nothing on it any more.
    pub(crate) is_coordinator_gone: bool,
}

/// Removes what clients of former releases do not know.
fn forget_bounds(message: &mut SessionResponse) {
    match &mut message.response {
        Some(Response::Granted(granted)) => granted.bounded.clear(),
        Some(Response::Opened(opened)) => {
            for lock in &mut opened.resumed {
                lock.ends_in = None;
            }
        }
        _ => {}
    }
}

impl World {
    /// Opens a stream, which its client knows by this number.
    pub(crate) fn open_stream(&mut self, client: usize, coordinator: usize, number: u64) -> usize {
        self.opened_streams += 1;
        let stream = Stream {
            client,
            coordinator,
            number,
            up: Pipe::new(),
            down: Pipe::new(),
            is_client_gone: false,
            is_coordinator_gone: false,
        };
        self.streams.insert(self.opened_streams, stream);
        self.opened_streams
    }

    /// Sends a stream's coordinator something: with an end, the client is gone.
    pub(crate) fn send_up(&mut self, stream: usize, at: u64, what: Up) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.is_client_gone |= matches!(what, Up::End(_));
            stream.up.push(at, what);
            let coordinator = stream.coordinator;
            self.touch_coordinator(coordinator);
        }
    }

    /// Takes in what arrived on a stream.
    pub(crate) fn told(&mut self, number: usize, message: Result<Vec<u8>, ClientEnd>) {
        let Some(stream) = self.streams.get(&number) else {
            return;
        };
        let (client, of_client) = (stream.client, stream.number);
        self.touch_client(client);
        let clock = self.clients[client].clock(self.now);
        self.tell(|| match &message {
            Ok(bytes) => format!(
                "client {client} hears on {number}: {:?}",
                SessionResponse::decode(&bytes[..])
            ),
            Err(end) => format!("client {client} hears the end of {number}: {end:?}"),
        });
        let it = &mut self.clients[client];
        match message {
            Ok(bytes) => {
                let mut message = SessionResponse::decode(&bytes[..]).unwrap();
                if !it.knows_bounds {
                    forget_bounds(&mut message);
                }
                let is_request = matches!(message.response, Some(Response::ReleaseRequested(_)));
                if it.streams().contains(&number) {
                    let event = transitions::message(&message);
                    it.turn(event, |it| it.message(clock, of_client, message));
                }
                if is_request {
                    self.check_asked(client);
                }
            }
            Err(end) => {
                if matches!(&end, ClientEnd::Status(status) if status.message().contains("has stopped"))
                {
                    self.seen.stops += 1;
                }
                if it.streams().contains(&number) {
                    it.turn(transitions::end(&end), |it| {
                        it.stream_ended(clock, of_client, end)
                    });
                } else if it.overdue.contains(&number) {
                    it.machine.overdue_ended(clock, end);
                }
                self.let_go(client, number);
            }
        }
        self.carry_out_client(client);
    }

    /// Fails if a guard was asked for that the operator did not mean. A guard that its actor shares is asked for with its hold.
    fn check_asked(&mut self, client: usize) {
        let it = &self.clients[client];
        let clock = it.clock(self.now);
        for guard in &it.guards {
            let Some(reason) = guard.asked(clock) else {
                continue;
            };
            let hold = (it.name.clone(), guard.token().get());
            assert!(
                self.was_asked(&reason, &hold),
                "{hold:?} was asked by {reason}, which meant {:?}",
                self.asked[&reason]
            );
            self.seen.guards_asked += 1;
        }
    }

    /// A client's connection is gone: its driver looks for another one.
    fn let_go(&mut self, client: usize, number: usize) {
        let it = &mut self.clients[client];
        it.current.take_if(|current| *current == number);
        it.next.take_if(|next| *next == number);
        it.overdue.retain(|overdue| *overdue != number);
        it.leaving.retain(|(leaving, _)| *leaving != number);
        let at = self.now + self.dice.delay();
        self.send_up(number, at, Up::End(StreamEnd::ByPeer));
        self.touch_client(client);
    }

    pub(crate) fn run_client(&mut self, client: usize) {
        let now = self.now;
        let it = &mut self.clients[client];
        let clock = it.clock(now);
        if it.machine.alarm().is_some_and(|alarm| alarm <= clock) {
            it.turn("time", |it| it.tick(clock));
        }
        self.carry_out_client(client);
        let leaving = self.clients[client].leaving.clone();
        for (stream, until) in leaving {
            if until <= now {
                self.let_go(client, stream);
            }
        }
        self.dial(client);
        if self.clients[client].act_at <= now {
            let longest = match (self.is_calm && !self.is_prompt, self.is_patient) {
                (true, _) => 60 * MS,
                (false, false) => 150 * MS,
                (false, true) => 400 * MS,
            };
            let is_idle = self.is_calm && !self.is_prompt || self.is_closing;
            // What waits is acted on when it is granted.
            let pause = match is_idle && self.clients[client].guards.is_empty() {
                true => self.dice.between(100 * MS, 200 * MS),
                false => self.dice.between(5 * MS, longest),
            };
            self.clients[client].act_at = now + pause;
            self.act(client);
            self.carry_out_client(client);
        }
    }

    fn dial(&mut self, client: usize) {
        let now = self.now;
        let it = &mut self.clients[client];
        if it.is_ended || !it.machine.wants_connection() || it.next.is_some() {
            it.dial_at = None;
            return;
        }
        let at = *it
            .dial_at
            .get_or_insert_with(|| now + self.dice.between(MS, 80 * MS));
        if now < at {
            return;
        }
        let clock = it.clock(now);
        let number = self.dice.index(self.coordinators.len());
        let coordinator = &self.coordinators[number];
        let serves = coordinator.state == State::Up && coordinator.hung_until <= now;
        let is_there = coordinator.is_up() && it.cut_off_until <= now;
        if !is_there || it.machine.awaits_beginning(clock) && !serves {
            // In a rolling restart there is always another one.
            if self.weather == Weather::Stormy && self.dice.once_in(2) {
                it.turn("connect failed", |it| it.connect_failed(clock));
            }
            it.dial_at = Some(now + self.dice.between(20 * MS, 100 * MS));
            return self.carry_out_client(client);
        }
        it.dial_at = None;
        let of_client = it.turn("connected", |it| it.connected(clock));
        let stream = self.open_stream(client, number, of_client);
        self.clients[client].next = Some(stream);
        self.carry_out_client(client);
    }

    /// Cancels and releases everything.
    pub(crate) fn give_all_back(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let clock = it.clock(self.now);
        it.campaigns.clear();
        for id in std::mem::take(&mut it.waits).into_keys() {
            it.turn("cancel", |it| it.cancel(clock, id));
        }
        for guard in std::mem::take(&mut it.guards) {
            it.turn("release", |it| it.release(clock, &guard));
        }
        self.carry_out_client(client);
    }

    /// The process dies, and the system ends its connections.
    pub(crate) fn die(&mut self, client: usize) {
        let it = &self.clients[client];
        let left = it.leaving.iter().map(|(stream, _)| *stream);
        let streams: Vec<usize> = it
            .streams()
            .into_iter()
            .chain(it.overdue.iter().copied())
            .chain(left)
            .collect();
        for stream in streams {
            self.let_go(client, stream);
        }
        self.start_client(client);
    }

    pub(crate) fn carry_out_client(&mut self, client: usize) {
        self.touch_client(client);
        while let Some(output) = self.clients[client].machine.next_output() {
            let now = self.now;
            self.tell(|| format!("client {client}: {output:?}"));
            let it = &mut self.clients[client];
            let numbered = |streams: &BTreeMap<usize, Stream>, number: u64| {
                let mut own = it.streams().into_iter();
                own.find(|stream| streams[stream].number == number)
            };
            match output {
                Output::Send(number, request) => {
                    let at = now + self.dice.delay();
                    if let Some(stream) = numbered(&self.streams, number) {
                        self.send_up(stream, at, Up::Message(request.encode_to_vec()));
                    }
                }
                Output::Granted(id, guards) => {
                    let (waited, name) = (it.waits.remove(&id), &it.name);
                    let Some(modes) = waited else {
                        panic!("acquire {id} of {name} was granted after its end");
                    };
                    it.act_at = it.act_at.min(now + self.dice.between(5 * MS, 60 * MS));
                    self.check_modes(client, &guards, &modes);
                    self.on_session_elected(client, id, &guards);
                    for guard in guards {
                        self.seen.grants += 1;
                        let mut live = self.clients[client].live(now);
                        let is_again = live.any(|(other, _)| other.token() == guard.token());
                        drop(live);
                        self.seen.grants_again += u64::from(is_again);
                        self.clients[client].guards.push(guard);
                    }
                }
                Output::NotGranted(id, error) => {
                    assert!(
                        !matches!(error, AcquireError::Refused { ref source, .. } if source.reason() == "INVALID_FIELD"),
                        "{error:?}"
                    );
                    if matches!(error, AcquireError::ForceReleased { .. }) {
                        self.seen.waits_forced += 1;
                    }
                    it.waits.remove(&id);
                    it.campaigns.retain(|campaign| campaign.acquire != id);
                }
                Output::Opened(number) => {
                    let next = it.next.take();
                    let opened = next.filter(|next| self.streams[next].number == number);
                    assert!(opened.is_some(), "another stream opened");
                    let former = std::mem::replace(&mut it.current, opened);
                    it.leaving
                        .extend(former.map(|former| (former, now + GOODBYE)));
                    let overdue = std::mem::take(&mut it.overdue);
                    let live = it.live(now).count() as u64;
                    if former.is_some() {
                        self.seen.moved_while_held += live;
                    } else {
                        self.seen.resumed_after_suspension += live;
                    }
                    for stream in overdue {
                        self.let_go(client, stream);
                    }
                }
                Output::Overdue(number) => {
                    let next = it
                        .next
                        .take_if(|next| self.streams[&*next].number == number);
                    it.overdue.extend(next);
                }
                Output::Cut(number) => {
                    if let Some(stream) = numbered(&self.streams, number) {
                        self.let_go(client, stream);
                    }
                }
                Output::Leave(number) => {
                    let next = it
                        .next
                        .take_if(|next| self.streams[&*next].number == number);
                    it.leaving.extend(next.map(|next| (next, now + GOODBYE)));
                }
                Output::Ended => it.is_ended = true,
                Output::Draining | Output::Changed(_) => {}
            }
        }
    }
}
