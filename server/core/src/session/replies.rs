//! Answers of the store, and what others do to a session's locks.

use super::{
    CommandFailure, CommandId, Context, Interest, RegistryEvent, RequestId, Response, Session,
    State,
    acquire::unexpected,
    effects::{Claim, Purpose},
    output::Refused,
    renewal::RETRY,
};
use crate::{
    command::{End, Loss, Reply, Stamped},
    failure::StoreError,
    id::OwnerId,
    time::Moment,
};

impl Session {
    pub(super) fn on_registry(
        &mut self,
        owner: OwnerId,
        event: RegistryEvent,
        context: &mut Context<'_>,
    ) {
        match (&mut self.state, event) {
            (State::Resuming(resuming), event) => resuming.on_event(owner, event),
            (_, RegistryEvent::Lost(Loss::Forced)) => {
                if self.tenure.on_forced(owner, &mut self.effects) {
                    self.look_for_losses(context.now);
                }
            }
            (_, RegistryEvent::Lost(loss)) => {
                let effects = &mut self.effects;
                self.tenure.on_lost(owner, loss, context.now, effects);
            }
            (_, event) => {
                let mut step = step!(self, context);
                if let Some(finished) = self.acquires.on_event(&owner, event, &mut step) {
                    self.finish(finished, context);
                }
            }
        }
    }

    pub(super) fn on_reply(
        &mut self,
        id: CommandId,
        result: Result<Stamped, CommandFailure>,
        context: &mut Context<'_>,
    ) {
        let Some(purpose) = self.effects.answered(id) else {
            return;
        };
        let now = context.now;
        match purpose {
            Purpose::Acquire(request) => {
                let mut step = step!(self, context);
                let finished = self.acquires.on_reply(request, id, result, &mut step);
                if let Some(finished) = finished {
                    self.finish(finished, context);
                }
            }
            Purpose::GiveBack(request, claim) => {
                self.on_released(claim, result.is_ok(), now);
                let mut step = step!(self, context);
                if let Some(finished) = self.acquires.on_given_back(request, &mut step) {
                    self.finish(finished, context);
                }
            }
            Purpose::RenewTaken(request, owner) => {
                let mut step = step!(self, context);
                self.acquires
                    .on_renewed(request, &owner, &result, &mut step);
            }
            Purpose::CloseRelease(claim) => self.on_released(claim, result.is_ok(), now),
            Purpose::Release(request, claim) => {
                if let Some(claim) = claim {
                    self.on_released(claim, result.is_ok(), now);
                }
                self.answer(request, result, |reply| Response::Released {
                    released: matches!(reply, Reply::Released { held: true, .. }),
                    hold_count: 0,
                });
            }
            Purpose::SetValue(request, owner) => {
                self.changed(request, owner, result, Response::ValueSet);
            }
            Purpose::Downgrade(request, owner) => {
                self.changed(request, owner, result, Response::Downgraded);
            }
            Purpose::Reduce(request, owner) => {
                self.changed(request, owner, result, Response::Reduced);
            }
            Purpose::SetCount(owner, count) => {
                let stored = result.is_ok().then_some(count);
                let effects = &mut self.effects;
                self.tenure.holds_mut().counted(&owner, stored, effects);
            }
            Purpose::Renew(owner) => {
                let result = result.map_err(store_error);
                let effects = &mut self.effects;
                let is_again = self.tenure.on_renewed(owner, result, now, effects);
                if is_again && self.is_open() {
                    self.tenure.renew(&mut self.effects);
                }
            }
            Purpose::Shorten(owner) => {
                let result = result.map_err(store_error);
                let effects = &mut self.effects;
                if self.tenure.on_shortened(owner, result, now, effects)
                    && let State::Detached { shorten_at, .. } = &mut self.state
                {
                    *shorten_at = Some(now.after(RETRY));
                }
            }
            Purpose::Resume => {
                let State::Resuming(resuming) = &mut self.state else {
                    return;
                };
                let mut step = step!(self, context);
                let progress = resuming.on_reply(id, result, &mut step);
                self.on_progress(progress, context);
            }
        }
    }

    /// Takes in that a claim was released, or that it has to go on in the background.
    fn on_released(&mut self, claim: Claim, is_released: bool, now: Moment) {
        if is_released {
            self.effects.register(claim.owner, Interest::Forgotten);
        } else {
            self.effects.clean_up(claim, End::Clean, None, now);
        }
    }

    /// Answers a change of a hold. If a hold of the session is gone, its client believes in it no longer: a renewal finds out why it
    /// is gone, so that the session does not go on with it.
    fn changed(
        &mut self,
        request: RequestId,
        owner: OwnerId,
        result: Result<Stamped, CommandFailure>,
        response: impl FnOnce(bool) -> Response,
    ) {
        let reply = result.as_ref().map(|stamped| &stamped.executed.reply);
        let is_gone = reply == Ok(&Reply::Changed(false));
        self.answer(request, result, |reply| {
            response(reply == Reply::Changed(true))
        });
        if is_gone && self.is_open() && self.tenure.holds().get(&owner).is_some() {
            self.tenure.renew_again(&mut self.effects);
        }
    }

    /// Has a renewal find out which holds are gone; without a stream, a shortening.
    fn look_for_losses(&mut self, now: Moment) {
        match &mut self.state {
            State::Open => self.tenure.renew_again(&mut self.effects),
            State::Detached { shorten_at, .. } => *shorten_at = Some(now),
            // It ends by itself, and releases what there is.
            _ => {}
        }
    }

    fn answer(
        &mut self,
        request: RequestId,
        result: Result<Stamped, CommandFailure>,
        response: impl FnOnce(Reply) -> Response,
    ) {
        let response = match result {
            Ok(stamped) => response(stamped.executed.reply),
            Err(failure) => Response::Refused(Refused::Store(store_error(failure))),
        };
        self.effects.send(request, response);
    }
}

fn store_error(failure: CommandFailure) -> StoreError {
    match failure {
        CommandFailure::Store(error) => error,
        CommandFailure::TooManyWaiters => unexpected("a command that does not wait"),
    }
}
