//! Acquire of a unary call, as a state machine without I/O: one acquire without a session around it.
//!
//! Its rules are those of a session's acquire. Nobody renews the hold but the caller, with other calls, and the call may be
//! given up at any point.
//!
//! A caller that may repeat the request gives it a mark ([ADR 29](../../../../docs/adr/0029-a-repeated-request-takes-over.md)).
//! Then an acquire that has to wait, finds the lock busy, or shares it looks for an earlier attempt, and takes over what that
//! one came to.

use std::time::Duration;

use self::search::{Found, Search};
use super::{
    CommandFailure, CommandId, Context, LockSpec, LockSpecs, MaxHold, NotGranted, Output, Refused,
    RegistryEvent, Wait,
    acquire::{Acquire, AcquireOutcome, Step, Terms, Wanted},
    effects::{Effects, Grant},
    output::Interest,
};
use crate::{
    command::{End, Stamped},
    id::{Actor, FencingToken, OwnerId},
    mode::Mode,
    name::{ClientName, LockName, Value},
    time::Moment,
    view::HolderView,
};

mod search;

/// Fields of a unary acquire.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The lock.
    pub name: LockName,
    /// The mode of the hold.
    pub mode: Mode,
    /// The longest wait for it.
    pub wait: Wait,
    /// The caller's name.
    pub client_name: ClientName,
    /// Attached to the hold.
    pub value: Value,
    /// Time for which the hold stands after each renewal.
    pub ttl: Duration,
    /// Time for which the name stays closed after an unclean end.
    pub lock_delay: Duration,
    /// Longest time for which it may be held, on whichever session resumes it.
    pub max_hold: Option<Duration>,
    /// If the caller may repeat the request: the same for all its attempts, and for nothing else.
    pub mark: Option<Actor>,
}

/// Outcome of a unary acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// The lock is held, and the caller's to renew and to release.
    Granted {
        /// The hold.
        owner: OwnerId,
        /// Its token.
        token: FencingToken,
        /// Number of permits that are held of a semaphore; 0 in other modes.
        permits: u32,
        /// When the command was sent that granted it.
        sent_at: Moment,
    },
    /// It was not granted, and perhaps who holds it.
    NotGranted(NotGranted, Option<HolderView>),
    /// It was refused, or failed.
    Refused(Refused),
}

/// The acquire of a unary call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    terms: Terms,
    effects: Effects,
    /// `None` once it has an outcome, or was given up.
    acquire: Option<Acquire>,
    search: Search,
    /// Outcome of the acquire, until the search is over.
    held_back: Option<AcquireOutcome>,
    /// Set if that is the grant of an earlier attempt.
    is_taken_over: bool,
    outcome: Option<CallOutcome>,
}

impl Call {
    /// Returns the acquire, which is to be sent. A command to the store may take `store_timeout`.
    pub fn new(request: CallRequest, store_timeout: Duration, context: &mut Context<'_>) -> Self {
        let CallRequest {
            name,
            mode,
            wait,
            client_name,
            value,
            ttl,
            lock_delay,
            max_hold,
            mark,
        } = request;
        let deadline = wait.deadline(context.now);
        let search = mark.map(|mark| Search::new(name.clone(), mark, deadline));
        let wanted = Wanted {
            actor: mark.unwrap_or(Actor::NOBODY),
            locks: LockSpecs::new(LockSpec { name, mode }, Vec::new()),
            again: Vec::new(),
        };
        let max_hold = max_hold.map(|limit| MaxHold {
            limit,
            is_asked: false,
        });
        let terms = (wait, value, lock_delay, max_hold);
        let mut acquire = Acquire::new(0, wanted, Vec::new(), terms, context.now);
        let mut call = Self {
            terms: Terms {
                session: None,
                client_name,
                ttl,
                tells_tickets: false,
            },
            effects: Effects::new(store_timeout),
            acquire: None,
            search: search.unwrap_or(Search::Over),
            held_back: None,
            is_taken_over: false,
            outcome: None,
        };
        acquire.start(false, &mut step!(call, context));
        call.acquire = Some(acquire);
        call
    }

    /// Returns the next thing to do for it, also after its outcome.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.effects.pop()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) unless something else happens before.
    pub fn next_timeout(&self) -> Option<Moment> {
        let acquire = self.acquire.as_ref().and_then(Acquire::due);
        [acquire, self.search.due()].into_iter().flatten().min()
    }

    /// Returns its outcome, once.
    pub fn take_outcome(&mut self) -> Option<CallOutcome> {
        self.outcome.take()
    }

    /// Takes in the answer to a command.
    pub fn on_reply(
        &mut self,
        id: CommandId,
        result: Result<Stamped, CommandFailure>,
        context: &mut Context<'_>,
    ) {
        if self.effects.answered(id).is_none() {
            return;
        }
        if !self.search.awaits(id) {
            return self.step(context, |acquire, step| acquire.on_reply(id, result, step));
        }
        let own = match (&self.acquire, &self.held_back) {
            (Some(acquire), _) => acquire.owner(),
            (None, Some(AcquireOutcome::Granted(grant))) => Some(grant.claim.owner),
            (None, _) => None,
        };
        match self.search.on_reply(own, result, &mut step!(self, context)) {
            Some(Found::Nothing) => {
                if let Some(outcome) = self.held_back.take() {
                    self.settle(outcome);
                }
            }
            Some(Found::Hold(grant)) => self.has(grant, context),
            Some(Found::Place(acquire, early)) => {
                self.give_up_own(context);
                self.acquire = Some(*acquire);
                if let Some(event) = early {
                    self.step(context, |acquire, step| acquire.on_event(event, step));
                }
            }
            Some(Found::Failed(error)) => {
                self.give_up_own(context);
                self.settle(AcquireOutcome::Refused(Refused::Store(error)));
            }
            None => {}
        }
    }

    /// Takes in what happened to an owner id of it.
    pub fn on_event(&mut self, owner: OwnerId, event: RegistryEvent, context: &mut Context<'_>) {
        if let Some(event) = self.search.on_event(owner, event) {
            self.step(context, |acquire, step| acquire.on_event(event, step));
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, context: &mut Context<'_>) {
        self.search.on_time(context.now, &mut self.effects);
        self.step(context, Acquire::on_time);
    }

    /// Gives it up, unless it has an outcome: what it came to ends in the background. What it takes over from an earlier attempt
    /// stays, since the caller may have that one's answer.
    pub fn let_go(&mut self, context: &mut Context<'_>) {
        self.give_up_own(context);
        std::mem::replace(&mut self.search, Search::Over).let_go(&mut self.effects);
    }

    /// Gives up what the acquire of this attempt came to.
    fn give_up_own(&mut self, context: &mut Context<'_>) {
        if let Some(acquire) = self.acquire.take() {
            acquire.let_go(false, &mut step!(self, context));
        }
        if let Some(AcquireOutcome::Granted(grant)) = self.held_back.take()
            && !self.is_taken_over
        {
            self.clean_up(grant, context.now);
        }
    }

    fn clean_up(&mut self, grant: Grant, now: Moment) {
        self.effects.clean_up(grant.claim, End::Clean, None, now);
    }

    /// Has the grant of an earlier attempt. Of several that share the lock the oldest is kept: an answer that its client has is
    /// that of the oldest.
    fn has(&mut self, mut grant: Grant, context: &mut Context<'_>) {
        if let Some(acquire) = self.acquire.take() {
            acquire.let_go(false, &mut step!(self, context));
        }
        if let Some(AcquireOutcome::Granted(mut other)) = self.held_back.take() {
            if other.token < grant.token {
                std::mem::swap(&mut grant, &mut other);
            }
            self.search.gives_back(other.claim.owner);
            self.clean_up(other, context.now);
        }
        if grant.mode != Mode::Exclusive {
            self.search.begin(&mut self.effects);
        }
        self.is_taken_over = true;
        self.end(AcquireOutcome::Granted(grant));
    }

    /// Ends with an outcome, once the search is over.
    fn end(&mut self, outcome: AcquireOutcome) {
        if self.search.is_under_way() {
            self.held_back = Some(outcome);
        } else {
            self.settle(outcome);
        }
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        step: impl FnOnce(&mut Acquire, &mut Step<'_>) -> Option<AcquireOutcome>,
    ) {
        let Some(acquire) = &mut self.acquire else {
            return;
        };
        let outcome = step(acquire, &mut step!(self, context));
        let looks = match &outcome {
            None => acquire.is_waiting(),
            Some(AcquireOutcome::Granted(grant)) => grant.mode != Mode::Exclusive,
            Some(AcquireOutcome::Busy(_)) => true,
            Some(_) => false,
        };
        if looks {
            self.search.begin(&mut self.effects);
        }
        let Some(outcome) = outcome else {
            return;
        };
        self.acquire = None;
        if outcome == AcquireOutcome::Moved {
            self.search.stop_looking(&mut self.effects);
        }
        self.end(outcome);
    }

    fn settle(&mut self, outcome: AcquireOutcome) {
        self.outcome = Some(match outcome {
            AcquireOutcome::Granted(Grant {
                claim,
                token,
                mode,
                sent_at,
                ..
            }) => {
                // From here on its caller renews it.
                self.effects.register(claim.owner, Interest::Forgotten);
                CallOutcome::Granted {
                    owner: claim.owner,
                    token,
                    permits: mode.permits(),
                    sent_at,
                }
            }
            AcquireOutcome::Busy(holder) => CallOutcome::NotGranted(NotGranted::Busy, holder),
            AcquireOutcome::TimedOut(holder) => {
                CallOutcome::NotGranted(NotGranted::TimedOut, holder)
            }
            AcquireOutcome::Cancelled => CallOutcome::NotGranted(NotGranted::Cancelled, None),
            AcquireOutcome::Moved => CallOutcome::Refused(Refused::Repeated),
            AcquireOutcome::Refused(refused) => CallOutcome::Refused(refused),
        });
    }
}

#[cfg(test)]
mod tests;
