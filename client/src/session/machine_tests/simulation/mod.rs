//! Two sessions and a coordinator in a world of late messages, black holes, cuts and pauses, from many seeds: never do
//! two guards of one name live at once, and in the end nothing is left.

mod coordinator;

use std::collections::{HashMap, VecDeque};

use super::{Machine, Output, at, ms, unreachable};
use crate::{
    clock::Moment,
    lease::{Lease, LostReason},
    proto::v1,
    session::waits::AcquireSpec,
};

const TTL: u64 = 1_000;
const MARGIN: u64 = 12;
const INTERVAL: u64 = 300;
const NAMES: u64 = 2;

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
    waiting: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Lock {
    holder: Option<(u8, usize, u64)>,
    token: i64,
}

struct Client {
    machine: Machine<u64, u64>,
    guards: Vec<(u64, std::sync::Arc<Lease>)>,
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
    locks: HashMap<u64, Lock>,
    last_owner: u8,
    grants: u64,
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
            locks: (0..NAMES).map(|name| (name, Lock::default())).collect(),
            last_owner: 0,
            grants: 0,
        }
    }

    fn time(&self) -> Moment {
        at(self.now)
    }

    /// One millisecond.
    fn step(&mut self, calm: bool) {
        self.now += 1;
        for index in 0..self.clients.len() {
            if !calm {
                self.disturb(index);
            }
            if self.now >= self.clients[index].asleep_until {
                self.run_client(index, calm);
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

    fn run_client(&mut self, index: usize, calm: bool) {
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
        self.act(index, calm);
        self.carry_out(index);
    }

    /// What the program around the session does.
    fn act(&mut self, index: usize, calm: bool) {
        let moment = self.time();
        let client = &mut self.clients[index];
        if !calm && self.dice.once_in(40) {
            client.acquires += 1;
            let spec = AcquireSpec {
                name: format!("lock{}", self.dice.below(NAMES)).into(),
                wait: [None, Some(ms(0)), Some(ms(self.dice.below(800)))]
                    [self.dice.below(3) as usize],
                value: Vec::new(),
                lock_delay: ms(0),
            };
            let id = client.acquires;
            client.machine.acquire(moment, id, spec, id);
        }
        let cancel = self.dice.once_in(60);
        if (calm || cancel) && client.acquires > 0 {
            let recent = client.acquires.min(8);
            let id = client.acquires - self.dice.below(recent);
            client.machine.cancel(moment, id);
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
                    let (key, lease) = (granted.key, granted.lease);
                    self.clients[index].guards.push((key, lease));
                    self.grants += 1;
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
        let live: Vec<_> = self
            .clients
            .iter()
            .flat_map(|client| &client.guards)
            .filter(|(_, lease)| lease.held(self.time()).is_ok())
            .collect();
        for (index, (_, lease)) in live.iter().enumerate() {
            let name: u64 = lease.name["lock".len()..].parse().unwrap();
            let lock = &self.locks[&name];
            assert!(lock.holder.is_some(), "{name} is held by a guard alone");
            assert_eq!(lease.token.get(), lock.token, "{name} has a newer grant");
            assert!(
                live[..index]
                    .iter()
                    .all(|(_, other)| other.name != lease.name),
                "two guards of {name} live at once"
            );
        }
    }
}

#[test]
fn no_two_guards_of_a_name_live_at_once_and_nothing_is_left_behind() {
    let mut grants = 0;
    for seed in 1..=60 {
        let mut world = World::new(seed);
        for _ in 0..20_000 {
            world.step(false);
        }
        // Calm weather: everything is given back and cancelled.
        for _ in 0..6 * TTL {
            world.step(true);
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
            world.locks.values().all(|lock| lock.holder.is_none()),
            "seed {seed}: the coordinator still holds a lock for somebody"
        );
        grants += world.grants;
    }
    // The world is not so hostile that nothing happens.
    assert!(grants > 5_000, "{grants} grants");
}
