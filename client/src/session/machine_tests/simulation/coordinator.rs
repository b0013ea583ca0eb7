//! The coordinators of the simulated world, and the store that they share.

use super::{
    super::{Request, Response, not_granted, wire_ms},
    Connection, LIMIT, MARGIN, TTL, World, number,
};
use crate::proto::v1::{self, LockMode};

/// One name, and who holds it: those fit together.
#[derive(Default)]
pub(super) struct Lock {
    pub(super) holds: Vec<Hold>,
    token: i64,
}

pub(super) struct Hold {
    pub(super) owner: Vec<u8>,
    /// The connection of the session that holds it.
    pub(super) connection: usize,
    actor: u64,
    mode: LockMode,
    permits: u32,
    pub(super) count: usize,
    pub(super) expires: u64,
    pub(super) token: i64,
}

/// An acquire that has not been answered.
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) ticket: Vec<u8>,
    pub(super) names: Vec<usize>,
    pub(super) asked: v1::SessionAcquire,
}

enum Fit {
    Free,
    /// The actor has it already, at this place among the holds.
    Again(usize),
    Not,
    Never(&'static str),
}

impl World {
    pub(super) fn run_connection(&mut self, index: usize) {
        let connection = &self.connections[index];
        let coordinator = &self.coordinators[connection.coordinator];
        let hung = self.now < coordinator.hung_until;
        let hole = connection
            .hole_until
            .max(self.clients[connection.client].black_hole_until);
        if self.now < hole || hung {
            return;
        }
        while let Some(message) = self.connections[index].up.pop(self.now) {
            match message {
                Some(request) => self.serve(index, request),
                None => self.peer_ended(index),
            }
        }
        let Connection {
            heard, grace_until, ..
        } = self.connections[index];
        if heard.is_some_and(|(_, heard_at)| heard_at + TTL <= self.now) {
            self.end_session(index);
        } else if grace_until.is_some_and(|until| until <= self.now) {
            self.release_all(index);
            self.end_session(index);
        }
    }

    /// Everything is released at once, or kept for the grace.
    fn peer_ended(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some((_, heard_at)) = connection.heard else {
            return;
        };
        if connection.grace == 0 {
            self.release_all(index);
            return self.end_session(index);
        }
        let until = (self.now + connection.grace).min(heard_at + TTL);
        connection.grace_until = Some(until);
        for hold in self.locks.iter_mut().flat_map(|lock| &mut lock.holds) {
            if hold.connection == index {
                hold.expires = hold.expires.min(until);
            }
        }
    }

    fn release_all(&mut self, index: usize) {
        for lock in &mut self.locks {
            lock.holds.retain(|hold| hold.connection != index);
        }
        self.connections[index].waiting.clear();
    }

    fn serve(&mut self, index: usize, request: v1::SessionRequest) {
        let (now, id) = (self.now, request.request_id);
        let body = request.request.unwrap();
        if let Request::Open(open) = body {
            return self.open(index, id, open);
        }
        let Some(heard) = &mut self.connections[index].heard else {
            return;
        };
        match body {
            Request::Heartbeat(heartbeat) => {
                *heard = (heartbeat.sequence, now);
                for hold in self.locks.iter_mut().flat_map(|lock| &mut lock.holds) {
                    if hold.connection == index {
                        hold.expires = now + TTL;
                    }
                }
                let ack = v1::SessionHeartbeatAck {
                    acked_heartbeat: heartbeat.sequence,
                    valid_for: wire_ms(TTL - MARGIN),
                };
                self.answer(index, id, Response::Heartbeat(ack));
            }
            Request::Acquire(asked) => {
                self.owners += 1;
                let waiter = Waiter {
                    id,
                    ticket: self.owners.to_be_bytes().to_vec(),
                    names: match asked.names.as_slice() {
                        [] => vec![number(&asked.name)],
                        names => names.iter().map(|name| number(name)).collect(),
                    },
                    asked,
                };
                let is_try = waiter.asked.wait == wire_ms(0);
                match self.fit(index, &waiter) {
                    Err(Fit::Never(reason)) => self.fail(index, id, reason),
                    Err(_) if is_try => self.refuse(index, id, v1::AcquireOutcome::Busy),
                    Err(_) => {
                        let queued = v1::SessionQueued {
                            position: 1,
                            ticket: waiter.ticket.clone(),
                        };
                        self.answer(index, id, Response::Queued(queued));
                        self.connections[index].waiting.push(waiter);
                    }
                    Ok(fits) => self.grant(index, waiter, &fits),
                }
            }
            Request::Close(_) => {
                self.release_all(index);
                self.answer(index, id, Response::Closed(v1::SessionClosed {}));
                self.end_session(index);
            }
            Request::Cancel(cancel) => {
                let waiting = &mut self.connections[index].waiting;
                let before = waiting.len();
                waiting.retain(|waiter| waiter.id != cancel.acquire_request_id);
                if waiting.len() < before {
                    let id = cancel.acquire_request_id;
                    self.refuse(index, id, v1::AcquireOutcome::Cancelled);
                }
            }
            Request::Release(release) => {
                let held = self.held(&release.owner_id);
                let count = held.map_or(0, |(lock, at)| lock.holds[at].count);
                // Counting down never fails; what fails may have been done all the same.
                let fails = !self.calm && count <= 1 && self.dice.once_in(8);
                if fails && self.dice.once_in(2) {
                    return self.fail(index, id, "STORE_UNAVAILABLE");
                }
                if let Some((lock, at)) = self.held(&release.owner_id) {
                    let hold = &mut lock.holds[at];
                    // Only its own session knows how often it is held.
                    hold.count = match hold.connection == index {
                        true => hold.count - 1,
                        false => 0,
                    };
                    lock.holds.retain(|hold| hold.count > 0);
                }
                if fails {
                    return self.fail(index, id, "STORE_INDETERMINATE");
                }
                let answer = Response::Released(v1::SessionReleased {
                    released: count > 0,
                    hold_count: count.saturating_sub(1) as u32,
                });
                self.answer(index, id, answer);
            }
            Request::Downgrade(downgrade) => {
                let hold = self.held(&downgrade.owner_id);
                let downgraded = hold.is_some();
                if let Some((lock, at)) = hold {
                    if lock.holds[at].mode == LockMode::Semaphore {
                        return self.fail(index, id, "NOT_EXCLUSIVE");
                    }
                    lock.holds[at].mode = LockMode::Shared;
                }
                let answer = Response::Downgraded(v1::SessionDowngraded { downgraded });
                self.answer(index, id, answer);
            }
            _ => {}
        }
    }

    fn held(&mut self, owner: &[u8]) -> Option<(&mut Lock, usize)> {
        self.locks.iter_mut().find_map(|lock| {
            let at = lock.holds.iter().position(|hold| hold.owner == owner)?;
            Some((lock, at))
        })
    }

    /// Expired holds end; what fits is granted to whoever waits.
    pub(super) fn grant_waiters(&mut self) {
        for lock in &mut self.locks {
            lock.holds.retain(|hold| self.now < hold.expires);
        }
        for index in 0..self.connections.len() {
            // Who has no session any more keeps its place, but is passed over.
            let connection = &self.connections[index];
            if connection.waiting.is_empty() || connection.heard.is_none() {
                continue;
            }
            for waiter in std::mem::take(&mut self.connections[index].waiting) {
                match self.fit(index, &waiter) {
                    Ok(fits) => self.grant(index, waiter, &fits),
                    Err(_) => self.connections[index].waiting.push(waiter),
                }
            }
        }
    }

    /// Returns the fit of each name, if all of them fit.
    fn fit(&self, index: usize, waiter: &Waiter) -> Result<Vec<Fit>, Fit> {
        let fits = waiter
            .names
            .iter()
            .map(|name| self.locks[*name].fit(index, &waiter.asked));
        fits.map(|fit| match fit {
            Fit::Free | Fit::Again(_) => Ok(fit),
            Fit::Not | Fit::Never(_) => Err(fit),
        })
        .collect()
    }

    fn grant(&mut self, index: usize, waiter: Waiter, fits: &[Fit]) {
        let (acked_heartbeat, heard_at) = self.connections[index].heard.unwrap();
        let grace_until = self.connections[index].grace_until;
        let mut granted = v1::SessionGranted {
            valid_for: wire_ms(TTL - MARGIN),
            acked_heartbeat,
            ..Default::default()
        };
        for (name, fit) in waiter.names.iter().zip(fits) {
            let lock = &mut self.locks[*name];
            let at = if let Fit::Again(at) = fit {
                lock.holds[*at].count += 1;
                self.again += 1;
                *at
            } else {
                self.owners += 1;
                lock.token += 1;
                lock.holds.push(Hold {
                    owner: match waiter.names.len() {
                        1 => waiter.ticket.clone(),
                        _ => self.owners.to_be_bytes().to_vec(),
                    },
                    connection: index,
                    actor: waiter.asked.actor,
                    mode: waiter.asked.mode(),
                    permits: waiter.asked.permits,
                    count: 1,
                    expires: grace_until.unwrap_or(heard_at + TTL),
                    token: lock.token,
                });
                lock.holds.len() - 1
            };
            granted.locks.push(v1::GrantedLock {
                name: format!("lock{name}"),
                owner_id: lock.holds[at].owner.clone(),
                fencing_token: lock.holds[at].token,
                hold_count: lock.holds[at].count as u32,
            });
        }
        self.answer(index, waiter.id, Response::Granted(granted));
    }

    fn refuse(&mut self, index: usize, id: u64, outcome: v1::AcquireOutcome) {
        self.answer(index, id, not_granted(outcome));
    }

    pub(super) fn fail(&mut self, index: usize, id: u64, reason: &str) {
        let code = if reason.starts_with("STORE_") || reason == "DRAINING" {
            tonic::Code::Unavailable
        } else {
            tonic::Code::FailedPrecondition
        };
        let failure = v1::SessionFailure {
            code: code as i32,
            reason: reason.to_owned(),
            ..Default::default()
        };
        self.answer(index, id, Response::Error(failure));
    }

    pub(super) fn answer(&mut self, index: usize, request_id: u64, response: Response) {
        let delay = self.dice.below(30);
        let message = v1::SessionResponse {
            request_id,
            response: Some(response),
        };
        self.connections[index]
            .down
            .push(self.now, delay, Some(message));
    }

    /// The coordinator forgets the session; what it held is left to expire.
    pub(super) fn end_session(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.grace_until = None;
        if connection.heard.take().is_some() {
            let delay = self.dice.below(30);
            connection.down.push(self.now, delay, None);
        }
    }

    /// Checks that all holders of a name may hold it at the same time.
    pub(super) fn check_locks(&self) {
        for Lock { holds, .. } in &self.locks {
            let permits: u32 = holds.iter().map(|hold| hold.permits).sum();
            let together = match holds.first().map(|hold| hold.mode) {
                None | Some(LockMode::Exclusive) => holds.len() <= 1,
                Some(LockMode::Semaphore) => permits <= LIMIT,
                Some(mode) => holds.iter().all(|hold| hold.mode == mode),
            };
            assert!(together, "the simulated coordinator grants too much");
        }
    }
}

impl Lock {
    fn fit(&self, index: usize, asked: &v1::SessionAcquire) -> Fit {
        let own =
            |hold: &Hold| asked.actor != 0 && hold.connection == index && hold.actor == asked.actor;
        if let Some(at) = self.holds.iter().position(own) {
            let hold = &self.holds[at];
            let weaker = hold.mode == asked.mode() && asked.permits <= hold.permits
                || hold.mode == LockMode::Exclusive && asked.mode() == LockMode::Shared;
            return match (asked.reentrant, weaker) {
                (false, _) => Fit::Never("SELF_DEADLOCK"),
                (true, false) => Fit::Never("UPGRADE_REFUSED"),
                (true, true) => Fit::Again(at),
            };
        }
        let all = |mode| self.holds.iter().all(|hold| hold.mode == mode);
        let taken: u32 = self.holds.iter().map(|hold| hold.permits).sum();
        let fits = match asked.mode() {
            LockMode::Shared => all(LockMode::Shared),
            LockMode::Semaphore => all(LockMode::Semaphore) && taken + asked.permits <= LIMIT,
            _ => self.holds.is_empty(),
        };
        if fits { Fit::Free } else { Fit::Not }
    }
}
