//! Commands on existing holds: renew, release, force-release, request to release, value, count, downgrade, reduce; and the
//! refresh.

use std::time::Duration;

use super::{
    LockState,
    step::{HandedOn, Step, alone, over},
};
use crate::{
    command::{CURRENT_AT_ONCE, Current, End, HoldAt, Loss, One, OwnerAt, Reply},
    hold::Hold,
    id::{FencingToken, OwnerId, WaiterNumber},
    mode::Mode,
    name::Value,
    planted::{Fault, is_planted},
    replaced::Void,
    watch::Change,
};

/// Watchers are not told of a renewal that makes a hold end earlier by no more than this: they learn of its end so much later.
const UNNOTICED: Duration = Duration::from_millis(100);

impl LockState {
    pub(super) fn renew(
        &mut self,
        step: &mut Step<'_>,
        owner: &OwnerId,
        token: Option<FencingToken>,
        ttl: Duration,
    ) -> Reply {
        let found = self.holders.get(owner).map(|hold| hold.token);
        if let Some(found) = found {
            self.remember(step);
            if token.is_some_and(|token| token != found) {
                let loss = Loss::Taken;
                step.tell(|| Change::Lost { hold: None, loss });
                return Reply::Lost(loss);
            }
        }
        if let Some(lost) = self.run_out(step, owner) {
            return lost;
        }
        let Some(hold) = self.holders.get_mut(owner) else {
            if self.replaced.contains(owner) {
                return Reply::Lost(Loss::Resumed);
            }
            let loss = self.gone();
            step.tell(|| Change::Lost { hold: None, loss });
            return Reply::Lost(loss);
        };
        hold.confirmed = true;
        hold.fresh = false;
        hold.coordinator = step.caller.coordinator.clone();
        let ends_at = step.now.after(ttl + hold.lock_delay);
        let is_shorter = ends_at.after(UNNOTICED) < hold.ends_at;
        self.holders.extend(owner, ends_at);
        if is_shorter
            && step.telling.is_some()
            && let Some(hold) = self.holders.get(owner)
        {
            let seen = step.seen(hold);
            step.tell(|| Change::Shortened(seen));
        }
        Reply::Renewed
    }

    /// Answers a command on a hold of which only the lock-delay is left, which loses its value and client name.
    pub(super) fn run_out(&mut self, step: &mut Step<'_>, owner: &OwnerId) -> Option<Reply> {
        let hold = self.holders.get_mut(owner)?;
        if step.now.until(hold.ends_at) > hold.delay() {
            return None;
        }
        let (hold, loss) = (Some(over(hold)), Loss::Expired);
        if let Some(hold) = self.holders.get_mut(owner) {
            hold.anonymize();
        }
        step.tell(|| Change::Lost { hold, loss });
        Some(Reply::Lost(loss))
    }

    /// Returns why a missing hold is lost.
    pub(super) fn gone(&self) -> Loss {
        if self.holders.is_empty() {
            Loss::Deleted
        } else {
            Loss::Taken
        }
    }

    pub(super) fn release(
        &mut self,
        step: &mut Step<'_>,
        owner: &OwnerId,
        end: End,
    ) -> (Reply, HandedOn) {
        let owner = &self.planted_owner(*owner);
        let waiter = self.queue.remove(owner);
        let waited = waiter.is_some();
        if let Some(waiter) = waiter {
            step.tell(|| Change::Withdrawn(Box::new(waiter.view())));
        }
        let hold = self.holders.remove(owner);
        let held = hold.is_some();
        let closes = |hold: &Hold| {
            let is_unclean = end == End::Unclean && !is_planted(Fault::LockDelayIgnored);
            is_unclean && !hold.delay().is_zero()
        };
        if let Some(hold) = &hold
            && !is_planted(Fault::WatcherMissesEnd)
        {
            step.tell(|| Change::Released {
                hold: Some(over(hold)),
                closed_for: closes(hold).then(|| hold.delay()),
            });
        }
        let closing = hold.filter(closes);
        if let Some(hold) = &closing {
            self.holders.close(hold, step.now.after(hold.delay()));
        }
        // A waiter that leaves the queue may have blocked those behind it.
        let handed_on = if closing.is_none() && (held || waited) {
            self.hand_on(step)
        } else {
            HandedOn::default()
        };
        let reply = Reply::Released {
            held,
            waited,
            closed_for: closing.map(|hold| hold.delay()),
        };
        (reply, handed_on)
    }

    /// Returns the owner id whose hold a release ends: its own, unless a fault is planted.
    fn planted_owner(&self, owner: OwnerId) -> OwnerId {
        let is_wrong = is_planted(Fault::ReleaseByAnyone)
            || is_planted(Fault::ResumeKeepsOwner) && self.replaced.contains(&owner);
        let hold = self.holders.exclusive().filter(|_| is_wrong);
        hold.map_or(owner, |hold| hold.owner)
    }

    pub(super) fn refresh(
        &mut self,
        step: &mut Step<'_>,
        oldest: Option<&OwnerId>,
    ) -> (Reply, HandedOn) {
        let here = &step.caller.coordinator;
        let has_lost = self.queue.refresh(here, step.now);
        let handed_on = self.hand_on(step);
        let here = &step.caller.coordinator;
        let is_alone = self.holders.exclusive().is_some();
        let mut current: Vec<Current> = self
            .holders
            .iter()
            .filter(|hold| hold.coordinator == *here && (is_alone || hold.fresh))
            .map(|hold| Current {
                owner: hold.owner,
                token: hold.token,
                permits: hold.mode.permits_left_to_store(),
                of_session: hold.session.is_some(),
            })
            .collect();
        current.sort_unstable_by_key(|current| current.token);
        current.truncate(CURRENT_AT_ONCE);
        let reply = Reply::Refreshed {
            current,
            expires_in: self.expires_in(step.now),
            attached: !has_lost
                && oldest.is_none_or(|oldest| {
                    self.queue.contains(oldest) || self.holders.get(oldest).is_some()
                }),
        };
        (reply, handed_on)
    }

    pub(super) fn force_release(&mut self, step: &mut Step<'_>) -> (Reply, HandedOn) {
        let released = !self.holders.is_empty();
        let holders = std::mem::take(&mut self.holders);
        self.forget_revision();
        let mut holds: Vec<&Hold> = holders.iter().collect();
        holds.sort_unstable_by_key(|hold| hold.token);
        for hold in &holds {
            step.tell(|| Change::Forced(Some(over(hold))));
        }
        // It was closed, and is free now.
        if released && holds.is_empty() {
            step.tell(|| Change::Forced(None));
        }
        let former = owners(&holds);
        if released {
            self.mint(step);
        }
        self.forced(step, former, released)
    }

    /// Takes one hold away, or removes one waiter, and hands the lock on.
    pub(super) fn force_release_one(&mut self, step: &mut Step<'_>, one: One) -> (Reply, HandedOn) {
        let former = match one {
            One::Holder(token) => self.force_holder(step, token),
            One::Waiter(number) => self.force_waiter(step, number),
        };
        let released = former.is_some();
        self.forced(step, former.into_iter().collect(), released)
    }

    fn force_holder(&mut self, step: &mut Step<'_>, token: FencingToken) -> Option<OwnerAt> {
        let owner = self.holders.iter().find(|hold| hold.token == token)?.owner;
        let hold = self.holders.remove(&owner)?;
        step.tell(|| Change::ForcedHolder(over(&hold)));
        // Above that hold's own token only, so that the newest of several holders is not outdated by the end of another.
        if self.token.is_none_or(|record| record.last <= token) {
            self.mint(step);
        }
        Some(OwnerAt {
            owner,
            coordinator: hold.coordinator,
        })
    }

    fn force_waiter(&mut self, step: &mut Step<'_>, number: WaiterNumber) -> Option<OwnerAt> {
        let owner = self.queue.numbered(number)?.acquire.owner;
        let waiter = self.queue.force_out(&owner)?;
        step.tell(|| Change::ForcedWaiter(Box::new(waiter.view())));
        // Its coordinator may have it join again before it has heard of this.
        let until = step.now.after(step.caller.token_memory);
        self.replaced.insert(owner, Void::Forced, until);
        Some(OwnerAt {
            owner,
            coordinator: waiter.coordinator,
        })
    }

    fn forced(
        &mut self,
        step: &mut Step<'_>,
        former: Vec<OwnerAt>,
        released: bool,
    ) -> (Reply, HandedOn) {
        let handed_on = self.hand_on(step);
        let token = self.token.map(|record| record.last).unwrap_or_default();
        let reply = Reply::Forced {
            former,
            released,
            token,
        };
        (reply, handed_on)
    }

    /// Returns the holders that are asked to release it: those on sessions, or only the one with this token.
    pub(super) fn request_release(
        &mut self,
        step: &mut Step<'_>,
        only: Option<FencingToken>,
    ) -> Reply {
        let is_meant =
            |hold: &&Hold| hold.session.is_some() && only.is_none_or(|token| hold.token == token);
        let mut asked: Vec<&Hold> = self.holders.iter().filter(is_meant).collect();
        asked.sort_unstable_by_key(|hold| hold.token);
        for hold in &asked {
            if step.telling.is_some() {
                let seen = step.seen(hold);
                step.tell(|| Change::ReleaseRequested(seen));
            }
        }
        let each = asked.iter().map(|hold| HoldAt {
            holder: holder(hold),
            token: hold.token,
        });
        let mut holders: Vec<HoldAt> = each.collect();
        holders.sort_unstable_by_key(|hold| hold.holder.owner);
        Reply::Asked { holders }
    }

    pub(super) fn set_value(
        &mut self,
        step: &mut Step<'_>,
        owner: &OwnerId,
        value: &Value,
    ) -> Reply {
        let Some(hold) = self.holders.get_mut(owner) else {
            return Reply::Changed(false);
        };
        hold.value = value.clone();
        let seen = step.telling.is_some().then(|| step.seen(hold));
        if let Some(seen) = seen {
            step.tell(|| Change::ValueChanged(seen));
        }
        Reply::Changed(true)
    }

    pub(super) fn set_count(&mut self, owner: &OwnerId, count: u32) -> Reply {
        let hold = self.holders.get_mut(owner);
        let is_held = hold.is_some();
        if let Some(hold) = hold {
            hold.count = count;
        }
        Reply::Changed(is_held)
    }

    pub(super) fn downgrade(&mut self, step: &mut Step<'_>, owner: &OwnerId) -> (Reply, HandedOn) {
        let mode = self.holders.get(owner).map(|hold| hold.mode);
        if mode != Some(Mode::Exclusive) {
            return alone(Reply::Changed(mode == Some(Mode::Shared)));
        }
        if let Some(hold) = self.holders.remove(owner) {
            let hold = Hold {
                mode: Mode::Shared,
                fresh: false,
                ..hold
            };
            if step.telling.is_some() {
                let seen = step.seen(&hold);
                step.tell(|| Change::Downgraded(seen));
            }
            self.holders.add(hold);
        }
        (Reply::Changed(true), self.hand_on(step))
    }

    pub(super) fn reduce(
        &mut self,
        step: &mut Step<'_>,
        owner: &OwnerId,
        permits: u32,
    ) -> (Reply, HandedOn) {
        let Some(by) = self.holders.reduce(owner, permits) else {
            return alone(Reply::Changed(false));
        };
        if by == 0 {
            return alone(Reply::Changed(true));
        }
        if step.telling.is_some()
            && let Some(hold) = self.holders.get(owner)
        {
            let hold = step.seen(hold);
            step.tell(|| Change::Reduced { hold, by });
        }
        (Reply::Changed(true), self.hand_on(step))
    }
}

fn holder(hold: &Hold) -> OwnerAt {
    OwnerAt {
        owner: hold.owner,
        coordinator: hold.coordinator.clone(),
    }
}

/// Returns the holders, sorted by owner id.
fn owners(holds: &[&Hold]) -> Vec<OwnerAt> {
    let mut owners: Vec<OwnerAt> = holds.iter().copied().map(holder).collect();
    owners.sort_unstable_by_key(|holder| holder.owner);
    owners
}
