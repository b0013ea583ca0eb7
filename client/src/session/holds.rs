//! The locks that a session holds, from their grant until their guard is gone.
//!
//! What is counted here is guards, and each has its lease. A hold that an actor was granted again has several; they
//! share an owner id, by which the coordinator loses them together, while each is given back for itself.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::ids::Ids;
use crate::{
    clock::{Moment, earlier},
    lease::{Lease, LostReason},
    proto::v1,
    release_request::ReleaseRequest,
};

/// Identity of a hold at a coordinator. The owner ids are secret: no `Debug`.
#[derive(Clone)]
pub(super) struct Owned {
    pub(super) name: Arc<str>,
    pub(super) ids: Ids,
    /// The hold's number here; 0 where there is none.
    pub(super) number: u64,
}

impl Owned {
    /// Makes the identity of a hold that no guard has.
    pub(super) fn stray(name: Arc<str>, ids: Ids) -> Self {
        Self {
            name,
            ids,
            number: 0,
        }
    }
}

/// Guard of a hold.
struct Guarded {
    lease: Arc<Lease>,
    lock_delay: Duration,
    /// Set once the guard's deadline has passed, while as far as we know the coordinator still holds it for us. It is given
    /// back at this moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
    release_at: Option<Moment>,
}

/// Hold of a coordinator for this session, under one owner id.
struct Hold {
    owned: Owned,
    /// Its guards, by their keys. Never none.
    guards: BTreeMap<u64, Guarded>,
}

/// All holds of a session, and the keys of their guards, which only this process knows.
#[derive(Default)]
pub(super) struct Holds {
    /// For each guard the number of its hold, or the reason why the coordinator does not hold it for us any more.
    by_key: HashMap<u64, Result<u64, LostReason>>,
    /// The coordinator's holds for this session, by the session's own numbers, in the order of their grants.
    holds: BTreeMap<u64, Hold>,
    /// Their numbers, by the owner ids under which they were last confirmed.
    by_owner: HashMap<Vec<u8>, u64>,
    last_key: u64,
    /// Nothing needs to be done before this: a lower bound, made exact whenever it has passed.
    check_at: Option<Moment>,
}

impl Holds {
    pub(super) fn insert(
        &mut self,
        lease: Arc<Lease>,
        owner_id: Vec<u8>,
        lock_delay: Duration,
        deadline: Moment,
    ) -> u64 {
        self.last_key += 1;
        let key = self.last_key;
        self.check_at = earlier(self.check_at, Some(deadline));
        // Keys are never used again, so that the first one can number the hold too.
        let number = *self.by_owner.entry(owner_id.clone()).or_insert(key);
        let hold = self.holds.entry(number).or_insert_with(|| Hold {
            owned: Owned {
                name: lease.name.clone(),
                ids: Ids::new(owner_id),
                number,
            },
            guards: BTreeMap::new(),
        });
        let guarded = Guarded {
            lease,
            lock_delay,
            release_at: None,
        };
        hold.guards.insert(key, guarded);
        self.by_key.insert(key, Ok(number));
        key
    }

    /// Returns whether the coordinator holds nothing for this session.
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(super) fn check_at(&self) -> Option<Moment> {
        self.check_at
    }

    fn guards(&self) -> impl Iterator<Item = &Guarded> {
        self.holds.values().flat_map(|hold| hold.guards.values())
    }

    /// Forgets a guard that is gone.
    pub(super) fn remove(&mut self, key: u64) -> Result<Owned, LostReason> {
        let released = LostReason::Released;
        let number = self.by_key.remove(&key).unwrap_or(Err(released))?;
        self.unlink(number, key).ok_or(released)
    }

    /// Returns the name and the owner id of a hold, unless its guard has lost it.
    pub(super) fn owned(&self, key: u64, now: Moment) -> Result<(Arc<str>, Vec<u8>), LostReason> {
        let number = self.by_key.get(&key).ok_or(LostReason::Released)?;
        let hold = self.holds.get(&(*number)?).ok_or(LostReason::Unknown)?;
        let guarded = hold.guards.get(&key).ok_or(LostReason::Unknown)?;
        guarded.lease.alive(now)?;
        let owner_id = hold.owned.ids.confirmed().to_vec();
        Ok((hold.owned.name.clone(), owner_id))
    }

    /// Handles the coordinator's message that it does not hold this lock for the session any more: every guard of it has lost
    /// it.
    pub(super) fn lost(&mut self, owner_id: &[u8], now: Moment, reason: LostReason) {
        if let Some(number) = self.by_owner.get(owner_id) {
            self.forget(*number, now, reason);
        }
    }

    /// Handles the coordinator's message that an operator asks for the release of this lock: it concerns every guard of it.
    pub(super) fn ask(&self, owner_id: &[u8], now: Moment, request: &ReleaseRequest) {
        let number = self.by_owner.get(owner_id);
        let hold = number.and_then(|number| self.holds.get(number));
        for guarded in hold.into_iter().flat_map(|hold| hold.guards.values()) {
            guarded.lease.ask(now, request.clone());
        }
    }

    /// Removes a hold that the coordinator does not have any more: every guard of it has lost it.
    pub(super) fn forget(&mut self, number: u64, now: Moment, reason: LostReason) {
        let Some(hold) = self.holds.remove(&number) else {
            return;
        };
        self.by_owner.remove(hold.owned.ids.confirmed());
        for (key, guarded) in hold.guards {
            let lost = match guarded.lease.end(now, reason) {
                Ok(()) | Err(LostReason::Released) => reason,
                // A guard that had reported another end before keeps that one.
                Err(first) => first,
            };
            self.by_key.insert(key, Err(lost));
        }
    }

    /// Removes the hold of this guard, which the coordinator does not know. Returns the reason that the guard gives for the
    /// loss.
    pub(super) fn gone(&mut self, key: u64, now: Moment, reason: LostReason) -> LostReason {
        if let Some(Ok(number)) = self.by_key.get(&key) {
            self.forget(*number, now, reason);
        }
        match self.by_key.get(&key) {
            Some(Err(lost)) => *lost,
            _ => LostReason::Released,
        }
    }

    /// Extends every hold after the answer to a heartbeat: all are good until then at least.
    pub(super) fn extend(&mut self, to: Moment) {
        for guarded in self.guards() {
            guarded.lease.extend(to);
        }
    }

    /// Ends the holds that have passed their deadline; returns those to give back now.
    pub(super) fn expire(&mut self, now: Moment) -> Vec<Owned> {
        if self.check_at.is_none_or(|check_at| now < check_at) {
            return Vec::new();
        }
        self.check_at = None;
        let mut over = Vec::new();
        let holds = self.holds.iter_mut();
        for (number, key, guarded) in holds.flat_map(|(number, hold)| {
            let guards = hold.guards.iter_mut();
            guards.map(move |(key, guarded)| (*number, *key, guarded))
        }) {
            let next = match (guarded.release_at, guarded.lease.alive(now)) {
                (Some(release_at), _) => release_at,
                (None, Ok(deadline)) => deadline,
                // Given back by its guard: the request is on its way to us.
                (None, Err(LostReason::Released)) => continue,
                (None, Err(_)) => *guarded.release_at.insert(now.after(guarded.lock_delay)),
            };
            if now < next {
                self.check_at = earlier(self.check_at, Some(next));
            } else {
                over.push((key, number));
            }
        }
        // In the order in which they were granted.
        over.sort_unstable();
        let mut owned = Vec::new();
        for (key, number) in over {
            self.by_key.insert(key, Err(LostReason::Expired));
            owned.extend(self.unlink(number, key));
        }
        owned
    }

    /// Ends all holds with the session.
    pub(super) fn end_all(&mut self, now: Moment, reason: LostReason) {
        for number in self.numbers() {
            self.forget(number, now, reason);
        }
        self.check_at = None;
    }

    /// Ends all holds with the stream.
    pub(super) fn end_with_stream(&mut self, now: Moment) {
        for number in self.numbers() {
            self.end(number, now, LostReason::SessionEnded);
        }
    }

    /// Ends the holds that a coordinator has lost which may have had them under any of their ids.
    pub(super) fn lost_in_doubt(&mut self, now: Moment, lost: &HashMap<Vec<u8>, LostReason>) {
        let holds = self.holds.iter();
        let ended = holds.filter_map(|(number, hold)| {
            let reason = hold.owned.ids.all().find_map(|id| lost.get(id))?;
            Some((*number, *reason))
        });
        for (number, reason) in ended.collect::<Vec<_>>() {
            self.end(number, now, reason);
        }
    }

    /// Ends a hold. One that an attempt to resume may have moved to another stream is still to be given back there.
    fn end(&mut self, number: u64, now: Moment, reason: LostReason) {
        match self.holds.get(&number) {
            Some(hold) if hold.owned.ids.in_doubt() => {
                for guarded in hold.guards.values() {
                    guarded.lease.end(now, reason).ok();
                }
                self.check_at = Some(now);
            }
            _ => self.forget(number, now, reason),
        }
    }

    /// Suspends what is held, because the stream has ended; see [`Lease::suspend`].
    pub(super) fn suspend(&mut self, now: Moment, until: Option<Moment>) {
        for guarded in self.guards() {
            guarded.lease.suspend(now, until);
        }
        // Deadlines may have come closer: they are looked at anew.
        if !self.holds.is_empty() {
            self.check_at = Some(now);
        }
    }

    /// Handles the end of a stream that was asked to resume holds: those whose ids say so may have been on it.
    pub(super) fn attempt_dropped(
        &mut self,
        now: Moment,
        grace: Duration,
        may_have_moved: fn(&Ids) -> bool,
    ) {
        let holds = self.holds.values();
        let attempted = holds.filter(|hold| may_have_moved(&hold.owned.ids));
        for guarded in attempted.flat_map(|hold| hold.guards.values()) {
            if grace.is_zero() {
                guarded.lease.end(now, LostReason::SessionEnded).ok();
            } else {
                guarded.lease.suspend(now, Some(now.after(grace)));
            }
            self.check_at = Some(now);
        }
    }

    /// Returns the holds that another stream could take over: those that at least one guard has not lost.
    pub(super) fn resumable(
        &mut self,
        now: Moment,
    ) -> impl Iterator<Item = (&mut Owned, v1::ResumedHold)> {
        self.holds.values_mut().filter_map(move |hold| {
            let mut guards = hold.guards.values();
            let alive = guards.find(|guarded| guarded.lease.alive(now).is_ok())?;
            let resumed = v1::ResumedHold {
                fencing_token: alive.lease.token.get(),
                hold_count: u32::try_from(hold.guards.len()).unwrap_or(u32::MAX),
            };
            Some((&mut hold.owned, resumed))
        })
    }

    /// Returns the owner ids of all holds, to change what is known of them.
    pub(super) fn all_ids(&mut self) -> impl Iterator<Item = &mut Ids> {
        self.holds.values_mut().map(|hold| &mut hold.owned.ids)
    }

    /// Returns whether another stream that did not answer may have taken this hold over.
    pub(super) fn is_in_doubt(&self, number: u64) -> bool {
        let hold = self.holds.get(&number);
        hold.is_some_and(|hold| hold.owned.ids.in_doubt())
    }

    /// Notes that another stream has resumed this hold. Returns whether the hold is still known here.
    pub(super) fn resumed(
        &mut self,
        number: u64,
        now: Moment,
        deadline: Moment,
        ends_at: Option<Moment>,
    ) -> bool {
        let Some(hold) = self.holds.get_mut(&number) else {
            return false;
        };
        self.by_owner.remove(hold.owned.ids.confirmed());
        hold.owned.ids.resumed();
        self.by_owner
            .insert(hold.owned.ids.confirmed().to_vec(), number);
        for guarded in hold.guards.values() {
            guarded.lease.resume(now, deadline, ends_at);
        }
        // A bound may have come closer: it is looked at anew.
        let check_at = ends_at.map_or(deadline, |_| now);
        self.check_at = earlier(self.check_at, Some(check_at));
        true
    }

    /// Returns the first deadline of all that is held or suspended; none if nothing is.
    pub(super) fn first_deadline(&self, now: Moment) -> Option<Moment> {
        let alive = self.guards().map(|guarded| guarded.lease.alive(now));
        alive.filter_map(Result::ok).min()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.holds.keys().copied().collect()
    }

    /// Removes a guard from its hold, because the coordinator does not hold it for this guard any more. Returns the hold.
    fn unlink(&mut self, number: u64, key: u64) -> Option<Owned> {
        let hold = self.holds.get_mut(&number)?;
        hold.guards.remove(&key);
        if !hold.guards.is_empty() {
            return Some(hold.owned.clone());
        }
        let hold = self.holds.remove(&number)?;
        self.by_owner.remove(hold.owned.ids.confirmed());
        Some(hold.owned)
    }
}

impl Drop for Holds {
    /// Ends every hold. However the session's task ends, even with the runtime, no guard may go on believing in its lock.
    fn drop(&mut self) {
        self.end_all(Moment::now(), LostReason::SessionEnded);
    }
}

#[cfg(test)]
mod tests;
