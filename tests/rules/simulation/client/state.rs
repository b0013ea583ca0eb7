//! State of a client: its machine, its clock, its streams, and what its program has and waits for.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use leasehold_client::simulation::{Candidacies, Guard, Session};
use leasehold_proto::v1::{LockMode, SessionOpen};

use crate::{
    campaigns::Campaign,
    transitions::{Machine, Transitions},
};

/// Start of the clients' clocks.
const CLOCK: Duration = Duration::from_secs(1_000);

pub(crate) struct Client {
    pub(crate) machine: Session,
    /// Its name, which no other run of a client has.
    pub(crate) name: String,
    /// How much faster its clock is, in millionths.
    drift: i64,
    pub(crate) grace: u64,
    pub(crate) ttl: u64,
    /// Whether it is of a release that knows of bounds on the time for which a lock is held.
    pub(crate) knows_bounds: bool,
    /// The stream that has the session open, and the one that is to have it next.
    pub(super) current: Option<usize>,
    pub(super) next: Option<usize>,
    /// Streams that did not open in time.
    pub(super) overdue: Vec<usize>,
    /// Streams that were left, and until when it waits for their ends.
    pub(super) leaving: Vec<(usize, u64)>,
    pub(super) dial_at: Option<u64>,
    pub(crate) act_at: u64,
    pub(crate) asleep_until: u64,
    /// Nobody can be reached before this.
    pub(crate) cut_off_until: u64,
    pub(crate) guards: Vec<Guard>,
    pub(crate) acquires: u64,
    /// Its acquires, each with the modes of the holds that it is to be granted; none if they may be holds of its actor already.
    pub(crate) waits: BTreeMap<u64, Vec<LockMode>>,
    /// The elections for which it campaigns on its session, or which it leads.
    pub(crate) candidacies: Candidacies,
    pub(crate) campaigns: Vec<Campaign>,
    pub(crate) is_ended: bool,
    /// The transitions of its machine.
    pub(crate) transitions: Transitions,
}

/// Draws owner ids: those of a world are the same in each run.
fn draw() -> Vec<u8> {
    DRAWN.set(DRAWN.get() + 1);
    u128::from(DRAWN.get()).to_be_bytes().to_vec()
}

thread_local!(pub(crate) static DRAWN: Cell<u64> = const { Cell::new(0) });

fn wire(micros: u64) -> Option<prost_types::Duration> {
    Some(Duration::from_micros(micros).try_into().unwrap())
}

impl Client {
    pub(crate) fn new(name: String, grace: u64, ttl: u64, drift: i64) -> Self {
        let open = SessionOpen {
            client_name: name.clone(),
            ttl: wire(ttl),
            disconnect_grace: wire(grace),
            ..SessionOpen::default()
        };
        Self {
            machine: Session::new(Duration::from_millis(500), open, draw),
            name,
            drift,
            grace,
            ttl,
            knows_bounds: true,
            current: None,
            next: None,
            overdue: Vec::new(),
            leaving: Vec::new(),
            dial_at: None,
            act_at: 0,
            asleep_until: 0,
            cut_off_until: 0,
            guards: Vec::new(),
            acquires: 0,
            waits: BTreeMap::new(),
            candidacies: Candidacies::default(),
            campaigns: Vec::new(),
            is_ended: false,
            transitions: Transitions::default(),
        }
    }

    /// Has its machine take in an event.
    pub(crate) fn turn<T>(
        &mut self,
        event: &'static str,
        call: impl FnOnce(&mut Session) -> T,
    ) -> T {
        let before = self.machine.state();
        let result = call(&mut self.machine);
        let after = self.machine.state();
        self.transitions.note(Machine::Client, before, event, after);
        result
    }

    /// Returns the time on its clock.
    pub(crate) fn clock(&self, now: u64) -> Duration {
        let drift = i64::try_from(now).unwrap() * self.drift / 1_000;
        let nanos = i64::try_from(now * 1_000).unwrap() + drift;
        CLOCK + Duration::from_nanos(u64::try_from(nanos).unwrap())
    }

    /// Returns when its clock shows this.
    fn when(&self, clock: Duration) -> u64 {
        let micros = u64::try_from(clock.saturating_sub(CLOCK).as_micros()).unwrap();
        let rate = u64::try_from(1_000_000 + self.drift).unwrap();
        let mut when = u64::try_from(u128::from(micros) * 1_000_000 / u128::from(rate)).unwrap();
        while self.clock(when) < clock {
            when += 1;
        }
        when
    }

    /// Returns when it has something to do of itself.
    pub(crate) fn due(&self) -> Option<u64> {
        if self.is_ended {
            return None;
        }
        let alarm = self.machine.alarm().map(|alarm| self.when(alarm));
        let leaving = self.leaving.iter().map(|(_, until)| *until).min();
        let due = [alarm, leaving, self.dial_at, Some(self.act_at)];
        let due = due.into_iter().flatten().min()?;
        Some(due.max(self.asleep_until))
    }

    pub(crate) fn streams(&self) -> Vec<usize> {
        self.current.into_iter().chain(self.next).collect()
    }

    /// Returns the guards that say that they hold their locks, and until when they do if they hear nothing.
    pub(crate) fn live(&self, now: u64) -> impl Iterator<Item = (&Guard, u64)> {
        let clock = self.clock(now);
        self.guards.iter().filter_map(move |guard| {
            let valid_for = guard.valid_for(clock);
            (!valid_for.is_zero()).then(|| (guard, self.when(clock + valid_for)))
        })
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waits.is_empty()
    }
}
