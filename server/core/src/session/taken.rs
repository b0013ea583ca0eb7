//! Names of several that an acquire has taken while it waits for the others, and their renewal.

use super::{
    CommandFailure, LockSpec, RequestId,
    effects::{Effects, Grant, Purpose},
    renewal::RETRY,
};
use crate::{
    command::{Op, Reply, Stamped},
    id::OwnerId,
    time::Moment,
};

/// Progress of an acquire of several names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Taken {
    /// Locks to take, in the order of their names; empty if there is only one.
    todo: Vec<LockSpec>,
    /// Grants of the names that were taken.
    grants: Vec<Grant>,
    /// Number of outstanding renewals. `has_failed` says whether one of them has failed, and `retry_at` when to try again.
    renewing: usize,
    has_failed: bool,
    retry_at: Option<Moment>,
}

impl Taken {
    /// Returns the progress of an acquire of these locks, none of which is taken yet.
    pub(super) fn none_of(mut locks: Vec<LockSpec>) -> Self {
        locks.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Self {
            todo: locks,
            ..Self::default()
        }
    }

    /// Returns the locks to take; none if there is only one.
    pub(super) fn todo(&self) -> &[LockSpec] {
        &self.todo
    }

    /// Returns the lock to take next, unless there is only one.
    pub(super) fn next(&self) -> Option<&LockSpec> {
        self.todo.get(self.grants.len())
    }

    /// Returns whether the next grant is the last.
    pub(super) fn is_last(&self) -> bool {
        self.grants.len() + 1 >= self.todo.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    pub(super) fn push(&mut self, grant: Grant) {
        self.grants.push(grant);
    }

    pub(super) fn into_grants(self) -> Vec<Grant> {
        self.grants
    }

    /// Returns when there is something to do: to renew the names, every third of their TTL or soon after a failure, or to give
    /// them back because one of them was held for as long as it may.
    pub(super) fn due(&self) -> Option<Moment> {
        [self.renewal_due(), self.ends_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns when the names are to be renewed.
    pub(super) fn renewal_due(&self) -> Option<Moment> {
        if self.renewing > 0 {
            return None;
        }
        let grants = self.grants.iter();
        let due = grants.map(|grant| grant.sent_at.after(grant.claim.ttl / 3));
        self.retry_at.or(due.min())
    }

    /// Returns when the first of them was held for as long as it may.
    fn ends_at(&self) -> Option<Moment> {
        let bounds = self.grants.iter().filter_map(|grant| grant.bound);
        bounds.map(|bound| bound.ends_at).min()
    }

    /// Returns whether one of them was held for as long as it may.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.ends_at().is_some_and(|ends_at| ends_at <= now)
    }

    /// Renews the names.
    pub(super) fn renew(&mut self, request: RequestId, effects: &mut Effects) {
        self.renewing = self.grants.len();
        self.has_failed = false;
        self.retry_at = None;
        for Grant { claim, token, .. } in &self.grants {
            let (owner, token, ttl) = (claim.owner, Some(*token), claim.ttl);
            let purpose = Purpose::RenewTaken(request, owner);
            effects.store(purpose, claim.name.clone(), Op::Renew { owner, token, ttl });
        }
    }

    /// Takes in the reply to a renewal. Returns whether the name was lost.
    pub(super) fn on_renewed(
        &mut self,
        owner: &OwnerId,
        result: &Result<Stamped, CommandFailure>,
        now: Moment,
    ) -> bool {
        let mut grants = self.grants.iter_mut();
        let Some(grant) = grants.find(|grant| grant.claim.owner == *owner) else {
            // It was given back meanwhile.
            return false;
        };
        let is_lost = match result {
            Ok(stamped) if stamped.executed.reply == Reply::Renewed => {
                grant.sent_at = grant.sent_at.max(stamped.sent_at);
                false
            }
            Ok(_) => true,
            Err(_) => {
                self.has_failed = true;
                grant.stands_until() <= now
            }
        };
        self.renewing -= 1;
        if self.renewing == 0 && self.has_failed {
            self.retry_at = Some(now.after(RETRY));
        }
        is_lost
    }

    /// Gives the names back. Returns how many releases were sent.
    pub(super) fn give_back(&mut self, request: RequestId, effects: &mut Effects) -> usize {
        self.renewing = 0;
        self.retry_at = None;
        let outstanding = self.grants.len();
        for grant in self.grants.drain(..) {
            let purpose = Purpose::GiveBack(request, grant.claim.clone());
            effects.release(purpose, &grant.claim);
        }
        outstanding
    }
}
