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

enum State {
    /// The coordinator holds it for us, and so does the guard, or it is suspended.
    Held,
    /// The guard's deadline has passed, but as far as we know the coordinator still holds it for us. It is given back
    /// at this moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
    Expired { release_at: Moment },
    /// The coordinator does not hold it for us any more, or was asked not to.
    Gone(LostReason),
}

/// Part of a hold that one guard has.
struct Guarded {
    lease: Arc<Lease>,
    /// Number of the hold.
    hold: u64,
    lock_delay: Duration,
    state: State,
}

/// Hold of a coordinator for this session, under one owner id.
struct Hold {
    owned: Owned,
    /// Its guards. Never none.
    keys: Vec<u64>,
}

/// A hold as another stream is asked to take it over.
pub(super) struct Resumable {
    pub(super) owned: Owned,
    pub(super) token: i64,
    pub(super) count: usize,
}

/// All holds of a session, by the keys of their guards, which only this process knows.
#[derive(Default)]
pub(super) struct Holds {
    by_key: HashMap<u64, Guarded>,
    /// The coordinator's holds for this session, by the session's own numbers, in the order of their grants.
    holds: BTreeMap<u64, Hold>,
    /// Their numbers, by the owner ids under which they were last confirmed.
    by_owner: HashMap<Vec<u8>, u64>,
    last_key: u64,
    /// Nothing needs to be done before this: a lower bound, made exact whenever it has passed.
    check_at: Option<Moment>,
}

/// Result of the release of a guard.
pub(super) enum Removed {
    /// The coordinator still holds it and must be told.
    Release(Owned),
    /// It is gone already, for this reason.
    Gone(LostReason),
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
        let hold = match self.by_owner.get(&owner_id) {
            Some(number) => *number,
            None => {
                // Keys are never used again, so that the first one can number the hold too.
                let owned = Owned {
                    name: lease.name.clone(),
                    ids: Ids::new(owner_id.clone()),
                    number: key,
                };
                let keys = Vec::new();
                self.holds.insert(key, Hold { owned, keys });
                self.by_owner.insert(owner_id, key);
                key
            }
        };
        if let Some(hold) = self.holds.get_mut(&hold) {
            hold.keys.push(key);
        }
        self.by_key.insert(
            key,
            Guarded {
                lease,
                hold,
                lock_delay,
                state: State::Held,
            },
        );
        key
    }

    /// Returns whether the coordinator holds nothing for this session.
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(super) fn check_at(&self) -> Option<Moment> {
        self.check_at
    }

    /// Forgets a hold whose guard is gone.
    pub(super) fn remove(&mut self, key: u64) -> Option<Removed> {
        let guarded = self.by_key.remove(&key)?;
        match guarded.state {
            State::Gone(reason) => Some(Removed::Gone(reason)),
            State::Held | State::Expired { .. } => {
                self.unlink(guarded.hold, key).map(Removed::Release)
            }
        }
    }

    /// Returns the name and the owner id of a hold, unless its guard has lost it.
    pub(super) fn owned(&self, key: u64, now: Moment) -> Result<(Arc<str>, Vec<u8>), LostReason> {
        let guarded = self.by_key.get(&key).ok_or(LostReason::Released)?;
        guarded.lease.alive(now)?;
        let hold = self.holds.get(&guarded.hold).ok_or(LostReason::Unknown)?;
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

    /// Removes a hold that the coordinator does not have any more: every guard of it has lost it.
    pub(super) fn forget(&mut self, number: u64, now: Moment, reason: LostReason) {
        let Some(hold) = self.holds.remove(&number) else {
            return;
        };
        self.by_owner.remove(hold.owned.ids.confirmed());
        for key in hold.keys {
            if let Some(guarded) = self.by_key.get_mut(&key) {
                // A guard that had reported another end before keeps that one.
                guarded.lease.end(now, reason).ok();
                guarded.state = State::Gone(reason);
            }
        }
    }

    /// Removes the hold of this guard, which the coordinator does not know. Returns the reason that the guard gives for the
    /// loss.
    pub(super) fn gone(&mut self, key: u64, now: Moment, reason: LostReason) -> LostReason {
        let Some(guarded) = self.by_key.get(&key) else {
            return LostReason::Released;
        };
        let (lease, hold) = (guarded.lease.clone(), guarded.hold);
        self.forget(hold, now, reason);
        lease.end(now, reason).err().unwrap_or(reason)
    }

    /// Extends every hold after the answer to a heartbeat: all are good until then at least.
    pub(super) fn extend(&mut self, to: Moment) {
        for guarded in self.by_key.values() {
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
        for (key, guarded) in &mut self.by_key {
            let next = match (&guarded.state, guarded.lease.alive(now)) {
                (State::Gone(_), _) => continue,
                (State::Held, Ok(deadline)) => deadline,
                // Given back by its guard: the request is on its way to us.
                (State::Held, Err(LostReason::Released)) => continue,
                (State::Held, Err(_)) => now.after(guarded.lock_delay),
                (State::Expired { release_at }, _) => *release_at,
            };
            if now < next {
                if guarded.lease.alive(now).is_err() {
                    guarded.state = State::Expired { release_at: next };
                }
                self.check_at = earlier(self.check_at, Some(next));
            } else {
                guarded.state = State::Gone(LostReason::Expired);
                over.push((*key, guarded.hold));
            }
        }
        // In the order in which they were granted.
        over.sort_unstable();
        over.into_iter()
            .filter_map(|(key, hold)| self.unlink(hold, key))
            .collect()
    }

    /// Ends all holds with the session.
    pub(super) fn end_all(&mut self, now: Moment, reason: LostReason) {
        for number in self.numbers() {
            self.forget(number, now, reason);
        }
        self.check_at = None;
    }

    /// Ends all holds with the stream. A hold that an attempt to resume may have moved to another stream is still to be given
    /// back there.
    pub(super) fn end_with_stream(&mut self, now: Moment) {
        for number in self.numbers() {
            let Some(hold) = self.holds.get(&number) else {
                continue;
            };
            if !hold.owned.ids.in_doubt() {
                self.forget(number, now, LostReason::SessionEnded);
                continue;
            }
            for key in &hold.keys {
                if let Some(guarded) = self.by_key.get_mut(key) {
                    guarded.lease.end(now, LostReason::SessionEnded).ok();
                }
            }
            self.check_at = Some(now);
        }
    }

    /// Suspends all holds after the end of the stream; the session may resume them until then.
    pub(super) fn suspend(&mut self, now: Moment, until: Moment) {
        self.suspend_each(now, |lease| lease.suspend(now, until));
    }

    /// Suspends all holds after the end of a stream whose coordinator no longer knows the client; the session may resume them
    /// until their deadlines.
    pub(super) fn disown(&mut self, now: Moment) {
        self.suspend_each(now, |lease| lease.disown(now));
    }

    fn suspend_each(&mut self, now: Moment, suspend: impl Fn(&Lease)) {
        for guarded in self.by_key.values() {
            suspend(&guarded.lease);
        }
        // Deadlines may have come closer: they are looked at anew.
        if !self.holds.is_empty() {
            self.check_at = Some(now);
        }
    }

    /// Handles the end of a stream that was asked to resume holds: the holds may have been on it.
    pub(super) fn attempt_dropped(&mut self, now: Moment, grace: Duration) {
        for hold in self
            .holds
            .values()
            .filter(|hold| hold.owned.ids.is_attempted())
        {
            for key in &hold.keys {
                let Some(guarded) = self.by_key.get(key) else {
                    continue;
                };
                if grace.is_zero() {
                    guarded.lease.end(now, LostReason::SessionEnded).ok();
                } else {
                    guarded.lease.suspend(now, now.after(grace));
                }
                self.check_at = Some(now);
            }
        }
    }

    /// Returns the holds that another stream could take over: those that at least one guard has not lost.
    pub(super) fn resumable(&self, now: Moment) -> Vec<Resumable> {
        let alive = |key: &&u64| {
            let guarded = self.by_key.get(key);
            guarded.is_some_and(|guarded| guarded.lease.alive(now).is_ok())
        };
        let resumable = self.holds.values().filter_map(|hold| {
            let key = hold.keys.iter().find(alive)?;
            Some(Resumable {
                owned: hold.owned.clone(),
                token: self.by_key.get(key)?.lease.token.get(),
                count: hold.keys.len(),
            })
        });
        resumable.collect()
    }

    /// Returns the owner ids of a hold, to change them.
    pub(super) fn ids(&mut self, number: u64) -> Option<&mut Ids> {
        self.holds.get_mut(&number).map(|hold| &mut hold.owned.ids)
    }

    /// Notes that another stream has resumed this hold. Returns whether the hold is still known here.
    pub(super) fn resumed(&mut self, number: u64, now: Moment, deadline: Moment) -> bool {
        let Some(hold) = self.holds.get_mut(&number) else {
            return false;
        };
        self.by_owner.remove(hold.owned.ids.confirmed());
        hold.owned.ids.resumed();
        self.by_owner
            .insert(hold.owned.ids.confirmed().to_vec(), number);
        for key in &hold.keys {
            if let Some(guarded) = self.by_key.get(key) {
                guarded.lease.resume(now, deadline);
            }
        }
        self.check_at = earlier(self.check_at, Some(deadline));
        true
    }

    /// Returns the first deadline of all that is held or suspended; none if nothing is.
    pub(super) fn first_deadline(&self, now: Moment) -> Option<Moment> {
        let deadlines = self.by_key.values().filter_map(|guarded| {
            let held = matches!(guarded.state, State::Held);
            held.then(|| guarded.lease.alive(now).ok()).flatten()
        });
        deadlines.min()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.holds.keys().copied().collect()
    }

    /// Removes a guard from its hold, because the coordinator does not hold it for this guard any more. Returns the hold.
    fn unlink(&mut self, number: u64, key: u64) -> Option<Owned> {
        let hold = self.holds.get_mut(&number)?;
        hold.keys.retain(|other| *other != key);
        if !hold.keys.is_empty() {
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
