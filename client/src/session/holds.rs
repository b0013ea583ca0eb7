//! The locks that a session holds, from their grant until their guard is gone.
//!
//! What is counted here is guards, and each has its lease. A hold that an actor was granted again has several; they
//! share an owner id, by which the coordinator loses them together, while each is given back for itself.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    clock::{Moment, earlier},
    lease::{Lease, LostReason},
};

/// What it takes to name one hold to the coordinator. The owner id is secret: no `Debug`.
#[derive(Clone)]
pub(super) struct Owned {
    pub(super) name: Arc<str>,
    pub(super) owner_id: Vec<u8>,
}

enum State {
    /// The coordinator holds it for us, and so does the guard.
    Held,
    /// The guard's deadline has passed, but as far as we know the coordinator still holds it for us. It is given back
    /// at this moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
    Expired { release_at: Moment },
    /// The coordinator does not hold it for us any more, or was asked not to.
    Gone(LostReason),
}

/// What one guard holds.
struct Hold {
    lease: Arc<Lease>,
    owned: Owned,
    lock_delay: Duration,
    state: State,
}

/// All holds of a session, by the keys of their guards, which only this process knows.
#[derive(Default)]
pub(super) struct Holds {
    by_key: HashMap<u64, Hold>,
    /// Of those that the coordinator holds for us. Never empty lists.
    by_owner: HashMap<Vec<u8>, Vec<u64>>,
    last_key: u64,
    /// Nothing needs to be done before this: a lower bound, made exact whenever it has passed.
    check_at: Option<Moment>,
}

/// What became of a guard's wish to give its lock back.
pub(super) enum Removed {
    /// The coordinator has to be told.
    Release(Owned),
    /// It is gone already, for this reason.
    Gone(LostReason),
}

impl Holds {
    pub(super) fn insert(
        &mut self,
        lease: Arc<Lease>,
        owned: Owned,
        lock_delay: Duration,
        deadline: Moment,
    ) -> u64 {
        self.last_key += 1;
        self.check_at = earlier(self.check_at, Some(deadline));
        self.by_owner
            .entry(owned.owner_id.clone())
            .or_default()
            .push(self.last_key);
        self.by_key.insert(
            self.last_key,
            Hold {
                lease,
                owned,
                lock_delay,
                state: State::Held,
            },
        );
        self.last_key
    }

    /// Whether the coordinator holds nothing for us.
    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    pub(super) fn check_at(&self) -> Option<Moment> {
        self.check_at
    }

    /// Forgets a hold whose guard is gone.
    pub(super) fn remove(&mut self, key: u64) -> Option<Removed> {
        let hold = self.by_key.remove(&key)?;
        match hold.state {
            State::Gone(reason) => Some(Removed::Gone(reason)),
            State::Held | State::Expired { .. } => {
                unlink(&mut self.by_owner, &hold.owned.owner_id, key);
                Some(Removed::Release(hold.owned))
            }
        }
    }

    /// What names a hold to the coordinator, while its guard still holds it.
    pub(super) fn owned(&self, key: u64, now: Moment) -> Result<Owned, LostReason> {
        let hold = self.by_key.get(&key).ok_or(LostReason::Released)?;
        hold.lease.held(now)?;
        Ok(hold.owned.clone())
    }

    /// The coordinator says that it does not hold this for us any more: every guard of it has lost it.
    pub(super) fn lost(&mut self, owner_id: &[u8], now: Moment, reason: LostReason) {
        for key in self.by_owner.remove(owner_id).unwrap_or_default() {
            if let Some(hold) = self.by_key.get_mut(&key) {
                // A guard that had reported another end before keeps that one.
                hold.lease.end(now, reason).ok();
                hold.state = State::Gone(reason);
            }
        }
    }

    /// The coordinator does not know the hold that it was asked about for this guard. Returns why the guard says that
    /// it is lost.
    pub(super) fn gone(&mut self, key: u64, now: Moment, reason: LostReason) -> LostReason {
        let Some(hold) = self.by_key.get(&key) else {
            return LostReason::Released;
        };
        let (lease, owner_id) = (hold.lease.clone(), hold.owned.owner_id.clone());
        self.lost(&owner_id, now, reason);
        lease.end(now, reason).err().unwrap_or(reason)
    }

    /// A heartbeat was answered: whatever is still held is good until then at least.
    pub(super) fn extend(&mut self, to: Moment) {
        for hold in self.by_key.values() {
            hold.lease.extend(to);
        }
    }

    /// Ends what has passed its deadline; returns what to give back now.
    pub(super) fn expire(&mut self, now: Moment) -> Vec<Owned> {
        if self.check_at.is_none_or(|check_at| now < check_at) {
            return Vec::new();
        }
        self.check_at = None;
        let mut release = Vec::new();
        for (key, hold) in &mut self.by_key {
            let next = match (&hold.state, hold.lease.held(now)) {
                (State::Gone(_), _) => continue,
                (State::Held, Ok(deadline)) => deadline,
                // Given back by its guard: the request is on its way to us.
                (State::Held, Err(LostReason::Released)) => continue,
                (State::Held, Err(_)) => now.after(hold.lock_delay),
                (State::Expired { release_at }, _) => *release_at,
            };
            if now < next {
                if hold.lease.held(now).is_err() {
                    hold.state = State::Expired { release_at: next };
                }
                self.check_at = earlier(self.check_at, Some(next));
            } else {
                hold.state = State::Gone(LostReason::Expired);
                unlink(&mut self.by_owner, &hold.owned.owner_id, *key);
                release.push(hold.owned.clone());
            }
        }
        release
    }

    /// The session has ended, and with it all it held.
    pub(super) fn end_all(&mut self, now: Moment, reason: LostReason) {
        for hold in self.by_key.values_mut() {
            if !matches!(hold.state, State::Gone(_)) {
                hold.lease.end(now, reason).ok();
                hold.state = State::Gone(reason);
            }
        }
        self.by_owner.clear();
        self.check_at = None;
    }
}

impl Drop for Holds {
    /// Whatever ends the session's task, be it the runtime's end, nobody must go on believing in a lock.
    fn drop(&mut self) {
        self.end_all(Moment::now(), LostReason::SessionEnded);
    }
}

/// The coordinator does not hold it for this guard any more.
fn unlink(by_owner: &mut HashMap<Vec<u8>, Vec<u64>>, owner_id: &[u8], key: u64) {
    if let Some(keys) = by_owner.get_mut(owner_id) {
        keys.retain(|other| *other != key);
        if keys.is_empty() {
            by_owner.remove(owner_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::FencingToken;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn hold(holds: &mut Holds, owner: u8, lock_delay: u64, deadline: u64) -> (u64, Arc<Lease>) {
        let lease = Arc::new(Lease::new("a".into(), FencingToken::from(1), at(deadline)));
        let owned = Owned {
            name: "a".into(),
            owner_id: vec![owner],
        };
        let delay = Duration::from_millis(lock_delay);
        let key = holds.insert(lease.clone(), owned, delay, at(deadline));
        (key, lease)
    }

    #[test]
    fn an_expired_hold_is_given_back_at_once_or_after_its_lock_delay() {
        let mut holds = Holds::default();
        hold(&mut holds, 1, 0, 100);
        let (_, delayed) = hold(&mut holds, 2, 50, 100);
        assert_eq!(holds.check_at(), Some(at(100)));
        assert!(holds.expire(at(99)).is_empty());

        let released = holds.expire(at(100));
        assert_eq!(released.len(), 1);
        assert_eq!(released[0].owner_id, [1]);
        assert_eq!(delayed.held(at(100)), Err(LostReason::Expired));
        assert_eq!(holds.check_at(), Some(at(150)));

        assert_eq!(holds.expire(at(150))[0].owner_id, [2]);
        assert!(holds.is_empty());
        assert_eq!(holds.check_at(), None);
    }

    #[test]
    fn a_guard_that_goes_before_the_lock_delay_has_passed_gives_back_at_once() {
        let mut holds = Holds::default();
        let (key, _) = hold(&mut holds, 1, 50, 100);
        holds.expire(at(100));
        assert!(matches!(holds.remove(key), Some(Removed::Release(_))));
        assert!(holds.remove(key).is_none());
        assert!(holds.is_empty());
    }

    #[test]
    fn an_extension_moves_the_next_check() {
        let mut holds = Holds::default();
        let (_, lease) = hold(&mut holds, 1, 0, 100);
        holds.extend(at(300));
        assert!(holds.expire(at(100)).is_empty());
        assert_eq!(holds.check_at(), Some(at(300)));
        assert_eq!(lease.held(at(299)), Ok(at(300)));
    }

    #[test]
    fn what_the_coordinator_lost_is_not_given_back() {
        let mut holds = Holds::default();
        let (key, lease) = hold(&mut holds, 1, 0, 100);
        holds.lost(&[9], at(1), LostReason::Forced);
        assert_eq!(lease.held(at(1)), Ok(at(100)));
        holds.lost(&[1], at(1), LostReason::Forced);
        assert_eq!(lease.held(at(1)), Err(LostReason::Forced));
        assert!(holds.expire(at(200)).is_empty());
        assert!(matches!(
            holds.remove(key),
            Some(Removed::Gone(LostReason::Forced))
        ));
    }

    #[test]
    fn dropping_the_table_ends_every_hold() {
        let mut holds = Holds::default();
        let (_, lease) = hold(&mut holds, 1, 0, u64::MAX / 2_000_000);
        drop(holds);
        assert_eq!(lease.held(at(1)), Err(LostReason::SessionEnded));
    }
}
