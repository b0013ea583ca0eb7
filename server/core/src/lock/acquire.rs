//! Acquire: takes a lock, or joins its queue.

use super::{
    LockState,
    step::{HandedOn, Step, alone},
};
use crate::{
    command::{Acquire, Reply},
    mode::Limit,
    watch::Change,
};

impl LockState {
    pub(super) fn acquire(&mut self, step: &mut Step<'_>, acquire: &Acquire) -> (Reply, HandedOn) {
        if acquire.again
            && let Some(loss) = self.replaced.get(&acquire.owner)
        {
            return alone(Reply::Lost(loss));
        }
        if let Some(reply) = self.retake(step, acquire) {
            return alone(reply);
        }
        let limit = match self.settle_limit(step, acquire) {
            Ok(limit) => limit,
            Err(refusal) => return alone(refusal),
        };
        if acquire.wait {
            return self.acquire_or_wait(step, acquire, limit);
        }
        let mut handed_on = self.hand_on(step);
        // It waited, and was the next.
        if let Some(granted) = handed_on.take(&acquire.owner) {
            return (granted, handed_on);
        }
        if self.queue.next(step.now).is_some() || !self.holders.taken().fits(acquire.mode) {
            let holder = self.first_holder(step.now);
            return (Reply::Busy { holder }, handed_on);
        }
        // It may wait at a coordinator that counts as dead; no owner id both holds and waits.
        self.queue.leave(&acquire.owner);
        let here = step.caller.coordinator.clone();
        let (token, permits) = self.grant(step, acquire, &here, limit, None);
        (Reply::Granted { token, permits }, handed_on)
    }

    /// Answers an acquire that is sent again because its reply was lost: the grant stands, and never ends sooner by it, because
    /// this one may be late, and the hold may have been renewed for longer since. One of which only the lock-delay is left is
    /// lost.
    fn retake(&mut self, step: &mut Step<'_>, acquire: &Acquire) -> Option<Reply> {
        self.holders.get(&acquire.owner)?;
        if let Some(lost) = self.run_out(step, &acquire.owner) {
            return Some(lost);
        }
        let hold = self.holders.get_mut(&acquire.owner)?;
        hold.coordinator = step.caller.coordinator.clone();
        hold.confirmed = true;
        hold.fresh = false;
        let granted = Reply::Granted {
            token: hold.token,
            permits: hold.mode.permits_left_to_store(),
        };
        let ends_at = step.now.after(acquire.ttl + acquire.lock_delay);
        let ends_at = ends_at.max(hold.ends_at);
        self.holders.extend(&acquire.owner, ends_at);
        Some(granted)
    }

    fn acquire_or_wait(
        &mut self,
        step: &mut Step<'_>,
        acquire: &Acquire,
        limit: Option<Limit>,
    ) -> (Reply, HandedOn) {
        let here = &step.caller.coordinator;
        if self.queue.is_empty() && self.holders.taken().fits(acquire.mode) {
            let here = here.clone();
            let (token, permits) = self.grant(step, acquire, &here, limit, None);
            return alone(Reply::Granted { token, permits });
        }
        let is_new = !self.queue.contains(&acquire.owner);
        let place = self.queue.join(acquire, here, limit, step.now);
        let mut handed_on = self.hand_on(step);
        if let Some(granted) = handed_on.take(&acquire.owner) {
            return (granted, handed_on);
        }
        // Its waiter may have left: one that is sent again may lower the limit below what that needs.
        let position = self.queue.position(place);
        if is_new && let Some(waiter) = self.queue.get(&acquire.owner) {
            step.tell(|| Change::Queued {
                waiter: Box::new(waiter.view()),
                position,
            });
        }
        let expires_in = self.expires_in(step.now);
        let reply = Reply::Queued {
            position,
            expires_in,
        };
        (reply, handed_on)
    }
}
