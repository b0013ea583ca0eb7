//! State machine of one lock: `(state, command, now) → reply`.
//!
//! The Redis scripts do the same on keys; `server/store/lua` and this module must agree, and a differential test holds
//! them to it.

mod acquire;
mod change;
mod grant;
mod limit;
mod resume;
mod step;

use std::time::Duration;

use self::step::{HandedOn, Step, alone, over};
use crate::{
    command::{Caller, Executed, Op, Reply},
    hold::Holders,
    id::FencingToken,
    mode::Limit,
    queue::Queue,
    replaced::Replaced,
    time::StoreTime,
    view::HolderView,
    watch::{Change, Telling},
};

/// State of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockState {
    pub(crate) holders: Holders,
    pub(crate) token: Option<TokenRecord>,
    pub(crate) queue: Queue,
    replaced: Replaced,
    /// A limit with a revision, which outlasts holders and waiters.
    remembered: Option<LimitRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LimitRecord {
    limit: Limit,
    forget_at: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenRecord {
    pub(crate) last: FencingToken,
    forget_at: StoreTime,
}

impl LockState {
    /// Executes a command at a time by the store's clock, which may have stepped back since the previous command.
    pub fn apply(&mut self, caller: &Caller, op: &Op, now: StoreTime) -> Executed {
        self.carry_out(caller, op, now, None)
    }

    /// Executes a command, and returns the changes for watchers.
    pub fn apply_and_tell(
        &mut self,
        caller: &Caller,
        op: &Op,
        now: StoreTime,
    ) -> (Executed, Telling) {
        let mut telling = Telling::default();
        let executed = self.carry_out(caller, op, now, Some(&mut telling));
        if caller.not_after.is_some_and(|limit| now > limit) {
            if !telling.changes.is_empty() {
                telling.changes = vec![Change::Doubtful];
            }
            return (executed, telling);
        }
        if !matches!(
            op,
            Op::Renew { .. } | Op::SetValue { .. } | Op::SetCount { .. }
        ) {
            telling.waiter_count = Some(self.queue.len() as u64);
        }
        if matches!(op, Op::Look { .. }) {
            telling.looked = Some(Box::new(self.view(0, now)));
        }
        (executed, telling)
    }

    fn carry_out(
        &mut self,
        caller: &Caller,
        op: &Op,
        now: StoreTime,
        telling: Option<&mut Telling>,
    ) -> Executed {
        let mut step = Step {
            caller,
            now,
            telling,
        };
        let may_be_late = matches!(op, Op::Release { .. } | Op::View { .. } | Op::Edges);
        let is_late = !may_be_late && caller.not_after.is_some_and(|limit| now > limit);
        let (reply, handed_on) = if is_late {
            alone(Reply::Late)
        } else {
            self.forget(&mut step);
            self.operate(&mut step, op)
        };
        Executed {
            reply,
            at: now,
            handed: handed_on.to,
            more: handed_on.more,
        }
    }

    fn operate(&mut self, step: &mut Step<'_>, op: &Op) -> (Reply, HandedOn) {
        match op {
            Op::Acquire(acquire) => self.acquire(step, acquire),
            Op::Renew { owner, token, ttl } => alone(self.renew(step, owner, *token, *ttl)),
            Op::Release { owner, end } => self.release(step, owner, *end),
            Op::Refresh { oldest } => self.refresh(step, oldest.as_ref()),
            Op::ForceRelease => self.force_release(step),
            Op::ForceReleaseOne(one) => self.force_release_one(step, *one),
            Op::RequestRelease { only, .. } => alone(self.request_release(step, *only)),
            Op::SetValue { owner, value } => alone(self.set_value(step, owner, value)),
            Op::SetCount { owner, count } => alone(self.set_count(owner, *count)),
            Op::Downgrade { owner } => self.downgrade(step, owner),
            Op::Reduce { owner, permits } => self.reduce(step, owner, *permits),
            Op::Resume(resume) => self.resume(step, resume),
            Op::View {
                waiters,
                value_bytes,
            } => {
                let view = self.view(*waiters, step.now);
                alone(Reply::Seen(Box::new(view.with_values_of(*value_bytes))))
            }
            Op::Edges => alone(Reply::Edges(Box::new(self.edges(step.now)))),
            Op::Look { .. } => alone(Reply::Looked),
        }
    }

    /// Returns the times at which this state changes by itself, past ones included until the next command: expiries, the start
    /// of a lock-delay, and the times from which a coordinator's waiters are skipped or dropped. For tests that compare it with
    /// a state under another clock; the memory of replaced owner ids does not count.
    pub fn deadlines(&self) -> Vec<StoreTime> {
        let mut deadlines = self.queue.deadlines();
        deadlines.extend(self.token.map(|token| token.forget_at));
        deadlines.extend(self.remembered.map(|record| record.forget_at));
        deadlines.extend(self.holders.deadlines());
        deadlines
    }

    /// Returns when nothing will be left of this state unless it is used again; `None` if nothing is left now.
    pub fn forgettable_at(&self) -> Option<StoreTime> {
        let token = self.token.map(|token| token.forget_at);
        let queue = self.queue.forgettable_at();
        let replaced = self.replaced.last_end();
        let limit = self.remembered.map(|record| record.forget_at);
        let ends = [self.holders.last_end(), token, queue, replaced, limit];
        ends.into_iter().max().flatten()
    }

    /// Returns whether nothing is left of the name at this time, as if it had never been used.
    pub fn is_forgotten(&mut self, now: StoreTime) -> bool {
        let is_forgotten = self.forgettable_at().is_none_or(|at| at <= now);
        if is_forgotten {
            *self = Self::default();
        }
        is_forgotten
    }

    /// Returns whether the name is held, closed or waited for at this time.
    pub fn in_use(&self, now: StoreTime) -> bool {
        self.holders.last_end().is_some_and(|end| end > now) || !self.queue.is_empty()
    }

    /// Drops expired state. Reports the expiry of a hold among several; that of the last hold, or of a single one, is not
    /// reported.
    fn forget(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let are_some_left = self.holders.last_end().is_some_and(|end| end > now);
        self.holders.purge(now, |hold| {
            if are_some_left {
                step.tell(|| Change::Expired(over(hold)));
            }
        });
        self.token.take_if(|token| token.forget_at <= now);
        self.queue.purge(now);
        self.replaced.purge(now);
        self.remembered.take_if(|record| record.forget_at <= now);
    }

    /// Returns the limit in force, while the semaphore has holders or waiters.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.holders.limit().or(self.queue.limit())
    }

    fn first_holder(&self, now: StoreTime) -> Option<HolderView> {
        let hold = self.holders.iter().next()?;
        Some(HolderView::Ours(Box::new(hold.view(now))))
    }

    fn expires_in(&self, now: StoreTime) -> Option<Duration> {
        self.holders.next_end().map(|end| now.until(end))
    }
}
