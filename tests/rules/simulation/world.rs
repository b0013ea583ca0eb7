//! World of clients, coordinators and a store, whose time jumps from one event to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use leasehold_client::FencingToken;
use leasehold_core::{
    deadlock::Pass,
    id::OwnerId,
    name::{LockName, TtlBounds},
    session::{Phase, Session},
    time::Moment,
};

use leasehold_server::coordinator::marks::LOOK_INTERVAL;

use crate::{
    candidates::Candidates,
    client::{Client, DRAWN, Stream},
    coordinator::{Checks, Coordinator, State},
    coverage::Coverage,
    dice::{Dice, MS},
    promises::Ledger,
    store::Store,
    watching::Watching,
    weather::{DISTURBED, Rights, Weather},
};

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(5);
pub(crate) const TOKEN_MEMORY: Duration = Duration::from_secs(3600);
pub(crate) const BOUNDS: TtlBounds = TtlBounds {
    min: Duration::from_millis(500),
    default: Duration::from_secs(2),
    max: LONGEST_TTL,
};
pub(crate) const COORDINATORS: usize = 2;
pub(crate) const CLIENTS: usize = 3;
/// How long faults last where programs are hasty, and where they are patient.
const STORMS: [Range<u64>; 2] = [1_500 * MS..6_000 * MS, 5_000 * MS..12_000 * MS];
/// How long after the last fault everything has to have ended.
const SETTLED_WITHIN: u64 = 60_000 * MS;

#[derive(Default)]
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    /// Microseconds since the beginning.
    pub(crate) now: u64,
    pub(crate) clients: Vec<Client>,
    pub(crate) coordinators: Vec<Coordinator>,
    pub(crate) streams: BTreeMap<usize, Stream>,
    pub(crate) opened_streams: usize,
    /// When each client and each coordinator has something to do, unless it was touched since that was found out.
    pub(crate) client_due: [Option<u64>; CLIENTS],
    pub(crate) coordinator_due: [Option<u64>; COORDINATORS],
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) watching: Watching,
    pub(crate) candidates: Candidates,
    /// Whether the store loses writes, and its clock steps.
    pub(crate) is_lossy: bool,
    /// The store's clock: how much faster it is, in millionths, and by how much it has stepped.
    pub(crate) drift: i64,
    pub(crate) stepped_by: i64,
    /// When that clock stepped last, and when holds ended before their time: it stepped forward, or writes were lost.
    pub(crate) stepped_at: u64,
    pub(crate) lost_at: u64,
    /// When writes were lost last.
    pub(crate) failed_over_at: u64,
    /// Until when holds may be left of which nobody knows.
    pub(crate) strange_until: u64,
    /// What clients may do.
    pub(crate) rights: Rights,
    pub(crate) checks: Checks,
    pub(crate) disturb_at: u64,
    /// When the detector of deadlocks looks next, and what it saw.
    pub(crate) detect_at: u64,
    pub(crate) before: Pass,
    /// Holds that no coordinator knows, and for how many looks.
    pub(crate) strangers: BTreeMap<OwnerId, u64>,
    /// Programs keep their locks for several TTLs, and the store takes seconds at times; else programs are quick, and so is it.
    pub(crate) is_patient: bool,
    /// How long a command to the store may take.
    pub(crate) store_timeout: Duration,
    /// There are no faults any more.
    pub(crate) is_calm: bool,
    /// Nor are wake-ups lost: what is given back is free at once.
    pub(crate) is_prompt: bool,
    /// Nothing is asked for any more.
    pub(crate) is_closing: bool,
    /// Owner ids that coordinators drew, sessions that they opened, and clients that were started.
    pub(crate) owners: u64,
    pub(crate) opened: u64,
    started: u64,
    pub(crate) seen: Coverage,
    /// Holds of which a client gave permits back.
    pub(crate) kept: BTreeSet<(String, FencingToken)>,
    /// Holds that an operator took, and when.
    pub(crate) forced: BTreeMap<(usize, i64), u64>,
    /// Clients and tokens of the holds that operators have asked to be released, by the reasons.
    pub(crate) asked: BTreeMap<String, BTreeSet<(String, i64)>>,
    /// The newest token of a guard of each name.
    pub(crate) newest: [i64; NAMES.len()],
    /// What is the same in each run of a seed.
    pub(crate) digest: u64,
    /// Clients may send anything: what is wrong is refused. Otherwise the simulation fails.
    pub(crate) is_hostile: bool,
    /// Whether it tells what happens.
    pub(crate) is_told: bool,
    pub(crate) seed: u64,
    /// The faults to keep, by their numbers from 1 on; all of them if there is no such set.
    pub(crate) only: Option<BTreeSet<u64>>,
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

impl World {
    pub(crate) fn new(weather: Weather, seed: u64) -> Self {
        DRAWN.set(0);
        DISTURBED.set(0);
        let mut dice = Dice::new(seed);
        let is_patient = dice.once_in(2);
        let mut world = Self {
            weather,
            is_patient,
            store_timeout: Duration::from_millis(if is_patient { 2_500 } else { 800 }),
            now: 1,
            coordinators: (0..COORDINATORS)
                .map(|number| Coordinator::new(number, 0))
                .collect(),
            watching: Watching::new(seed),
            candidates: Candidates::new(seed),
            is_lossy: dice.once_in(4) && weather == Weather::Stormy,
            drift: i64::try_from(dice.below(4_000)).unwrap() - 2_000,
            disturb_at: 500 * MS,
            seed,
            dice,
            ..Self::default()
        };
        for client in 0..CLIENTS {
            world.start_client(client);
        }
        world
    }

    /// Starts a client, in the place of one that has ended.
    pub(crate) fn start_client(&mut self, number: usize) {
        self.started += 1;
        let ttls = [1_000 * MS, 1_500 * MS, 2_500 * MS, 4_500 * MS];
        // The longest is longer than the time to confirm a hand-off.
        let ttl = self.dice.pick(&ttls[..3 + usize::from(self.is_patient)]);
        let grace = [0, 500 * MS, ttl][number];
        let drift = i64::try_from(self.dice.below(6_000)).unwrap() - 3_000;
        let name = format!("client{number}.{}", self.started);
        let mut client = Client::new(name, grace, ttl, drift);
        client.knows_bounds = number != 2;
        client.act_at = self.now + self.dice.below(50 * MS);
        self.touch_client(number);
        match self.clients.get_mut(number) {
            Some(former) => {
                self.seen.transitions.add(&former.transitions);
                *former = client;
            }
            None => self.clients.push(client),
        }
    }

    /// Tells what happens, if anybody wants to know.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{:9} {}", self.now, what());
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::from_micros(self.now)
    }

    /// Lives through the whole of it, and returns what was seen.
    pub(crate) fn live(mut self) -> (Coverage, u64) {
        let storms = &STORMS[usize::from(self.is_patient)];
        let storms = self.dice.between(storms.start, storms.end);
        self.pass(storms);
        self.end()
    }

    /// Ends all faults, and then everything else. Fails if something is left.
    pub(crate) fn end(mut self) -> (Coverage, u64) {
        self.calm_down();
        self.settle();
        // All coordinators have looked at the marks, and clients whose sessions have ended have others.
        self.pass(2 * micros(LOOK_INTERVAL));
        self.check_ended();
        self.settle();
        // Without faults, what is given back is free at once, and not only when it expires.
        self.is_prompt = true;
        for client in 0..CLIENTS {
            self.clients[client].act_at = self.now;
            self.touch_client(client);
        }
        self.pass(700 * MS);
        self.is_closing = true;
        for client in 0..CLIENTS {
            if self.clients[client].grace == 0 {
                self.die(client);
            } else {
                self.give_all_back(client);
            }
        }
        self.withdraw_all();
        self.pass(450 * MS);
        let held = self.store.table.names("", None, self.store_time());
        assert!(held.is_empty(), "not free after its release: {held:?}");
        self.pass(2_000 * MS);
        self.check_watching();
        // What may not have arrived yet is released until it can't any more.
        self.pass(3 * micros(self.store_timeout));
        let leftovers = self.leftovers();
        assert!(leftovers.is_empty(), "left after its end: {leftovers:?}");
        for client in 0..CLIENTS {
            let it = &mut self.clients[client];
            let clock = it.clock(self.now);
            it.turn("close", |it| it.close(clock));
            self.carry_out_client(client);
        }
        self.pass(2_500 * MS);
        let mut served = self.coordinators.iter().map(|it| &it.sessions);
        if served.any(|sessions| !sessions.is_empty()) {
            // Of an idle client whose end its coordinator did not hear of: it might have rested.
            self.pass(40_000 * MS);
        }
        for (number, coordinator) in self.coordinators.iter().enumerate() {
            let phases = coordinator.sessions.values();
            let phases = phases.map(|served| served.session.as_ref().map(Session::phase));
            let phases: Vec<_> = phases.collect();
            assert!(phases.is_empty(), "sessions of {number} go on: {phases:?}");
        }
        for client in &self.clients {
            assert!(client.is_ended, "{} goes on", client.name);
        }
        for client in &self.clients {
            self.seen.transitions.add(&client.transitions);
        }
        (self.seen, self.digest)
    }

    pub(crate) fn pass(&mut self, time: u64) {
        let until = self.now + time;
        let mut next = self.next_event();
        while next <= until {
            next = self.step(next);
        }
        self.now = until;
    }

    /// Fails if a session that an operator has ended goes on.
    fn check_ended(&mut self) {
        let marks = self.marks();
        for (number, coordinator) in self.coordinators.iter().enumerate() {
            for (stream, served) in &coordinator.sessions {
                let surroundings = served.surroundings.as_ref();
                let id = surroundings.map(|surroundings| surroundings.session);
                assert!(
                    !id.is_some_and(|id| marks.iter().any(|mark| mark.session == id)),
                    "session {stream} of {number} goes on, though {id:?} was ended"
                );
            }
        }
    }

    /// Lets time pass until nobody has or wants anything.
    fn settle(&mut self) {
        let until = self.now + SETTLED_WITHIN;
        loop {
            let leftovers = self.leftovers();
            if leftovers.is_empty() {
                return;
            }
            assert!(self.now < until, "left for good: {leftovers:?}");
            self.pass(500 * MS);
        }
    }

    /// Returns everything that somebody has or wants.
    fn leftovers(&mut self) -> BTreeSet<String> {
        let mut left = BTreeSet::new();
        for client in &self.clients {
            let name = &client.name;
            for (what, count) in client.machine.leftovers() {
                left.insert(format!("{name} has {count} {what}"));
            }
            if !client.machine.is_open() && !self.is_closing {
                left.insert(format!("{name} is not connected"));
            }
            if client.is_waiting() {
                left.insert(format!("{name} waits"));
            }
            if !client.guards.is_empty() {
                left.insert(format!("{name} has guards"));
            }
        }
        left.extend(self.candidates.leftovers());
        for (number, coordinator) in self.coordinators.iter().enumerate() {
            if coordinator.state != State::Up {
                left.insert(format!("coordinator {number} is not up"));
            }
            for (stream, served) in &coordinator.sessions {
                let Some(session) = &served.session else {
                    continue;
                };
                let (holds, acquires) = (session.holds(), session.acquires());
                if holds + acquires > 0 || session.phase() != Phase::Open {
                    let phase = session.phase();
                    left.insert(format!(
                        "session {stream} of {number} is {phase:?} with {holds} holds and {acquires} acquires"
                    ));
                }
            }
            let registered = coordinator.known.iter();
            let registered = registered.filter(|owner| coordinator.registry.knows(owner));
            if registered.clone().count() > 0 {
                let owners: Vec<_> = registered.collect();
                left.insert(format!("owner ids are registered at {number}: {owners:?}"));
            }
            if coordinator.cleanups > 0 {
                left.insert(format!("clean-ups at {number}"));
            }
            if !coordinator.contended.is_empty() {
                left.insert(format!("waiters are announced at {number}"));
            }
        }
        if !self.store.agenda.is_empty() && !self.is_closing {
            left.insert("commands are under way".to_owned());
        }
        let now = self.store_time();
        for name in self.store.table.names("", None, now) {
            let view = self.view(&name);
            left.insert(format!("the store has {name}: {view:?}"));
        }
        left
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}
