//! Acquire of a unary call, as a state machine without I/O: one acquire without a session around it.
//!
//! Its rules are those of a session's acquire. Nobody renews the hold but the caller, with other calls, and the call may be
//! given up at any point.

use std::time::Duration;

use super::{
    CommandFailure, CommandId, Context, LockSpec, LockSpecs, NotGranted, Output, Refused,
    RegistryEvent, Wait,
    acquire::{Acquire, AcquireOutcome, Step, Terms, Wanted, unexpected},
    effects::{Effects, Grant},
    output::Interest,
};
use crate::{
    command::Stamped,
    id::{Actor, FencingToken, OwnerId},
    mode::Mode,
    name::{ClientName, LockName, Value},
    time::Moment,
    view::HolderView,
};

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
        } = request;
        let wanted = Wanted {
            actor: Actor::NOBODY,
            locks: LockSpecs::new(LockSpec { name, mode }, Vec::new()),
            again: Vec::new(),
        };
        let mut acquire = Acquire::new(
            0,
            wanted,
            Vec::new(),
            (wait, value, lock_delay, None),
            context.now,
        );
        let mut call = Self {
            terms: Terms {
                session: None,
                client_name,
                ttl,
                tells_tickets: false,
            },
            effects: Effects::new(store_timeout),
            acquire: None,
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
        self.acquire.as_ref()?.due()
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
        if self.effects.answered(id).is_some() {
            self.step(context, |acquire, step| acquire.on_reply(id, result, step));
        }
    }

    /// Takes in what happened to its owner id.
    pub fn on_event(&mut self, event: RegistryEvent, context: &mut Context<'_>) {
        self.step(context, |acquire, step| acquire.on_event(event, step));
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, context: &mut Context<'_>) {
        self.step(context, Acquire::on_time);
    }

    /// Gives it up, unless it has an outcome: what it came to ends in the background.
    pub fn let_go(&mut self, context: &mut Context<'_>) {
        if let Some(acquire) = self.acquire.take() {
            acquire.let_go(false, &mut step!(self, context));
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
        let Some(outcome) = step(acquire, &mut step!(self, context)) else {
            return;
        };
        self.acquire = None;
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
            // Nobody was told its ticket.
            AcquireOutcome::Moved => CallOutcome::Refused(Refused::Store(unexpected("acquire"))),
            AcquireOutcome::Refused(refused) => CallOutcome::Refused(refused),
        });
    }
}

#[cfg(test)]
mod tests;
