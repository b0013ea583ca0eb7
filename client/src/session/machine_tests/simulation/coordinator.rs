//! The coordinator of the simulated world.

use super::{
    super::{Request, Response, not_granted, wire_ms},
    INTERVAL, MARGIN, NAMES, TTL, World,
};
use crate::proto::v1;

impl World {
    pub(super) fn run_connection(&mut self, index: usize) {
        if self.now < self.clients[self.connections[index].client].black_hole_until {
            return self.end_if_silent(index);
        }
        while let Some(message) = self.connections[index].up.pop(self.now) {
            match message {
                Some(request) => self.serve(index, request),
                // Its peer ended it: everything is released at once.
                None if self.connections[index].heard.is_some() => {
                    self.release_all(index);
                    self.end_session(index);
                }
                None => {}
            }
        }
        self.end_if_silent(index);
    }

    fn end_if_silent(&mut self, index: usize) {
        let heard = self.connections[index].heard;
        if heard.is_some_and(|(_, heard_at)| heard_at + TTL <= self.now) {
            self.end_session(index);
        }
    }

    fn serve(&mut self, index: usize, request: v1::SessionRequest) {
        let (now, id) = (self.now, request.request_id);
        let body = request.request.unwrap();
        if let Request::Open(_) = body {
            self.connections[index].heard = Some((0, now));
            let opened = v1::SessionOpened {
                ttl: wire_ms(TTL),
                heartbeat_interval: wire_ms(INTERVAL),
                ..Default::default()
            };
            return self.answer(index, id, Response::Opened(opened));
        }
        let Some(heard) = &mut self.connections[index].heard else {
            return;
        };
        match body {
            Request::Heartbeat(heartbeat) => {
                *heard = (heartbeat.sequence, now);
                for lock in self.locks.values_mut() {
                    if let Some((_, holder, expires)) = &mut lock.holder
                        && *holder == index
                    {
                        *expires = now + TTL;
                    }
                }
                let ack = v1::SessionHeartbeatAck {
                    acked_heartbeat: heartbeat.sequence,
                    valid_for: wire_ms(TTL - MARGIN),
                };
                self.answer(index, id, Response::Heartbeat(ack));
            }
            Request::Acquire(acquire) => {
                let name = acquire.name["lock".len()..].parse().unwrap();
                let connection = &mut self.connections[index];
                if acquire.wait == wire_ms(0) && self.locks[&name].holder.is_some() {
                    self.refuse(index, id, v1::AcquireOutcome::Busy);
                } else {
                    connection.waiting.push((id, name));
                }
            }
            Request::Cancel(cancel) => {
                let waiting = &mut self.connections[index].waiting;
                let before = waiting.len();
                waiting.retain(|(id, _)| *id != cancel.acquire_request_id);
                if waiting.len() < before {
                    let id = cancel.acquire_request_id;
                    self.refuse(index, id, v1::AcquireOutcome::Cancelled);
                }
            }
            Request::Release(release) => {
                let owner = release.owner_id[0];
                let mut locks = self.locks.values_mut();
                let lock = locks.find(|lock| lock.holder.is_some_and(|held| held.0 == owner));
                let released = lock.map(|lock| lock.holder = None).is_some();
                let answer = Response::Released(v1::SessionReleased { released });
                self.answer(index, id, answer);
            }
            _ => {}
        }
    }

    /// Expired locks are free; free ones go to whoever waits.
    pub(super) fn grant_waiters(&mut self) {
        for name in 0..NAMES {
            let lock = self.locks.get_mut(&name).unwrap();
            lock.holder = lock.holder.filter(|(_, _, expires)| self.now < *expires);
            if lock.holder.is_some() {
                continue;
            }
            let next = self
                .connections
                .iter()
                .enumerate()
                .find_map(|(index, connection)| {
                    let (sequence, heard_at) = connection.heard?;
                    let place = connection
                        .waiting
                        .iter()
                        .position(|(_, wants)| *wants == name)?;
                    Some((index, sequence, heard_at, place))
                });
            let Some((index, acked_heartbeat, heard_at, place)) = next else {
                continue;
            };
            let (id, _) = self.connections[index].waiting.remove(place);
            self.last_owner = self.last_owner.wrapping_add(1);
            lock.holder = Some((self.last_owner, index, heard_at + TTL));
            lock.token += 1;
            let granted = v1::SessionGranted {
                locks: vec![v1::GrantedLock {
                    name: format!("lock{name}"),
                    owner_id: vec![self.last_owner],
                    fencing_token: lock.token,
                    hold_count: 1,
                }],
                valid_for: wire_ms(TTL - MARGIN),
                acked_heartbeat,
            };
            self.answer(index, id, Response::Granted(granted));
        }
    }

    fn refuse(&mut self, index: usize, id: u64, outcome: v1::AcquireOutcome) {
        self.answer(index, id, not_granted(outcome));
    }

    fn answer(&mut self, index: usize, request_id: u64, response: Response) {
        let delay = self.dice.below(30);
        let message = v1::SessionResponse {
            request_id,
            response: Some(response),
        };
        self.connections[index]
            .down
            .push(self.now, delay, Some(message));
    }

    fn release_all(&mut self, index: usize) {
        for lock in self.locks.values_mut() {
            lock.holder = lock.holder.filter(|(_, holder, _)| *holder != index);
        }
    }

    /// The coordinator forgets the session; what it held is left to expire.
    pub(super) fn end_session(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.heard.take().is_some() {
            connection.waiting.clear();
            let delay = self.dice.below(30);
            connection.down.push(self.now, delay, None);
        }
    }
}
