//! Grants: hand-off to the next waiters, and minting of fencing tokens.

use super::{
    LockState, TokenRecord,
    step::{HandedOn, Step},
};
use crate::{
    command::{Acquire, CLAIM_TIME, GRANTS_AT_ONCE, Handed},
    hold::Hold,
    id::{CoordinatorId, FencingToken},
    queue::Waiter,
    watch::Change,
};

impl LockState {
    /// Grants the lock to the next living waiters, one after the other, as long as the next one fits. A grant to another
    /// coordinator's waiter lasts only for the claim time, until that coordinator confirms it.
    pub(super) fn hand_on(&mut self, step: &mut Step<'_>) -> HandedOn {
        let mut handed_on = HandedOn::default();
        while let Some(next) = self.queue.next(step.now)
            && self.holders.taken().fits(next.acquire.mode)
        {
            if handed_on.to.len() == GRANTS_AT_ONCE {
                handed_on.more = true;
                break;
            }
            let Waiter {
                acquire,
                coordinator,
                ..
            } = next.clone();
            self.queue.leave(&acquire.owner);
            let token = self.grant(step, &acquire, &coordinator, true);
            handed_on.to.push(Handed {
                owner: acquire.owner,
                token,
                coordinator,
                of_session: acquire.session.is_some(),
            });
        }
        handed_on
    }

    pub(super) fn grant(
        &mut self,
        step: &mut Step<'_>,
        acquire: &Acquire,
        coordinator: &CoordinatorId,
        fresh: bool,
    ) -> FencingToken {
        let token = self.mint(step);
        let confirmed = *coordinator == step.caller.coordinator;
        let lasts = if confirmed {
            acquire.ttl + acquire.lock_delay
        } else {
            CLAIM_TIME
        };
        let hold = Hold {
            owner: acquire.owner,
            session: acquire.session,
            actor: acquire.actor,
            client_name: acquire.client_name.clone(),
            mode: acquire.mode,
            count: 1,
            coordinator: coordinator.clone(),
            token,
            acquired_at: step.now,
            lock_delay: acquire.lock_delay,
            max_hold: acquire.max_hold,
            confirmed,
            fresh,
            value: acquire.value.clone(),
            ends_at: step.now.after(lasts),
        };
        if step.telling.is_some() {
            let seen = step.seen(&hold);
            step.tell(|| Change::Granted(seen));
        }
        self.holders.add(hold);
        token
    }

    pub(super) fn mint(&mut self, step: &Step<'_>) -> FencingToken {
        let last = self.token.map_or(0, |record| record.last.get());
        let floor = step.caller.floor_at(step.now).get();
        let token = FencingToken::new((last + 1).max(step.now.as_micros()).max(floor));
        self.token = Some(TokenRecord {
            last: token,
            forget_at: step.caller.remembers_until(token, step.now),
        });
        token
    }

    /// Extends the time for which the newest token is remembered.
    pub(super) fn remember(&mut self, step: &Step<'_>) {
        if let Some(record) = &mut self.token {
            record.forget_at = step.caller.remembers_until(record.last, step.now);
        }
    }
}
