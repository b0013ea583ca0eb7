//! Holds of a session, and what may be promised of them: the lease, the holds, those that were revoked, and their renewal.

use std::time::Duration;

use super::{
    RequestId,
    confirmation::DeadlineConfirmation,
    effects::{Claim, Effects, Grant, Purpose},
    holds::{Hold, Holds},
    output::{Effect, Interest, LostLock, LostWhy, Note, Refused, Response},
    renewal::{PendingAck, Renewal, Renewed},
    revoked::Revoked,
};
use crate::{
    command::{End, Loss, One, Op, Reply, Stamped},
    failure::StoreError,
    id::{Actor, OwnerId},
    lease::Lease,
    mode::Mode,
    name::{LockName, Value},
    planted::{Fault, is_planted},
    time::Moment,
};

/// Holds and promises of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tenure {
    lease: Lease,
    silence: DeadlineConfirmation,
    holds: Holds,
    revoked: Revoked,
    renewal: Renewal,
    /// Whether replicas have to acknowledge renewals, which may take a while.
    needs_replicas: bool,
}

impl Tenure {
    pub(super) fn new(lease: Lease, needs_replicas: bool) -> Self {
        Self {
            lease,
            silence: DeadlineConfirmation::default(),
            holds: Holds::default(),
            revoked: Revoked::default(),
            renewal: Renewal::default(),
            needs_replicas,
        }
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(super) fn holds(&self) -> &Holds {
        &self.holds
    }

    pub(super) fn holds_mut(&mut self) -> &mut Holds {
        &mut self.holds
    }

    pub(super) fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Returns each hold, those that were revoked too, by its owner id.
    pub(super) fn held(&self) -> impl Iterator<Item = (&OwnerId, &LockName)> {
        let holds = self.holds.iter().map(|(owner, hold)| (owner, hold.name()));
        holds.chain(self.revoked.iter())
    }

    /// Returns whether this owner id is that of a hold, or of a revoked one.
    pub(super) fn has(&self, owner: &OwnerId) -> bool {
        self.holds.get(owner).is_some() || self.revoked.has(owner)
    }

    /// Returns whether this owner id is that of a hold, or of a revoked one, of this name; an error if it is of another name.
    pub(super) fn owns(&self, owner: &OwnerId, name: &LockName) -> Result<bool, Refused> {
        match self.holds.get(owner) {
            Some(hold) if hold.name() != name => Err(Refused::NotItsName),
            Some(_) => Ok(true),
            None => Ok(self.revoked.contains(owner, name)),
        }
    }

    /// Returns for how long from the last heartbeat the client may believe in what stands until then, and notes the promise.
    pub(super) fn promise(&mut self, standing: Option<Moment>) -> Option<Duration> {
        self.lease.promise(self.lease.heard_at(), standing)
    }

    /// Takes a hold in.
    pub(super) fn hold(
        &mut self,
        grant: Grant,
        (actor, count): (Actor, u32),
        effects: &mut Effects,
    ) {
        effects.register(grant.claim.owner, Interest::Held);
        self.holds.insert(Hold::new(grant, actor, count));
    }

    fn unhold(&mut self, owner: &OwnerId, effects: &mut Effects) -> Option<Hold> {
        let hold = self.holds.remove(owner)?;
        if self.holds.is_empty() {
            effects.note(Note::NothingToRenew);
        }
        Some(hold)
    }

    /// Holds a hold once less, and gives it back if that was the last time. Returns how many times are left.
    pub(super) fn count_down(
        &mut self,
        owner: &OwnerId,
        now: Moment,
        effects: &mut Effects,
    ) -> u32 {
        let (left, gone) = self.holds.count_down(owner, effects);
        if let Some(claim) = gone {
            if self.holds.is_empty() {
                effects.note(Note::NothingToRenew);
            }
            effects.clean_up(claim, End::Clean, None, now);
        }
        left
    }

    /// Releases a hold for the client, which may have lost it (`expired`).
    pub(super) fn release(
        &mut self,
        request: RequestId,
        (name, owner, expired): (LockName, OwnerId, bool),
        now: Moment,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        self.owns(&owner, &name)?;
        let held = self.holds.get(&owner).map(Hold::count);
        let is_revoked = held.is_none() && self.revoked.contains(&owner, &name);
        // Each time that it is held is given back, and one loss is counted. At its bound it ends a little early at its client.
        let ends = self
            .holds
            .get(&owner)
            .is_some_and(|hold| hold.grant.is_ending(now));
        if expired && held.is_none_or(|count| count <= 1) && !is_revoked && !ends {
            effects.note(Note::Expired(name.clone(), owner));
        }
        let left = match held {
            Some(count) if count > 1 => Some(self.count_down(&owner, now, effects)),
            Some(_) => None,
            // The client has not heard that it was revoked: whoever else of it holds it there still counts on it.
            None if is_revoked => self.revoked.count_down(&owner),
            None => None,
        };
        if let Some(hold_count) = left {
            let response = Response::Released {
                released: true,
                hold_count,
            };
            effects.send(request, response);
            return Ok(());
        }
        // Given back from here on, whatever becomes of what follows.
        let hold = self.unhold(&owner, effects).map(|hold| hold.grant.claim);
        let claim = hold.or_else(|| {
            let revoked = is_revoked.then(|| self.revoked.remove(&owner));
            revoked.flatten()
        });
        if effects.is_busy() {
            let Some(claim) = claim else {
                return Err(Refused::TooManyRequests(Effect::NotReleased));
            };
            effects.clean_up(claim, End::Clean, None, now);
            return Err(Refused::TooManyRequests(Effect::ReleasedInBackground));
        }
        let end = effects.end_of(claim.as_ref());
        let op = Op::Release { owner, end };
        effects.store(Purpose::Release(request, claim), name, op);
        Ok(())
    }

    /// Changes the value of a hold for the client.
    pub(super) fn set_value(
        &mut self,
        request: RequestId,
        (name, owner, value): (LockName, OwnerId, Value),
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        if self.is_over(&owner, &name)? {
            effects.send(request, Response::ValueSet(false));
            return Ok(());
        }
        if effects.is_busy() {
            return Err(Refused::TooManyRequests(Effect::ValueNotChanged));
        }
        if !self.holds.set_value(&owner) {
            effects.note_values();
        }
        let op = Op::SetValue { owner, value };
        effects.store(Purpose::SetValue(request, owner), name, op);
        Ok(())
    }

    /// Makes an exclusive hold a shared one for the client.
    pub(super) fn downgrade(
        &mut self,
        request: RequestId,
        (name, owner): (LockName, OwnerId),
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        if self.is_over(&owner, &name)? {
            effects.send(request, Response::Downgraded(false));
            return Ok(());
        }
        let held = self.holds.get(&owner);
        if held.is_some_and(|hold| hold.mode().limit().is_some()) {
            return Err(Refused::NotExclusive(name));
        }
        if effects.is_busy() {
            return Err(Refused::TooManyRequests(Effect::NotDowngraded));
        }
        // From here on, whatever becomes of it: nothing may count on its being exclusive.
        self.holds.downgrade(&owner);
        effects.store(
            Purpose::Downgrade(request, owner),
            name,
            Op::Downgrade { owner },
        );
        Ok(())
    }

    /// Gives some of a hold's permits back for the client.
    pub(super) fn reduce(
        &mut self,
        request: RequestId,
        (name, owner, permits): (LockName, OwnerId, u32),
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        if self.is_over(&owner, &name)? {
            effects.send(request, Response::Reduced(false));
            return Ok(());
        }
        // Another session's hold would count on the former number.
        let Some(hold) = self.holds.get(&owner) else {
            effects.send(request, Response::Reduced(false));
            return Ok(());
        };
        if hold.mode().limit().is_none() {
            return Err(Refused::NotASemaphore(name));
        }
        if effects.is_busy() {
            return Err(Refused::TooManyRequests(Effect::NotReduced));
        }
        // From here on, whatever becomes of it: nothing may count on the former number.
        self.holds.reduce(&owner, permits);
        let op = Op::Reduce { owner, permits };
        effects.store(Purpose::Reduce(request, owner), name, op);
        Ok(())
    }

    /// Returns whether a hold was taken away because of its bound. Refuses to change one for which the client has no permission
    /// any more, also once it has the permission again: it was told of the loss.
    fn is_over(&self, owner: &OwnerId, name: &LockName) -> Result<bool, Refused> {
        self.owns(owner, name)?;
        match self.revoked.why(owner, name) {
            Some(LostWhy::Revoked) => Err(Refused::PermissionDenied(name.clone())),
            why => Ok(why.is_some()),
        }
    }

    /// Notes that the client asks for something.
    pub(super) fn wake(&mut self, now: Moment) {
        self.lease.wake(now);
    }

    /// Takes a heartbeat in, from a client that waits for something or not.
    pub(super) fn heartbeat(
        &mut self,
        request: RequestId,
        sequence: u64,
        waits: bool,
        now: Moment,
        effects: &mut Effects,
    ) -> Result<(), Refused> {
        if !self.lease.heartbeat(sequence, now) {
            let last = self.lease.sequence();
            return Err(Refused::HeartbeatOutOfOrder { last });
        }
        self.silence.kept();
        self.renewal.heard(PendingAck {
            request,
            sequence,
            heard_at: now,
        });
        // Due when a sixth of the TTL has passed, so that a heartbeat every third always renews.
        let due_at = now.after(self.lease.ttl() - self.lease.ttl() / 6);
        let standing = self.holds.standing();
        if standing.is_none_or(|standing| due_at <= standing) {
            let has_any = waits || !self.holds.is_empty() || self.has_revoked();
            let rest = if has_any { None } else { self.lease.rest() };
            self.acknowledge(rest, effects);
            return Ok(());
        }
        self.renew(effects);
        if self.needs_replicas {
            // A replica that is dead must not hold up the answer: what they have not acknowledged yet is told when they have.
            self.renewal.answer_early();
            self.acknowledge(None, effects);
        }
        Ok(())
    }

    /// Answers the heartbeats that wait, with what may be promised now, and for how long the client may rest.
    fn acknowledge(&mut self, rest: Option<Duration>, effects: &mut Effects) {
        let standing = self.holds.standing();
        for ack in self.renewal.take_acks() {
            // Where nothing is left to promise, the loss that follows says so.
            if let Some(valid_for) = self.lease.promise(ack.heard_at, standing) {
                let acked_heartbeat = ack.sequence;
                effects.send(
                    ack.request,
                    Response::Heartbeat {
                        acked_heartbeat,
                        valid_for,
                        rest,
                    },
                );
            }
        }
    }

    /// Renews everything that is held, unless that is under way.
    pub(super) fn renew(&mut self, effects: &mut Effects) {
        if self.renewal.is_running() || self.holds.is_empty() {
            return;
        }
        effects.note(Note::RenewalSent(self.holds.len()));
        self.extend(None, effects);
    }

    /// Renews everything that is held from now on, to find out what is gone: if a renewal is under way, once more after it.
    pub(super) fn renew_again(&mut self, effects: &mut Effects) {
        if !self.renewal.ask_again() {
            self.renew(effects);
        }
    }

    /// Has everything that is held end when this time is over, but for its lock-delay. Nothing may be under way.
    pub(super) fn shorten(&mut self, ttl: Duration, effects: &mut Effects) {
        if !self.holds.is_empty() {
            self.extend(Some(ttl), effects);
        }
    }

    fn extend(&mut self, shortened: Option<Duration>, effects: &mut Effects) {
        self.renewal.begin(self.holds.len());
        for (owner, hold) in self.holds.iter() {
            let owner = *owner;
            let (purpose, ttl) = match shortened {
                None => (Purpose::Renew(owner), hold.grant.claim.ttl),
                Some(ttl) => (Purpose::Shorten(owner), ttl),
            };
            let token = Some(hold.grant.token);
            let op = Op::Renew { owner, token, ttl };
            effects.store(purpose, hold.name().clone(), op);
        }
    }

    /// Returns whether a renewal is under way.
    pub(super) fn is_renewing(&self) -> bool {
        self.renewal.is_running()
    }

    /// Takes in the reply to the renewal of a hold. Returns whether it was the last, and everything is to be renewed again.
    pub(super) fn on_renewed(
        &mut self,
        owner: OwnerId,
        result: Result<Stamped, StoreError>,
        now: Moment,
        effects: &mut Effects,
    ) -> bool {
        let renewed = match result {
            // One that was released or taken meanwhile is no longer the session's to speak of.
            _ if self.holds.get(&owner).is_none() => Renewed::Gone,
            Ok(stamped) => match stamped.executed.reply {
                Reply::Lost(loss) => Renewed::Lost(owner, loss),
                _ => {
                    let from = match is_planted(Fault::RenewalFromReply) {
                        true => now,
                        false => stamped.sent_at,
                    };
                    self.holds.renewed(&owner, from, effects);
                    if !self.renewal.is_again() {
                        self.holds.not_forced(&owner);
                    }
                    Renewed::Yes
                }
            },
            // What somebody did to this lock's key says nothing of how well this coordinator serves.
            Err(error) => Renewed::Failed {
                for_its_key: matches!(error, StoreError::WrongType { .. }),
            },
        };
        let Some(batch) = self.renewal.answered(renewed) else {
            return false;
        };
        effects.note(Note::RenewalEnded {
            renewed: batch.renewed,
            lost: batch.lost.len(),
            failed: batch.failed,
            is_late: batch.is_late,
        });
        self.lose(batch.lost, now, effects);
        self.renewal.ended(batch.failed > 0, now);
        self.acknowledge(None, effects);
        self.renewal.is_again()
    }

    /// Takes in the reply to a hold's shortening. Returns whether it was the last and some of them failed.
    pub(super) fn on_shortened(
        &mut self,
        owner: OwnerId,
        result: Result<Stamped, StoreError>,
        now: Moment,
        effects: &mut Effects,
    ) -> bool {
        let renewed = match result.map(|stamped| stamped.executed.reply) {
            Ok(Reply::Lost(loss)) => Renewed::Lost(owner, loss),
            Ok(_) => Renewed::Yes,
            Err(_) => Renewed::Failed { for_its_key: false },
        };
        let Some(batch) = self.renewal.answered(renewed) else {
            return false;
        };
        effects.note(Note::NotShortened(batch.failed));
        self.lose(batch.lost, now, effects);
        batch.failed > 0
    }

    /// Takes in a message that an operator took a hold. It may be late, and of an earlier hold of the same owner id: a waiter that
    /// has not heard of its grant joins again once that was taken. Returns whether a renewal is to find out.
    pub(super) fn on_forced(&mut self, owner: OwnerId, effects: &mut Effects) -> bool {
        // Nothing renews a revoked hold, so that it ends by itself.
        if self.revoked.remove(&owner).is_some() {
            effects.register(owner, Interest::Forgotten);
        }
        self.holds.forced(&owner)
    }

    /// Takes in that an owner id was taken from the session.
    pub(super) fn on_lost(
        &mut self,
        owner: OwnerId,
        loss: Loss,
        now: Moment,
        effects: &mut Effects,
    ) {
        if self.holds.get(&owner).is_some() {
            self.lose(vec![(owner, loss)], now, effects);
        } else if self.revoked.remove(&owner).is_some() {
            effects.register(owner, Interest::Forgotten);
        }
    }

    /// Removes holds that are gone in the store, and tells the client. A hold that another stream resumed lives on there and
    /// counts as no loss, but this stream's client is told too: it may not be the one that resumed it.
    fn lose(&mut self, lost: Vec<(OwnerId, Loss)>, now: Moment, effects: &mut Effects) {
        let mut locks = Vec::with_capacity(lost.len());
        for (owner, loss) in lost {
            let is_forced = self.holds.get(&owner).is_some_and(|hold| hold.is_forced);
            let loss = match loss {
                Loss::Deleted | Loss::Taken if is_forced => Loss::Forced,
                loss => loss,
            };
            let why = LostWhy::Store(loss);
            if is_planted(Fault::RenewalAfterLoss)
                && let Some(hold) = self.holds.get(&owner)
            {
                let name = hold.name().clone();
                locks.push(LostLock { name, owner, why });
                continue;
            }
            let Some(hold) = self.unhold(&owner, effects) else {
                continue;
            };
            let name = hold.name().clone();
            effects.note(Note::Lost(name.clone(), owner, why));
            locks.push(LostLock { name, owner, why });
            match loss {
                // Nobody could say what is in the store now. If it was taken, then perhaps by a later grant of the same owner id.
                Loss::Expired => effects.clean_up_expired(hold.grant.claim, now),
                Loss::Taken => effects.clean_up(hold.grant.claim, End::Unclean, None, now),
                // An acquire that was sent again may have been granted under the same owner id since.
                Loss::Forced => effects.clean_up(hold.grant.claim, End::Clean, None, now),
                _ => effects.register(owner, Interest::Forgotten),
            }
        }
        if !locks.is_empty() {
            effects.send(0, Response::Lost(locks));
        }
    }

    /// Takes away the holds for which the client has no permission any more. They end at once if `is_detached`: the stream has
    /// ended, and the client acts on none of them.
    pub(super) fn revise(
        &mut self,
        is_permitted: &dyn Fn(&LockName, Mode) -> bool,
        is_detached: bool,
        now: Moment,
        effects: &mut Effects,
    ) {
        let holds = self.holds.iter();
        let denied = holds.filter(|(_, hold)| !is_permitted(hold.name(), hold.mode()));
        let denied: Vec<OwnerId> = denied.map(|(owner, _)| *owner).collect();
        let stays = |_: &Hold| !is_detached;
        self.take_away(denied, LostWhy::Revoked, stays, now, effects);
    }

    /// Takes away the holds that have reached their bounds. A client that asked for its bound has known the end from the start,
    /// and believes in the hold no longer; nor does one whose stream has ended (`is_detached`).
    pub(super) fn end_bounded(&mut self, is_detached: bool, now: Moment, effects: &mut Effects) {
        let over = self.holds.over(now);
        let is_known = |hold: &Hold| hold.grant.bound.is_some_and(|bound| bound.is_known);
        let stays = |hold: &Hold| !is_detached && !is_known(hold);
        self.take_away(over, LostWhy::MaxHold, stays, now, effects);
    }

    /// Takes holds away, and tells the client. Those that `stays` names, in which the client may believe until it hears of
    /// this, stay in the store until every promise has passed; the others end at once.
    fn take_away(
        &mut self,
        owners: Vec<OwnerId>,
        why: LostWhy,
        stays: impl Fn(&Hold) -> bool,
        now: Moment,
        effects: &mut Effects,
    ) {
        let until = self.lease.promised_until();
        let mut locks = Vec::with_capacity(owners.len());
        for owner in owners {
            let Some(hold) = self.unhold(&owner, effects) else {
                continue;
            };
            let name = hold.name().clone();
            effects.note(Note::Lost(name.clone(), owner, why));
            locks.push(LostLock { name, owner, why });
            if stays(&hold) {
                let count = hold.count();
                self.revoked.insert(hold.grant.claim, why, count, until);
            } else {
                effects.clean_up(hold.grant.claim, End::Unclean, None, now);
            }
        }
        if !locks.is_empty() {
            effects.send(0, Response::Lost(locks));
        }
    }

    /// Returns when a hold may reach its bound.
    pub(super) fn bound(&self) -> Option<Moment> {
        self.holds.bound()
    }

    /// Returns when there is something to do.
    pub(super) fn due(&self) -> Moment {
        let silent_at = self.silence.due(self.lease.silent_at());
        [
            self.holds.expiry(),
            self.holds.bound(),
            self.revoked.due(),
            self.renewal.retry_at(),
        ]
        .into_iter()
        .flatten()
        .fold(silent_at, Moment::min)
    }

    /// Does what is due. Returns whether the client fell silent.
    pub(super) fn on_time(
        &mut self,
        is_store_up: bool,
        now: Moment,
        effects: &mut Effects,
    ) -> bool {
        if self.silence.is_missed(self.lease.silent_at(), now) {
            return true;
        }
        for claim in self.revoked.take_due(now) {
            effects.clean_up(claim, End::Unclean, None, now);
        }
        self.end_bounded(false, now, effects);
        let expired = self.holds.expired(now).into_iter();
        let expired = expired.map(|owner| (owner, Loss::Expired)).collect();
        self.lose(expired, now, effects);
        // Out of reach, it is tried as soon as that changes.
        if self.renewal.take_retry(now) && is_store_up {
            self.renew(effects);
        }
        false
    }

    /// Forgets the heartbeats that wait to be answered.
    pub(super) fn forget_heartbeats(&mut self) {
        self.renewal.forget_acks();
    }

    /// Removes the holds.
    pub(super) fn take_holds(&mut self) -> impl Iterator<Item = Claim> + use<> {
        self.holds.take_all().map(|hold| hold.grant.claim)
    }

    /// Removes all holds, and ends them in the store by force. Tells the client, if it has a stream.
    pub(super) fn force_all(&mut self, tells: bool, effects: &mut Effects) {
        let mut locks = Vec::new();
        for hold in self.holds.take_all() {
            let Grant { claim, token, .. } = hold.grant;
            let why = LostWhy::Store(Loss::Forced);
            let (name, owner) = (claim.name.clone(), claim.owner);
            effects.note(Note::Lost(name.clone(), owner, why));
            let op = Op::ForceReleaseOne(One::Holder(token));
            effects.store(Purpose::CloseRelease(claim), name.clone(), op);
            locks.push(LostLock { name, owner, why });
        }
        if tells && !locks.is_empty() {
            effects.send(0, Response::Lost(locks));
        }
    }

    /// Removes the holds that were revoked.
    pub(super) fn take_revoked(&mut self) -> impl Iterator<Item = Claim> + use<> {
        self.revoked.take_all()
    }
}
