//! Allowances of the promises, for grants that the store has lost, that its clock has ended early, or that came too late to be
//! told.

use crate::world::World;

impl World {
    /// Returns whether a hold may have ended before its time, because the store's clock stepped or writes were lost after its
    /// grant: its client, which has this TTL, hears of that within it.
    pub(crate) fn may_be_lost(&self, name: usize, token: i64, ttl: u64) -> bool {
        let made_at = self.ledger.made_at.get(&(name, token));
        let is_older = made_at.is_none_or(|at| *at <= self.lost_at);
        self.lost_at > 0 && is_older && self.now <= self.lost_at + ttl + ttl / 100
    }

    /// Returns whether the same token may have been given twice: it was lost with the last writes, the clock is behind, and the
    /// coordinator that granted the lock again had not heard of it.
    pub(crate) fn may_be_made_twice(&self, name: usize, token: i64) -> bool {
        let made_at = self.ledger.made_at.get(&(name, token));
        made_at.is_none_or(|at| *at <= self.failed_over_at)
    }

    /// Returns whether a request to release meant this hold, a client and a token. Where writes were lost, the store may have granted the
    /// lock once more to the same owner id, which its coordinator knows by the grant before.
    pub(crate) fn was_asked(&self, reason: &str, hold: &(String, i64)) -> bool {
        let meant = &self.asked[reason];
        let is_of_client = || meant.iter().any(|(client, _)| *client == hold.0);
        meant.contains(hold) || self.lost_at > 0 && is_of_client()
    }

    /// Returns whether watchers may see a grant end that they did not see begin: the store's clock was ahead for a while, at which
    /// the hold had expired.
    pub(crate) fn may_be_unseen(&self, name: usize, token: i64) -> bool {
        let made_at = self.ledger.made_at.get(&(name, token));
        made_at.is_none_or(|at| *at <= self.stepped_at)
    }

    /// Returns whether watchers were not told of a grant: a look finds it later.
    pub(crate) fn is_untold(&self, name: usize, token: i64) -> bool {
        self.ledger.untold_grants.contains(&(name, token))
    }

    /// Returns the token of a grant between two others that was made after this time, and told.
    pub(crate) fn granted_between(
        &self,
        name: usize,
        (from, to): (i64, i64),
        since: u64,
    ) -> Option<i64> {
        let since = since.max(self.failed_over_at);
        let made = self.ledger.made_at.range((name, from + 1)..(name, to));
        let mut made =
            made.filter(|(grant, at)| **at > since && !self.ledger.untold_grants.contains(grant));
        made.next().map(|((_, token), _)| *token)
    }
}
