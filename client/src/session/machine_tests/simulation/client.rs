//! The programs and drivers of the simulated world: what they ask, and where they connect.

use std::collections::VecDeque;

use super::{
    super::{Change, Output, exclusive, ms, unreachable},
    Connection, Coordinator, LIMIT, Pipe, STOPPED, World,
};
use crate::{
    error::ConnectError,
    lease::LostReason,
    session::spec::{AcquireSpec, Mode},
};

impl World {
    pub(super) fn run_client(&mut self, index: usize) {
        let (now, moment) = (self.now, self.time());
        let open_way = now >= self.clients[index].black_hole_until;
        let hears = open_way && now >= self.clients[index].deaf_until;
        for (number, connection) in self.clients[index].connections.clone() {
            if !hears || now < self.connections[connection].hole_until {
                continue;
            }
            while let Some(message) = self.connections[connection].down.pop(now) {
                let machine = &mut self.clients[index].machine;
                match message {
                    Some(message) if message.request_id == STOPPED => {
                        machine.stream_stopped(moment, number);
                        self.hang_up(index, number);
                    }
                    Some(message) => machine.message(moment, number, message),
                    None => {
                        machine.stream_ended(moment, number);
                        self.hang_up(index, number);
                    }
                }
                self.carry_out(index);
                let connections = &self.clients[index].connections;
                if !connections.iter().any(|(other, _)| *other == number) {
                    break;
                }
            }
        }
        self.dial(index, open_way);
        let client = &mut self.clients[index];
        if client.machine.alarm().is_some_and(|alarm| alarm <= moment) {
            client.machine.tick(moment);
        }
        self.carry_out(index);
        self.act(index);
        self.carry_out(index);
    }

    fn dial(&mut self, index: usize, open_way: bool) {
        let (now, moment) = (self.now, self.time());
        let client = &mut self.clients[index];
        if !client.machine.wants_connection() || now < client.dial_at {
            return;
        }
        let coordinator = self.dice.below(2) as usize;
        let Coordinator {
            down_until,
            drained_at,
            ..
        } = self.coordinators[coordinator];
        let refuses = drained_at.is_some() && self.dice.once_in(2);
        if !open_way || now < down_until || refuses {
            if self.dice.once_in(2) {
                client.machine.connect_failed(moment, &unreachable(true));
            }
            client.dial_at = now + 20;
            return self.carry_out(index);
        }
        let number = client.machine.connected(moment, "http://test".into());
        client.connections.push((number, self.connections.len()));
        self.connections.push(Connection {
            client: index,
            coordinator,
            hole_until: 0,
            opening: Vec::new(),
            grace: 0,
            grace_until: None,
            up: Pipe(VecDeque::new()),
            down: Pipe(VecDeque::new()),
            heard: None,
            waiting: Vec::new(),
        });
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

    /// Acts as the program that uses the session.
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
            let recent = client.acquires.min(if calm { u64::MAX } else { 8 });
            let id = client.acquires - self.dice.below(recent);
            client.machine.cancel(moment, id);
        }
        if self.dice.once_in(200)
            && let Some((key, _)) = client.guards.last()
        {
            client
                .machine
                .change(moment, *key, Change::Downgrade, None, 0);
        }
        if (calm || self.dice.once_in(50)) && !client.guards.is_empty() {
            let at = self.dice.below(client.guards.len() as u64) as usize;
            let (key, lease) = client.guards.swap_remove(at);
            lease.end(moment, LostReason::Released).ok();
            client.machine.release(moment, key, None, None);
        }
    }

    fn carry_out(&mut self, index: usize) {
        while let Some(output) = self.clients[index].machine.next_output() {
            match output {
                Output::Send(number, request) => {
                    let mut connections = self.clients[index].connections.iter();
                    if let Some((_, connection)) = connections.find(|(other, _)| *other == number) {
                        let delay = self.dice.below(30);
                        let up = &mut self.connections[*connection].up;
                        up.push(self.now, delay, Some(request));
                    }
                }
                Output::Opened(number, _) => {
                    let connections = self.clients[index].connections.clone();
                    let now = self.time();
                    let guards = self.clients[index].guards.iter();
                    let held = guards.filter(|(_, lease)| lease.is_held(now)).count() as u64;
                    match connections.len() {
                        // Without a grace, nothing else keeps a guard when its stream has ended.
                        1 if index == 0 => self.outlived += held,
                        1 => {}
                        _ => self.moved += held,
                    }
                    for connection in std::mem::take(&mut self.clients[index].overdue) {
                        self.connections[connection].up.push(self.now, 0, None);
                    }
                    for (other, _) in connections {
                        if other != number {
                            self.hang_up(index, other);
                        }
                    }
                }
                Output::Acquired(_, Ok(granted)) => {
                    for granted in granted {
                        let guard = (granted.key, granted.lease);
                        self.clients[index].guards.push(guard);
                        self.grants += 1;
                    }
                }
                Output::HangUp(number, Some(ConnectError::TimedOut { .. })) => {
                    let client = &mut self.clients[index];
                    let overdue = client.connections.iter();
                    let overdue = overdue.filter(|(other, _)| *other == number);
                    client
                        .overdue
                        .extend(overdue.map(|(_, connection)| *connection));
                    client.connections.retain(|(other, _)| *other != number);
                }
                Output::HangUp(number, _) => self.hang_up(index, number),
                _ => {}
            }
        }
    }

    fn hang_up(&mut self, index: usize, number: u64) {
        let connections = &mut self.clients[index].connections;
        let Some(at) = connections.iter().position(|(other, _)| *other == number) else {
            return;
        };
        let (_, connection) = connections.remove(at);
        let delay = self.dice.below(30);
        self.connections[connection].up.push(self.now, delay, None);
        self.clients[index].dial_at = self.now + self.dice.below(100);
    }
}
