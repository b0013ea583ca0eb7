//! The coordinator of the simulated world.

use super::{
    super::{Request, Response, not_granted, wire_ms},
    INTERVAL, LIMIT, MARGIN, TTL, World, number,
};
use crate::proto::v1::{self, LockMode};

/// One name, and who holds it: those fit together.
#[derive(Default)]
pub(super) struct Lock {
    pub(super) holds: Vec<Hold>,
    token: i64,
}

pub(super) struct Hold {
    owner: Vec<u8>,
    /// Whose it is: of which connection, and of which actor there.
    pub(super) connection: usize,
    actor: u64,
    mode: LockMode,
    permits: u32,
    pub(super) count: usize,
    expires: u64,
    pub(super) token: i64,
}

/// An acquire that has not been answered.
pub(super) struct Waiter {
    id: u64,
    names: Vec<usize>,
    asked: v1::SessionAcquire,
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
        if self.now < self.clients[self.connections[index].client].black_hole_until {
            return self.end_if_silent(index);
        }
        while let Some(message) = self.connections[index].up.pop(self.now) {
            match message {
                Some(request) => self.serve(index, request),
                // Its peer ended it: everything is released at once.
                None if self.connections[index].heard.is_some() => {
                    for lock in &mut self.locks {
                        lock.holds.retain(|hold| hold.connection != index);
                    }
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
                let waiter = Waiter {
                    id,
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
                    Err(_) => self.connections[index].waiting.push(waiter),
                    Ok(fits) => self.grant(index, waiter, &fits),
                }
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
                    lock.holds[at].count -= 1;
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
            if self.connections[index].waiting.is_empty() {
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

    /// How each of the names fits, if all of them do.
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
                    owner: self.owners.to_be_bytes().to_vec(),
                    connection: index,
                    actor: waiter.asked.actor,
                    mode: waiter.asked.mode(),
                    permits: waiter.asked.permits,
                    count: 1,
                    expires: heard_at + TTL,
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

    fn fail(&mut self, index: usize, id: u64, reason: &str) {
        let code = if reason.starts_with("STORE_") {
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

    /// The coordinator forgets the session; what it held is left to expire.
    pub(super) fn end_session(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.heard.take().is_some() {
            connection.waiting.clear();
            let delay = self.dice.below(30);
            connection.down.push(self.now, delay, None);
        }
    }

    /// Who holds a name at the same time must be allowed to.
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
