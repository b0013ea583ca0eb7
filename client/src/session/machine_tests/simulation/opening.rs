//! Opening of a session in the simulated world, resumes included.

use super::{
    super::{Response, wire_ms},
    INTERVAL, MARGIN, TTL, World,
    coordinator::Waiter,
    millis, number,
};
use crate::proto::v1::{self, resumed_lock::What, session_resume};

impl World {
    pub(super) fn open(&mut self, index: usize, id: u64, mut open: v1::SessionOpen) {
        let coordinator = self.connections[index].coordinator;
        if self.coordinators[coordinator].drained_at.is_some() {
            return self.fail(index, id, "DRAINING");
        }
        let connection = &mut self.connections[index];
        connection.grace = millis(open.disconnect_grace);
        if open.more {
            connection.opening.extend(open.resume);
            return;
        }
        let mut resume = std::mem::take(&mut connection.opening);
        resume.append(&mut open.resume);
        let fails_at = (!self.calm && self.dice.once_in(8))
            .then(|| self.dice.below(resume.len() as u64 + 1) as usize);
        self.connections[index].heard = Some((0, self.now));
        let mut opened = v1::SessionOpened {
            ttl: wire_ms(TTL),
            heartbeat_interval: wire_ms(INTERVAL),
            valid_for: wire_ms(TTL - MARGIN),
            ..Default::default()
        };
        for (n, resume) in resume.into_iter().enumerate() {
            if fails_at == Some(n) {
                // What was resumed before is left to expire.
                self.connections[index].heard = None;
                return self.fail(index, id, "STORE_UNAVAILABLE");
            }
            let (name, next) = (resume.name.clone(), resume.next_owner_id.clone());
            match self.resume(index, resume) {
                Some(what) => opened.resumed.push(v1::ResumedLock {
                    name,
                    owner_id: next,
                    what: Some(what),
                }),
                None => opened.refused.push(v1::LostLock {
                    name,
                    owner_id: next,
                    reason: v1::LostReason::Deleted.into(),
                }),
            }
        }
        // In two parts, for there may be several.
        let refused = std::mem::take(&mut opened.refused);
        opened.more = true;
        self.answer(index, id, Response::Opened(opened));
        let rest = v1::SessionOpened {
            refused,
            ..Default::default()
        };
        self.answer(index, id, Response::Opened(rest));
    }

    fn resume(&mut self, index: usize, resume: v1::SessionResume) -> Option<What> {
        let from = |id: &Vec<u8>| *id == resume.owner_id || resume.tried_owner_ids.contains(id);
        let (now, next) = (self.now, resume.next_owner_id.clone());
        let lock = &mut self.locks[number(&resume.name)];
        lock.holds.retain(|hold| now < hold.expires);
        if let Some(hold) = lock.holds.iter_mut().find(|hold| from(&hold.owner)) {
            self.resumed += 1;
            hold.owner = next;
            hold.connection = index;
            hold.expires = now + TTL;
            let count = match resume.what {
                Some(session_resume::What::Hold(asked)) => {
                    assert_eq!(asked.fencing_token, hold.token);
                    asked.hold_count
                }
                _ => 1,
            };
            hold.count = count as usize;
            return Some(What::Hold(v1::ResumedHold {
                fencing_token: hold.token,
                hold_count: count,
            }));
        }
        let Some(session_resume::What::Wait(wait)) = resume.what else {
            return None;
        };
        let mut places = self.connections.iter_mut().filter_map(|connection| {
            let waiting = &mut connection.waiting;
            let at = waiting.iter().position(|waiter| from(&waiter.ticket))?;
            Some(waiting.remove(at))
        });
        let waiter = places.next()?;
        self.resumed += 1;
        self.connections[index].waiting.push(Waiter {
            id: wait.acquire_request_id,
            ticket: next,
            ..waiter
        });
        Some(What::Position(1))
    }
}
