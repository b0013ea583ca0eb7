//! Limit of a semaphore: which of several is in force, and for how long.

use super::{LimitRecord, LockState, step::Step};
use crate::{
    command::{Acquire, Reply},
    mode::{Limit, Mode},
    watch::Change,
};

impl LockState {
    /// Returns the limit that applies to an acquire, which may replace the one in force by its own; `None` in other modes.
    ///
    /// # Errors
    ///
    /// Returns the refusal of an acquire that names another limit of the same revision, or needs more permits than the limit in
    /// force has. Nothing is changed then.
    pub(super) fn settle_limit(
        &mut self,
        step: &mut Step<'_>,
        acquire: &Acquire,
    ) -> Result<Option<Limit>, Reply> {
        let Mode::Semaphore(permits) = acquire.mode else {
            return Ok(None);
        };
        let asked = permits.limit();
        let before = self.limit();
        let in_force = before.or(self.remembered.map(|record| record.limit));
        let limit = match in_force {
            Some(in_force) if in_force.revision > asked.revision => in_force,
            Some(in_force) if in_force.revision == asked.revision && in_force != asked => {
                return Err(Reply::OtherLimit { limit: in_force });
            }
            _ => asked,
        };
        if acquire.mode.permits_needed() > limit.number {
            return Err(Reply::OtherLimit { limit });
        }
        if limit.revision > 0 {
            self.remembered = Some(LimitRecord {
                limit,
                forget_at: step.now.after(step.caller.token_memory),
            });
        }
        self.holders.set_limit(limit);
        self.queue.set_limit(limit);
        if before.is_some_and(|before| before != limit) {
            step.tell(|| Change::LimitChanged(limit));
        }
        Ok(Some(limit))
    }

    /// Makes the limit one that every revision replaces, and forgets it once nobody holds or waits.
    pub(super) fn forget_revision(&mut self) {
        self.remembered = None;
        if let Some(limit) = self.queue.limit() {
            self.queue.set_limit(Limit {
                revision: 0,
                ..limit
            });
        }
    }
}
