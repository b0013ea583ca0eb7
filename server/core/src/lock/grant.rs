//! Grants: hand-off to the next waiters, and minting of fencing tokens.

use std::num::NonZeroU32;

use super::{
    LockState, TokenRecord,
    step::{HandedOn, Step},
};
use crate::{
    command::{Acquire, CLAIM_TIME, GRANTS_AT_ONCE, Handed},
    hold::Hold,
    id::{CoordinatorId, FencingToken, Predecessors},
    mode::{Limit, Mode, Taken},
    planted::{Fault, is_planted},
    queue::Waiter,
    watch::Change,
};

impl LockState {
    /// Grants the lock to the next living waiters, one after the other, as long as the next one fits. A grant to another
    /// coordinator's waiter lasts only for the claim time, until that coordinator confirms it.
    ///
    /// A waiter that needs more permits than the limit in force leaves the queue when it is the next, so that it blocks nobody: its
    /// coordinator's next refresh says so, the coordinator asks again, and is refused.
    pub(super) fn hand_on(&mut self, step: &mut Step<'_>) -> HandedOn {
        let mut handed_on = HandedOn::default();
        let mut dropped = 0;
        while let Some(next) = self.queue.next(step.now) {
            let limit = self.limit();
            let needed = next.acquire.mode.permits_needed();
            let fits_never = limit.is_some_and(|limit| needed > limit.number);
            let fits = fits_never || self.holders.taken().fits(next.acquire.mode);
            if !fits || matches!(self.holders.taken(), Taken::All) {
                break;
            }
            if handed_on.to.len() + dropped == GRANTS_AT_ONCE {
                handed_on.more = true;
                break;
            }
            if fits_never {
                dropped += 1;
                let owner = next.acquire.owner;
                if let Some(waiter) = self.queue.force_out(&owner) {
                    step.tell(|| Change::Withdrawn(Box::new(waiter.view())));
                }
                continue;
            }
            let Waiter {
                acquire,
                coordinator,
                predecessors,
                ..
            } = next.clone();
            self.queue.leave(&acquire.owner);
            let (token, permits) =
                self.grant(step, &acquire, &coordinator, limit, Some(predecessors));
            handed_on.to.push(Handed {
                owner: acquire.owner,
                token,
                permits: permits.and_then(NonZeroU32::new),
                coordinator,
                of_session: acquire.session.is_some(),
            });
        }
        handed_on
    }

    /// Grants the lock to an acquire that fits, or to a waiter with these predecessors. `limit` is the one in force, if it takes
    /// permits. Returns the token, and the number of permits if the acquire left it to the store.
    pub(super) fn grant(
        &mut self,
        step: &mut Step<'_>,
        acquire: &Acquire,
        coordinator: &CoordinatorId,
        limit: Option<Limit>,
        waiter: Option<Predecessors>,
    ) -> (FencingToken, Option<u32>) {
        let token = self.mint(step);
        let mode = match (acquire.mode, limit) {
            (Mode::Semaphore(permits), Some(limit)) => {
                Mode::Semaphore(permits.granted(limit, self.holders.permits_taken()))
            }
            (mode, _) => mode,
        };
        let confirmed = *coordinator == step.caller.coordinator;
        let lasts = if confirmed {
            acquire.ttl + acquire.lock_delay
        } else {
            CLAIM_TIME
        };
        let hold = Hold {
            owner: acquire.owner,
            session: acquire.session,
            fresh: waiter.is_some(),
            predecessors: waiter.unwrap_or_default(),
            actor: acquire.actor,
            client_name: acquire.client_name.clone(),
            mode,
            count: 1,
            coordinator: coordinator.clone(),
            token,
            acquired_at: step.now,
            lock_delay: acquire.lock_delay,
            max_hold: acquire.max_hold,
            confirmed,
            value: acquire.value.clone(),
            ends_at: step.now.after(lasts),
        };
        if step.telling.is_some() {
            let seen = step.seen(&hold);
            step.tell(|| Change::Granted(seen));
        }
        self.holders.add(hold);
        (token, mode.permits_left_to_store())
    }

    pub(super) fn mint(&mut self, step: &Step<'_>) -> FencingToken {
        let last = self.token.map_or(0, |record| record.last.get());
        let floor = match is_planted(Fault::FloorIgnored) {
            true => 0,
            false => step.caller.floor_at(step.now).get(),
        };
        let next = (last + 1).max(step.now.as_micros()).max(floor);
        let stays = is_planted(Fault::TokenStays) && last > 0;
        let token = FencingToken::new(if stays { last } else { next });
        self.token = Some(TokenRecord {
            last: token,
            forget_at: step.caller.remembers_until(token, step.now),
        });
        token
    }

    /// Extends the time for which the newest token is remembered, and the limit of the permits that are held.
    pub(super) fn remember(&mut self, step: &Step<'_>) {
        if let Some(record) = &mut self.token {
            record.forget_at = step.caller.remembers_until(record.last, step.now);
        }
        if let Some(record) = &mut self.remembered
            && self.holders.limit().is_some_and(|limit| limit.revision > 0)
        {
            record.forget_at = step.now.after(step.caller.token_memory);
        }
    }
}
