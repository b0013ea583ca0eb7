//! Faults of the simulated world, as verbs.

mod rights;

use std::cell::Cell;

use leasehold_client::simulation::StreamEnd as ClientEnd;
use leasehold_core::{
    contention,
    ended::{EndChange, Mark},
    id::SessionId,
    session::{Draining, Input, StreamEnd},
};
use leasehold_server::{access::rules::Granted, coordinator::marks::LOOK_INTERVAL};

pub(crate) use self::rights::{IMPOSED, Rights};
use crate::{
    coordinator::{Coordinator, State, Up},
    dice::{Dice, MS},
    promises::holds,
    world::{NAMES, TOKEN_MEMORY, World, micros, name},
};

thread_local! {
    /// Faults of the world that this thread lives through, or has lived through.
    pub(crate) static DISTURBED: Cell<u64> = const { Cell::new(0) };
}

/// Longest time until the store has carried out what it was asked for.
const CARRIED_OUT: u64 = 10_000 * MS;

/// Kind of the faults.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Every fault.
    #[default]
    Stormy,
    /// One coordinator after the other is drained and restarted; nothing else goes wrong.
    Rolling,
}

impl World {
    /// Returns whether the store serves every command.
    pub(crate) fn is_well(&self) -> bool {
        self.is_calm || self.weather == Weather::Rolling
    }

    /// Does one thing at random, with dice of its own: the others stay what they are if it is left out.
    pub(crate) fn disturb(&mut self) {
        let number = DISTURBED.get() + 1;
        DISTURBED.set(number);
        let dice = Dice::new(self.seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let usual = std::mem::replace(&mut self.dice, dice);
        let is_kept = self.only.as_ref().is_none_or(|only| only.contains(&number));
        self.disturb_once(is_kept);
        self.dice = usual;
    }

    fn disturb_once(&mut self, is_kept: bool) {
        if self.weather == Weather::Rolling {
            return self.roll(is_kept);
        }
        let pause = if self.is_patient {
            self.dice.between(20 * MS, 800 * MS)
        } else {
            self.dice.between(10 * MS, 200 * MS)
        };
        self.disturb_at = self.now + pause;
        if !is_kept {
            return;
        }
        let client = self.dice.index(self.clients.len());
        let number = self.dice.index(self.coordinators.len());
        let span = 4_000 * MS;
        let until = self.now + self.dice.below(span);
        let streams = self.clients[client].streams();
        let stream = (!streams.is_empty()).then(|| streams[self.dice.index(streams.len())]);
        let is_up = self.coordinators[number].state == State::Up;
        // Where locks are kept for long, mostly that which lets renewals and heartbeats come late.
        if self.dice.once_in(12) {
            return self.change_rights();
        }
        if self.is_lossy && self.dice.once_in(4) {
            return self.lose();
        }
        if self.dice.once_in(6) {
            return self.disturb_candidate(until);
        }
        let what = match self.is_patient && self.dice.once_in(2) {
            true => self.dice.pick(&[5, 6, 7, 13, 13, 14, 15, 15]),
            false => self.dice.below(23),
        };
        match (what, stream) {
            (0..=2, Some(stream)) => self.cut_from_client(client, stream),
            (3 | 4, Some(stream)) => self.cut_from_coordinator(stream),
            (5, Some(stream)) => self.hole(stream, until, true, true),
            (6, Some(stream)) => self.hole(stream, until, true, false),
            (7, Some(stream)) => self.hole(stream, until, false, true),
            (8, _) => self.clients[client].asleep_until = until,
            (9, _) if is_up => self.coordinators[number].hung_until = until,
            (10 | 11, _) if is_up => {
                let deadline = self.dice.below(2_000 * MS);
                self.drain(number, deadline);
            }
            (12, _) if is_up => self.crash(number),
            (13, _) if is_up => self.store_goes_down(number),
            (14, _) => self.store.storm = self.now..self.now + self.dice.below(600 * MS),
            (15, _) => self.store_gets_slow(),
            (16, _) => {
                self.seen.deaths += 1;
                self.die(client);
            }
            (17, _) if self.now / MS % 4 == 2 => self.end_session(),
            (17, _) => {
                let of = self.dice.index(NAMES.len());
                self.force_release(of);
            }
            (20, _) => {
                let of = self.dice.index(NAMES.len());
                self.request_release(of);
            }
            (21 | 22, Some(stream)) => self.ask_to_move(stream),
            (18 | 19, _) => {
                self.clients[client].cut_off_until = until;
                for stream in streams {
                    self.hole(stream, until, true, true);
                }
            }
            _ => {}
        }
    }

    /// The store's clock steps, a little or by a lot, or the store loses writes.
    fn lose(&mut self) {
        let by = self.dice.pick(&[20, 200, 1_500, 4_000, 12_000]) * 1_000;
        match self.dice.below(4) {
            // Back and forth.
            0 if self.stepped_by <= 0 => self.step_clock(by),
            0 | 1 => self.step_clock(-by),
            _ => self.fail_over(),
        }
    }

    /// The client hears first that the connection broke. What is on its way may be lost; the coordinator takes it for the
    /// client's doing or for a broken connection, a while later, or hears of nothing until the client is silent.
    fn cut_from_client(&mut self, client: usize, number: usize) {
        if self.clients[client].asleep_until > self.now {
            return;
        }
        self.seen.cuts += 1;
        let (is_lost, is_unheard) = (self.dice.once_in(2), self.dice.once_in(4));
        let end = self.dice.pick(&[StreamEnd::ByPeer, StreamEnd::Cut]);
        let at = self.now + self.dice.below(100 * MS);
        if self.dice.once_in(3) {
            self.clients[client].cut_off_until = self.now + self.dice.below(2_500 * MS);
        }
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.down.clear();
            if is_lost || is_unheard {
                stream.up.clear();
            }
            if is_unheard {
                stream.up.hole_until = u64::MAX;
            }
            stream.up.push(at, Up::End(end));
        }
        self.told(number, Err(ClientEnd::Broken));
    }

    /// The coordinator hears first that the connection broke, and that it was not its client's doing.
    pub(crate) fn cut_from_coordinator(&mut self, number: usize) {
        let is_lost = self.dice.once_in(2);
        let at = self.now + self.dice.below(1_000 * MS);
        if let Some(stream) = self.streams.get_mut(&number) {
            if stream.is_coordinator_gone {
                return;
            }
            self.seen.cuts += 1;
            stream.up.clear();
            stream.up.hole_until = 0;
            if is_lost {
                stream.down.clear();
            }
            stream.up.push(self.now, Up::End(StreamEnd::Cut));
            stream.down.push(at, Err(ClientEnd::Broken));
        }
    }

    pub(crate) fn hole(&mut self, number: usize, until: u64, up: bool, down: bool) {
        if let Some(stream) = self.streams.get_mut(&number) {
            if up {
                stream.up.hole_until = stream.up.hole_until.max(until);
            }
            if down {
                stream.down.hole_until = stream.down.hole_until.max(until);
            }
        }
    }

    /// Drains a coordinator when all of them are there. Sessions have enough time to move.
    fn roll(&mut self, is_kept: bool) {
        self.disturb_at = self.now + self.dice.between(500 * MS, 1_500 * MS);
        if !is_kept {
            return;
        }
        let number = self.dice.index(self.coordinators.len());
        let mut coordinators = self.coordinators.iter();
        if coordinators.all(|it| it.state == State::Up) {
            let deadline = self.dice.between(2_000 * MS, 3_000 * MS);
            self.drain(number, deadline);
        }
    }

    fn drain(&mut self, number: usize, deadline: u64) {
        self.coordinators[number].state = State::Draining(self.now + deadline);
        let draining = Draining {
            deadline: std::time::Duration::from_micros(deadline),
            keeps_serving: false,
        };
        self.tell_sessions(number, &Input::Draining(draining));
    }

    /// A coordinator that goes on serving asks one session to move.
    fn ask_to_move(&mut self, stream: usize) {
        let number = self.streams[&stream].coordinator;
        let draining = Draining {
            deadline: std::time::Duration::ZERO,
            keeps_serving: true,
        };
        self.handle(number, stream, Input::Draining(draining));
    }

    fn tell_sessions(&mut self, number: usize, input: &Input) {
        let streams: Vec<usize> = self.coordinators[number].sessions.keys().copied().collect();
        for stream in streams {
            self.handle(number, stream, input.clone());
        }
    }

    /// An operator ends one of the last sessions: it may be open, without a stream, over, or be resumed at this moment.
    fn end_session(&mut self) {
        let number = self.opened.saturating_sub(self.dice.below(4)).max(1);
        self.mark_session(SessionId::from_bytes(u128::from(number).to_be_bytes()));
    }

    /// An operator ends this session.
    pub(crate) fn mark_session(&mut self, id: SessionId) {
        let mark = Mark {
            session: id,
            by: "operator".into(),
        };
        let change = EndChange::Mark(mark, TOKEN_MEMORY);
        let now = self.store_time();
        self.tell(|| format!("operator: {change:?}"));
        self.store.ended.change(Some(change), now);
    }

    /// Has a coordinator look at the marks of ended sessions, if it is time. Not every look succeeds.
    pub(crate) fn look_at_marks(&mut self, number: usize) {
        let coordinator = &mut self.coordinators[number];
        if !coordinator.is_up() || !coordinator.is_store_up || coordinator.look_at > self.now {
            return;
        }
        coordinator.look_at = self.now + micros(LOOK_INTERVAL);
        self.touch_coordinator(number);
        if !self.is_calm && self.dice.once_in(8) {
            return;
        }
        for mark in self.marks() {
            let ends = &self.coordinators[number].ends;
            ends.end(mark, &Granted::Everything);
        }
    }

    /// Returns the marks of the sessions that an operator has ended.
    pub(crate) fn marks(&mut self) -> Vec<Mark> {
        let now = self.store_time();
        let marks = self.store.ended.change(None, now).unwrap();
        marks.into_iter().map(|(mark, _)| mark).collect()
    }

    /// A session hears that it ends. The guards of its client learn of it when that is carried out, or a TTL later.
    pub(crate) fn on_ended(&mut self, number: usize, stream: usize, mark: SessionId) {
        let Some(served) = self.coordinators[number].sessions.get(&stream) else {
            return;
        };
        let client = served.client.clone();
        let is_successor = served
            .surroundings
            .as_ref()
            .is_some_and(|it| it.session != mark);
        self.seen.sessions_ended += 1;
        self.seen.successors_ended += u64::from(is_successor);
        for (index, text) in NAMES.iter().enumerate() {
            for hold in holds(&self.view(&name(text))) {
                if hold.client_name.as_str() == client {
                    let token = (index, hold.token.get());
                    self.forced.insert(token, self.now + CARRIED_OUT);
                }
            }
        }
    }

    /// The store is slow for a while. Often it fails after that, so that what came late is all that stands.
    fn store_gets_slow(&mut self) {
        let until = self.now + self.dice.below(3_000 * MS);
        self.store.slow_until = until;
        if self.dice.once_in(2) {
            self.store.storm = until..until + self.dice.between(200 * MS, 1_500 * MS);
        }
    }

    fn store_goes_down(&mut self, number: usize) {
        let until = self.now + self.dice.between(50 * MS, 3_000 * MS);
        let coordinator = &mut self.coordinators[number];
        coordinator.is_store_up = false;
        coordinator.store_up_at = until;
        self.break_feed(number, until);
        self.tell_sessions(number, &Input::StoreUp(false));
    }

    /// The process ends without a word; its machine may be gone with it, so that nobody hears of that.
    fn crash(&mut self, number: usize) {
        self.seen.crashes += 1;
        let is_silent = self.dice.once_in(4);
        self.go_down(number, is_silent);
    }

    fn go_down(&mut self, number: usize, is_silent: bool) {
        for stream in self.streams.values_mut() {
            if stream.coordinator != number {
                continue;
            }
            stream.up.clear();
            if !stream.is_coordinator_gone {
                stream.is_coordinator_gone = true;
                if is_silent {
                    stream.down.hole_until = u64::MAX;
                }
                let at = self.now + self.dice.delay();
                stream.down.push(at, Err(ClientEnd::Broken));
            }
        }
        let runs = self.coordinators[number].runs + 1;
        let up_at = self.now + self.dice.below(1_000 * MS);
        self.coordinators[number] = Coordinator::new(number, runs);
        self.coordinators[number].state = State::Down(up_at);
        self.restart_watching(number);
    }

    /// Does what is due to a coordinator itself.
    pub(crate) fn run_coordinator(&mut self, number: usize) {
        let now = self.now;
        if self.coordinators[number].hung_until > now {
            return;
        }
        self.touch_coordinator(number);
        match self.coordinators[number].state {
            State::Draining(at) if at <= now => {
                self.tell_sessions(number, &Input::Stopping);
                // It waits for the releases that are under way.
                let at = now + self.dice.below(50 * MS);
                self.coordinators[number].state = State::Stopping(at);
            }
            State::Stopping(at) if at <= now => {
                self.go_down(number, false);
                self.touch_all();
            }
            State::Down(at) if at <= now => self.coordinators[number].state = State::Up,
            _ => {}
        }
        let coordinator = &mut self.coordinators[number];
        if !coordinator.is_store_up && coordinator.store_up_at <= now {
            coordinator.is_store_up = true;
            self.tell_sessions(number, &Input::StoreUp(true));
            let run = self.run(number);
            self.contend(run, contention::Input::StoreUp);
        }
    }

    /// Ends all faults.
    pub(crate) fn calm_down(&mut self) {
        self.is_calm = true;
        self.rights = Rights::All;
        self.put_rights_in_force();
        self.touch_all();
        self.disturb_at = u64::MAX;
        self.calm_candidates();
        let now = self.now;
        for client in &mut self.clients {
            client.asleep_until = client.asleep_until.min(now);
            client.cut_off_until = 0;
        }
        for coordinator in &mut self.coordinators {
            coordinator.hung_until = coordinator.hung_until.min(now);
            coordinator.store_up_at = coordinator.store_up_at.min(now);
        }
        for stream in self.streams.values_mut() {
            // A stream whose connection is dead stays so.
            for hole in [&mut stream.up.hole_until, &mut stream.down.hole_until] {
                if *hole != u64::MAX {
                    *hole = 0;
                }
            }
        }
    }
}
