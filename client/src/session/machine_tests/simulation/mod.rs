//! Two sessions and a coordinator in a world of late messages, black holes, cuts, pauses and failing releases, from
//! many seeds: never does a guard live that the coordinator does not hold the lock for, as often as it has guards;
//! and in the end nothing is left.

mod coordinator;

use std::{collections::VecDeque, sync::Arc};

use self::coordinator::{Lock, Waiter};
use super::{Change, Machine, Output, at, exclusive, ms, unreachable};
use crate::{
    clock::Moment,
    lease::{Lease, LostReason},
    proto::v1,
    session::spec::{AcquireSpec, Mode},
};

const TTL: u64 = 1_000;
const MARGIN: u64 = 12;
const INTERVAL: u64 = 300;
const NAMES: usize = 2;
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
    up: Pipe<v1::SessionRequest>,
    down: Pipe<v1::SessionResponse>,
    /// What the coordinator had heard last: which heartbeat, and when. None once it has ended the session.
    heard: Option<(u64, u64)>,
    waiting: Vec<Waiter>,
}

struct Client {
    machine: Machine<u64, u64>,
    guards: Vec<(u64, Arc<Lease>)>,
    connection: Option<usize>,
    dial_at: u64,
    asleep_until: u64,
    black_hole_until: u64,
    /// What it sends arrives, but nothing reaches it.
    deaf_until: u64,
    acquires: u64,
}

struct World {
    dice: Dice,
    now: u64,
    clients: Vec<Client>,
    connections: Vec<Connection>,
    /// By the number in its name.
    locks: Vec<Lock>,
    /// No disturbance any more, and nothing new is asked for.
    calm: bool,
    owners: u64,
    grants: u64,
    /// Grants of what the actor had already.
    again: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let client = || Client {
            machine: Machine::new("http://test".into(), ms(500), v1::SessionOpen::default()),
            guards: Vec::new(),
            connection: None,
            dial_at: 0,
            asleep_until: 0,
            black_hole_until: 0,
            deaf_until: 0,
            acquires: 0,
        };
        Self {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: 1,
            clients: vec![client(), client()],
            connections: Vec::new(),
            locks: (0..NAMES).map(|_| Lock::default()).collect(),
            calm: false,
            owners: 0,
            grants: 0,
            again: 0,
        }
    }

    fn time(&self) -> Moment {
        at(self.now)
    }

    /// One millisecond.
    fn step(&mut self) {
        self.now += 1;
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

    fn disturb(&mut self, index: usize) {
        let until = self.now + self.dice.below(2 * TTL);
        if self.dice.once_in(2_000) {
            self.clients[index].black_hole_until = until;
        }
        if self.dice.once_in(2_000) {
            self.clients[index].asleep_until = until;
        }
        // Just about a TTL: the lease may run out although the stream lives on.
        if self.dice.once_in(1_000) {
            self.clients[index].deaf_until = self.now + TTL - 350 + self.dice.below(400);
        }
        // The coordinator cuts the connection; that leaves its locks to expire.
        if self.dice.once_in(3_000)
            && let Some(connection) = self.clients[index].connection
        {
            self.end_session(connection);
        }
    }

    fn run_client(&mut self, index: usize) {
        let (now, moment) = (self.now, self.time());
        let open_way = now >= self.clients[index].black_hole_until;
        if let Some(connection) = self.clients[index].connection
            && open_way
            && now >= self.clients[index].deaf_until
        {
            while let Some(message) = self.connections[connection].down.pop(now) {
                let machine = &mut self.clients[index].machine;
                match message {
                    Some(message) => machine.message(moment, message),
                    None => {
                        machine.stream_ended(moment);
                        self.hang_up(index);
                    }
                }
                self.carry_out(index);
                if self.clients[index].connection.is_none() {
                    break;
                }
            }
        }
        let client = &mut self.clients[index];
        if client.connection.is_none() && now >= client.dial_at {
            if open_way {
                client.machine.connected(moment);
                client.connection = Some(self.connections.len());
                self.connections.push(Connection {
                    client: index,
                    up: Pipe(VecDeque::new()),
                    down: Pipe(VecDeque::new()),
                    heard: None,
                    waiting: Vec::new(),
                });
            } else {
                client.machine.connect_failed(moment, &unreachable(true));
                client.dial_at = now + 50;
            }
        }
        if client.machine.alarm().is_some_and(|alarm| alarm <= moment) {
            client.machine.tick(moment);
        }
        self.carry_out(index);
        self.act(index);
        self.carry_out(index);
    }

    /// Any mode, one name or both, by nobody or by one of two actors, which hold on to no order.
    fn spec(&mut self) -> AcquireSpec {
        let names: &[u64] = [&[0][..], &[1], &[0, 1], &[1, 0]][self.dice.below(4) as usize];
        let permits = self.dice.below(LIMIT.into()) as u32 + 1;
        let limit = LIMIT;
        let actor = self.dice.below(3);
        AcquireSpec {
            mode: [
                Mode::Exclusive,
                Mode::Exclusive,
                Mode::Shared,
                Mode::Semaphore { permits, limit },
            ][self.dice.below(4) as usize],
            wait: [None, Some(ms(0)), Some(ms(self.dice.below(800)))][self.dice.below(3) as usize],
            actor,
            reentrant: actor != 0 && self.dice.below(4) > 0,
            ..exclusive(names)
        }
    }

    /// What the program around the session does.
    fn act(&mut self, index: usize) {
        let (moment, calm) = (self.time(), self.calm);
        if !calm && self.dice.once_in(40) {
            let spec = self.spec();
            let client = &mut self.clients[index];
            client.acquires += 1;
            let id = client.acquires;
            client.machine.acquire(moment, id, spec, id);
        }
        let client = &mut self.clients[index];
        let cancel = self.dice.once_in(60);
        if (calm || cancel) && client.acquires > 0 {
            let recent = client.acquires.min(8);
            let id = client.acquires - self.dice.below(recent);
            client.machine.cancel(moment, id);
        }
        if self.dice.once_in(200)
            && let Some((key, _)) = client.guards.last()
        {
            client.machine.change(moment, *key, Change::Downgrade, 0);
        }
        if (calm || self.dice.once_in(50)) && !client.guards.is_empty() {
            let at = self.dice.below(client.guards.len() as u64) as usize;
            let (key, lease) = client.guards.swap_remove(at);
            lease.end(moment, LostReason::Released).ok();
            client.machine.release(moment, key, None);
        }
    }

    fn carry_out(&mut self, index: usize) {
        while let Some(output) = self.clients[index].machine.next_output() {
            match output {
                Output::Send(request) => {
                    if let Some(connection) = self.clients[index].connection {
                        let delay = self.dice.below(30);
                        let up = &mut self.connections[connection].up;
                        up.push(self.now, delay, Some(request));
                    }
                }
                Output::Acquired(_, Ok(granted)) => {
                    for granted in granted {
                        let guard = (granted.key, granted.lease);
                        self.clients[index].guards.push(guard);
                        self.grants += 1;
                    }
                }
                Output::HangUp(_) => self.hang_up(index),
                _ => {}
            }
        }
    }

    fn hang_up(&mut self, index: usize) {
        if let Some(connection) = self.clients[index].connection.take() {
            let delay = self.dice.below(30);
            self.connections[connection].up.push(self.now, delay, None);
            self.clients[index].dial_at = self.now + 20 + self.dice.below(100);
        }
    }

    fn check(&self) {
        self.check_locks();
        let now = self.time();
        for (index, client) in self.clients.iter().enumerate() {
            let live = || {
                client
                    .guards
                    .iter()
                    .filter(|(_, lease)| lease.held(now).is_ok())
            };
            for (_, lease) in live() {
                let (name, token) = (&lease.name, lease.token);
                let holds = &self.locks[number(name)].holds;
                let Some(hold) = holds.iter().find(|hold| hold.token == token.get()) else {
                    panic!("{name} is held by a guard alone");
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

/// The number in a lock's name.
fn number(name: &str) -> usize {
    name["lock".len()..].parse().unwrap()
}

#[test]
fn no_guard_lives_without_its_lock_and_nothing_is_left_behind() {
    let (mut grants, mut again) = (0, 0);
    for seed in 1..=60 {
        let mut world = World::new(seed);
        for _ in 0..20_000 {
            world.step();
        }
        // Calm weather: everything is given back and cancelled.
        world.calm = true;
        for _ in 0..6 * TTL {
            world.step();
        }
        for client in &world.clients {
            assert!(client.machine.is_open(), "seed {seed}: not connected again");
            assert!(
                client.machine.holds.is_empty(),
                "seed {seed}: a hold is left"
            );
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
    }
    // The world is not so hostile that nothing happens.
    assert!(grants > 5_000, "{grants} grants");
    assert!(again > 500, "{again} grants of what was held already");
}
