//! Two sessions and two coordinators over one store, in a world of late and lost messages, black holes, cuts, pauses,
//! drains, crashes and a failing store, from many seeds: never does a guard say held whose lock the store does not hold for
//! its client, as often as it has guards; and in the end nothing is left.

mod client;
mod coordinator;
mod opening;
mod weather;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use self::coordinator::{Lock, Waiter};
use super::{Machine, at, ms, wire_ms};
use crate::{clock::Moment, lease::Lease, proto::v1};

const TTL: u64 = 1_000;
const MARGIN: u64 = 12;
const INTERVAL: u64 = 300;
const NAMES: usize = 2;
/// The number under which a coordinator that stops says so, as the status of each stream.
const STOPPED: u64 = u64::MAX;
/// Of every semaphore.
const LIMIT: u32 = 3;

/// A small generator: the same seed gives the same world.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// One direction of a connection: in order, each message as late as the one before it or later. None is its end.
struct Pipe<T>(VecDeque<(u64, Option<T>)>);

impl<T> Pipe<T> {
    fn push(&mut self, now: u64, delay: u64, message: Option<T>) {
        let last = self.0.back().map_or(0, |(at, _)| *at);
        self.0.push_back((last.max(now + delay), message));
    }

    fn pop(&mut self, now: u64) -> Option<Option<T>> {
        self.0
            .pop_front_if(|(at, _)| *at <= now)
            .map(|(_, message)| message)
    }
}

/// The coordinator's side of one connection, with what is on its way.
struct Connection {
    client: usize,
    coordinator: usize,
    hole_until: u64,
    /// Of `open`, so far.
    opening: Vec<v1::SessionResume>,
    grace: u64,
    /// Its peer has ended it, and what it holds is kept until then.
    grace_until: Option<u64>,
    up: Pipe<v1::SessionRequest>,
    down: Pipe<v1::SessionResponse>,
    /// The number and the time of the last heartbeat that the coordinator received. `None` once it has ended the session.
    heard: Option<(u64, u64)>,
    waiting: Vec<Waiter>,
}

#[derive(Default)]
struct Coordinator {
    hung_until: u64,
    /// It drains, until then, or has gone until a while later.
    drained_at: Option<u64>,
    down_until: u64,
}

struct Client {
    machine: Machine<u64, u64>,
    guards: Vec<(u64, Arc<Lease>)>,
    /// By the numbers of their streams.
    connections: Vec<(u64, usize)>,
    /// The connections that did not open in time.
    overdue: Vec<usize>,
    dial_at: u64,
    asleep_until: u64,
    black_hole_until: u64,
    /// Until then, requests arrive, but no response reaches the client.
    deaf_until: u64,
    acquires: u64,
}

struct World {
    dice: Dice,
    now: u64,
    clients: Vec<Client>,
    coordinators: [Coordinator; 2],
    connections: Vec<Connection>,
    /// By the number in its name.
    locks: Vec<Lock>,
    /// No disturbance any more, and nothing new is asked for.
    calm: bool,
    owners: u64,
    grants: u64,
    /// Grants of what the actor had already.
    again: u64,
    /// Holds and places that were taken over.
    resumed: u64,
    /// The same, of holds whose guard said held all the while.
    moved: u64,
    /// Holds whose guard said held while their coordinator was gone.
    outlived: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let client = |grace| Client {
            machine: Machine::new(
                ms(500),
                v1::SessionOpen {
                    disconnect_grace: wire_ms(grace),
                    ..v1::SessionOpen::default()
                },
                draw,
            ),
            guards: Vec::new(),
            connections: Vec::new(),
            overdue: Vec::new(),
            dial_at: 0,
            asleep_until: 0,
            black_hole_until: 0,
            deaf_until: 0,
            acquires: 0,
        };
        Self {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: 1,
            clients: vec![client(0), client(400)],
            coordinators: Default::default(),
            connections: Vec::new(),
            locks: (0..NAMES).map(|_| Lock::default()).collect(),
            calm: false,
            owners: 0,
            grants: 0,
            again: 0,
            resumed: 0,
            moved: 0,
            outlived: 0,
        }
    }

    fn time(&self) -> Moment {
        at(self.now)
    }

    /// One millisecond.
    fn step(&mut self) {
        self.now += 1;
        if !self.calm {
            self.disturb_coordinator();
        }
        for index in 0..self.coordinators.len() {
            self.run_coordinator(index);
        }
        for index in 0..self.clients.len() {
            if !self.calm {
                self.disturb(index);
            }
            if self.now >= self.clients[index].asleep_until {
                self.run_client(index);
            }
        }
        for index in 0..self.connections.len() {
            self.run_connection(index);
        }
        self.grant_waiters();
        self.check();
    }

    fn check(&self) {
        self.check_locks();
        let now = self.time();
        for (index, client) in self.clients.iter().enumerate() {
            let live = || client.guards.iter().filter(|(_, lease)| lease.is_held(now));
            for (_, lease) in live() {
                let (name, token) = (&lease.name, lease.token);
                let holds = &self.locks[number(name)].holds;
                let Some(hold) = holds.iter().find(|hold| hold.token == token.get()) else {
                    panic!(
                        "{name} is held by a guard of client {index} alone, at {}",
                        self.now
                    );
                };
                assert_eq!(self.connections[hold.connection].client, index);
                let guards =
                    live().filter(|(_, lease)| lease.name == *name && lease.token == token);
                assert!(
                    guards.count() <= hold.count,
                    "{name} has more guards than it is held for"
                );
            }
        }
    }
}

/// Owner ids of the same world are the same in each run.
fn draw() -> Vec<u8> {
    use std::cell::Cell;

    thread_local!(static DRAWN: Cell<u64> = const { Cell::new(0) });
    let drawn = DRAWN.with(|drawn| {
        drawn.set(drawn.get() + 1);
        drawn.get()
    });
    u128::from(drawn).to_be_bytes().to_vec()
}

fn millis(duration: Option<prost_types::Duration>) -> u64 {
    let duration = duration.map(|duration| Duration::try_from(duration).unwrap());
    duration.map_or(0, |duration| duration.as_millis() as u64)
}

/// The number in a lock's name.
fn number(name: &str) -> usize {
    name["lock".len()..].parse().unwrap()
}

#[test]
fn no_guard_lives_without_its_lock_and_nothing_is_left_behind() {
    let (mut grants, mut again, mut resumed, mut moved, mut outlived) = (0, 0, 0, 0, 0);
    for seed in 1..=50 {
        let mut world = World::new(seed);
        for _ in 0..20_000 {
            world.step();
        }
        // Calm weather: everything is given back and cancelled.
        world.calm = true;
        for _ in 0..8 * TTL {
            world.step();
        }
        for client in &world.clients {
            assert!(client.machine.is_open(), "seed {seed}: not connected again");
            assert!(
                client.machine.holds.is_empty(),
                "seed {seed}: a hold is left"
            );
            assert!(client.machine.unsent_releases.is_empty(), "seed {seed}");
            assert!(client.machine.unsent_changes.is_empty(), "seed {seed}");
            let stream = client.machine.stream.as_ref().unwrap();
            assert!(
                stream.in_flight.is_empty(),
                "seed {seed}: requests without an answer"
            );
        }
        assert!(
            world.locks.iter().all(|lock| lock.holds.is_empty()),
            "seed {seed}: the coordinator still holds a lock for somebody"
        );
        grants += world.grants;
        again += world.again;
        resumed += world.resumed;
        moved += world.moved;
        outlived += world.outlived;
    }
    // The world is not so hostile that nothing happens.
    assert!(grants > 3_000, "{grants} grants");
    assert!(again > 300, "{again} grants of what was held already");
    assert!(resumed > 500, "{resumed} resumed");
    assert!(moved > 100, "{moved} moved while they were held");
    assert!(outlived > 20, "{outlived} outlived their coordinator");
}
