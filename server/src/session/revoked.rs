//! Holds and waits of a session that its client is no longer permitted.
//!
//! Its client is told at once, and its waits are given up. What it held is renewed no more, and not let go before everything
//! that its client was promised has passed: what it was told may be on its way for as long as that. Of a session that is kept
//! without a stream, it is let go at once.

use std::collections::HashMap;

use leasehold_core::{deadlock::Deadlock, id::OwnerId, mode::Mode, name::LockName, time::Moment};
use leasehold_proto::v1::session_response::Response;
use leasehold_store::StoreError;

use super::{acquires::Wanted, task::Session, wire::Wire};
use crate::{
    access::{
        self,
        rules::{Granted, Permission, Place},
    },
    convert,
    coordinator::{acquire::Acquired, hold::Hold},
    status::Refusal,
};

/// Holds that were revoked, each until what was promised of it has passed. Dropping them ends them.
#[derive(Debug, Default)]
pub(super) struct Revoked {
    holds: HashMap<OwnerId, Former>,
    /// None of them is over before this.
    due: Option<Moment>,
}

/// One of them.
#[derive(Debug)]
struct Former {
    hold: Hold,
    /// When what was promised of it has passed.
    until: Moment,
    /// How many times it is held, as its client counts until it hears of the loss.
    count: u32,
}

impl Revoked {
    fn add(&mut self, hold: Hold, count: u32, until: Moment) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
        let former = Former { hold, until, count };
        self.holds.insert(*former.hold.owner(), former);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether this is the owner id of one of them, of this name.
    pub(super) fn is(&self, owner: &OwnerId, name: &LockName) -> bool {
        let former = self.holds.get(owner);
        former.is_some_and(|former| former.hold.name() == name)
    }

    /// Its client gives back one of the several times that it holds this one; gives how many are left.
    pub(super) fn count_down(&mut self, owner: &OwnerId) -> Option<u32> {
        let former = self.holds.get_mut(owner)?;
        former.count = former.count.checked_sub(1).filter(|left| *left > 0)?;
        Some(former.count)
    }

    /// Its client gives one back.
    pub(super) fn take(&mut self, owner: &OwnerId) -> Option<Hold> {
        self.holds.remove(owner).map(|former| former.hold)
    }

    /// Its client gives all of them back.
    pub(super) fn give_back(&mut self) {
        for (_, former) in self.holds.drain() {
            former.hold.release_detached();
        }
    }

    /// One is gone in the store.
    pub(super) fn forget(&mut self, owner: &OwnerId) {
        if let Some(hold) = self.take(owner) {
            hold.forget();
        }
    }

    /// When the first of them may be over.
    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Ends those that are over.
    pub(super) fn end_due(&mut self, now: Moment) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.holds.retain(|_, former| now < former.until);
        self.due = self.holds.values().map(|former| former.until).min();
    }

    /// Leaves them in the store until they expire.
    pub(super) fn leave_to_expire(&mut self) {
        for (_, former) in self.holds.drain() {
            former.hold.leave_to_expire();
        }
    }
}

impl<W: Wire> Session<W> {
    /// Refuses an acquire that is not permitted: of one name, or of several where `names` has them.
    pub(super) fn check_acquire(
        &self,
        mode: Mode,
        name: &LockName,
        names: &[LockName],
    ) -> Result<(), Refusal> {
        let place = W::place(mode);
        let check = |name: &LockName| {
            access::check_granted(&self.granted, Permission::Acquire, place, name.as_str())
        };
        check(name)?;
        names.iter().try_for_each(check)
    }

    /// Refuses to change what its client may only give back, also once it may have the lock again: it was told that it lost it.
    pub(super) fn check_not_revoked(
        &self,
        owner: &OwnerId,
        name: &LockName,
    ) -> Result<(), Refusal> {
        if self.revoked.is(owner, name) {
            return Err(access::denied(Permission::Acquire, name.as_str()));
        }
        Ok(())
    }

    /// The client may do this from now on.
    pub(super) fn on_rights(&mut self, granted: Granted) {
        self.granted = granted;
        let denied: Vec<(u64, Refusal)> = self
            .acquiring
            .iter()
            .filter_map(|(request_id, acquiring)| {
                let wanted = &acquiring.wanted;
                let mut checked = wanted
                    .each()
                    .map(|name| self.check_acquire(wanted.mode, name, &[]));
                Some((*request_id, checked.find_map(Result::err)?))
            })
            .collect();
        for (request_id, refusal) in denied {
            if let Some(acquiring) = self.acquiring.get_mut(&request_id) {
                acquiring.denied = Some(Box::new(refusal));
                self.cancel(request_id);
            }
        }
        let revoked = self.holds.iter().filter(|(_, held)| {
            let name = held.hold.name();
            self.check_acquire(held.mode, name, &[]).is_err()
        });
        let revoked: Vec<OwnerId> = revoked.map(|(owner, _)| *owner).collect();
        self.revoke(&revoked);
    }

    fn revoke(&mut self, owners: &[OwnerId]) {
        let until = self.lease.promised_until();
        let mut locks = Vec::with_capacity(owners.len());
        for owner in owners {
            let count = self.holds.get(owner).map_or(1, |held| held.count.get());
            let Some(hold) = self.unhold(owner) else {
                continue;
            };
            self.coordinator.metrics().count_lost("permission_revoked");
            if self.kept.is_some() {
                // Its client's stream has ended, and it acts on none of it: it is given up as if there were no grace.
                drop(hold);
                continue;
            }
            locks.push(convert::revoked_lock(hold.name(), owner));
            self.revoked.add(hold, count, until);
        }
        for lost in convert::lost_messages(locks) {
            self.outbox.send(0, Response::Lost(lost));
        }
    }

    /// An acquire that may not be any more has come to its end: what it was granted, its client never hears of.
    pub(super) fn on_denied<Holds>(
        &mut self,
        request_id: u64,
        wanted: &Wanted,
        result: Result<Acquired<Holds>, StoreError>,
        refusal: Refusal,
    ) where
        Holds: IntoIterator<Item = Hold>,
    {
        self.end_wanted(wanted);
        match result {
            // What becomes of it is told on the stream that resumed it.
            Ok(Acquired::Moved) => return,
            Ok(Acquired::Granted(holds)) => holds.into_iter().for_each(Hold::release_detached),
            _ => {}
        }
        self.refuse(request_id, refusal);
    }

    /// Whether the client may be told who has what it wanted.
    pub(super) fn may_inspect(&self, wanted: &Wanted) -> bool {
        wanted.each().all(|name| self.may_see(name))
    }

    /// A deadlock, in words that tell of no lock that the client may not see.
    pub(super) fn shown_deadlock(&self, deadlock: &Deadlock) -> String {
        let mut names = deadlock.cycle.iter().map(|step| &step.name);
        if names.all(|name| self.may_see(name)) {
            return deadlock.to_string();
        }
        "the wait was part of a deadlock, in which there are locks that may not be shown; it was ended for the others to go on"
            .to_owned()
    }

    fn may_see(&self, name: &LockName) -> bool {
        self.granted
            .permits(Permission::Inspect, Place::Either, name.as_str())
    }
}
