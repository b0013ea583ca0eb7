//! Session of one client, as a state machine without I/O.
//!
//! [`Session::handle`] takes in what happens and [`Session::handle_timeout`] the passing of time; [`Session::poll_output`] gives
//! what is to be done for it. A driver carries the outputs out strictly in their order, sets its timer to
//! [`Session::next_timeout`], and calls [`Session::terminate`] when it is dropped. The order matters: an owner id is registered
//! before the command is sent that may be granted under it, so that no grant arrives for an unknown id; and whatever may be in
//! the store is either registered as the session's or handed over as a [`PendingCleanup`].
//!
//! The parts have a state of their own each:
//!
//! - `acquires`: admission queue and table of the acquires; `acquire`: one of them, from the request to its outcome; `taken`:
//!   those of several names that it has.
//! - [`Call`]: the acquire of a unary call, which has the same rules and no session.
//! - `tenure`: lease, holds and renewal; its tables are `holds`, `asked`, `revoked` and `renewal`.
//! - `resuming`: locks and places that are taken over from another stream before the session opens.
//! - `effects`: outputs and outstanding commands.
//! - `phase`: how far the session is.
//! - `requests`, `replies`, `lifecycle`: transitions that concern several parts.
//! - [`confirmation`]: deadlines that count only when they are still missed a moment later.

/// Borrows what a step of a part works with.
macro_rules! step {
    ($session:ident, $context:ident) => {
        $crate::session::acquire::Step {
            terms: &$session.terms,
            effects: &mut $session.effects,
            now: $context.now,
            fresh: &mut *$context.fresh_owner,
        }
    };
}

mod acquire;
mod acquires;
mod asked;
mod call;
pub mod confirmation;
mod effects;
mod holds;
mod input;
mod lifecycle;
mod output;
mod phase;
mod renewal;
mod replies;
mod requests;
mod resuming;
mod revoked;
mod taken;
mod tenure;

use std::time::Duration;

use self::{
    acquire::Terms,
    acquires::Acquires,
    effects::{Effects, Purpose},
    phase::State,
    resuming::{Inherited, Resuming},
    tenure::Tenure,
};
pub use self::{
    call::{Call, CallOutcome, CallRequest},
    effects::MAX_IN_FLIGHT,
    input::{
        AcquireRequest, Closer, CommandFailure, CommandId, Draining, Input, LockSpec, LockSpecs,
        MaxHold, Names, OneOrMore, RegistryEvent, Request, RequestId, Resumed, Resumption,
        StreamEnd, Wait,
    },
    output::{
        Effect, GrantedLock, Interest, LostLock, LostWhy, NotGranted, Note, Opened, Output,
        PendingCleanup, Refused, Response, ResumedLock, ResumedWhat, TrackedWait, WaitEnd,
    },
    phase::Phase,
    renewal::MAX_PENDING_ACKS,
};
use crate::{
    command::End,
    id::{OwnerId, SessionId},
    lease::Lease,
    mode::Mode,
    name::{ClientName, LockName},
    planted::{Fault, is_planted},
    time::Moment,
};

/// Fixed properties of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Its id.
    pub id: SessionId,
    /// Its client's name.
    pub client_name: ClientName,
    /// For how long it is kept for a resume when its peer ended the stream: at most its TTL.
    pub grace: Duration,
    /// Most holds and waiting acquires together.
    pub max_locks: usize,
    /// Time-out of a command to the store.
    pub store_timeout: Duration,
    /// Longest TTL or lock-delay of any hold.
    pub max_ttl: Duration,
    /// Whether the client is told tickets, and so can resume its places.
    pub tells_tickets: bool,
    /// Whether replicas have to acknowledge grants and renewals.
    pub needs_replicas: bool,
}

/// Time and randomness that a driver lends a session for one call.
pub struct Context<'a> {
    /// The time.
    pub now: Moment,
    /// Draws an owner id at random.
    pub fresh_owner: &'a mut dyn FnMut() -> OwnerId,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    state: State,
    terms: Terms,
    grace: Duration,
    max_locks: usize,
    tenure: Tenure,
    acquires: Acquires,
    /// What it has taken over from other sessions, but for what its client has released. What was lost stays in here: the end of the
    /// session before may have taken it, by its token.
    inherited: Vec<Inherited>,
    effects: Effects,
    is_store_up: bool,
    is_writable: bool,
}

impl Session {
    /// Returns a session whose `open` has this request id; its lease begins with the reception of that. It opens at once, or
    /// after it has taken over what it resumes; the owner ids of that have been registered.
    pub fn open(
        config: Config,
        lease: Lease,
        request: RequestId,
        resume: Vec<Resumption>,
        context: &mut Context<'_>,
    ) -> Self {
        let mut session = Self {
            state: State::Open,
            terms: Terms {
                session: Some(config.id),
                client_name: config.client_name,
                ttl: lease.ttl(),
                tells_tickets: config.tells_tickets,
            },
            grace: config.grace,
            max_locks: config.max_locks,
            tenure: Tenure::new(lease, config.needs_replicas),
            acquires: Acquires::default(),
            inherited: Vec::new(),
            effects: Effects::new(config.store_timeout),
            is_store_up: true,
            is_writable: true,
        };
        if resume.is_empty() {
            session.opened(request, Vec::new(), Vec::new(), context);
        } else {
            let mut step = step!(session, context);
            let resuming = Resuming::new(request, resume, (config.id, config.max_ttl), &mut step);
            session.state = State::Resuming(Box::new(resuming));
        }
        session
    }

    /// Returns its lease.
    pub fn lease(&self) -> &Lease {
        self.tenure.lease()
    }

    /// Returns how many locks it holds.
    pub fn holds(&self) -> usize {
        self.tenure.holds().len()
    }

    /// Returns how many acquires have no outcome yet.
    pub fn acquires(&self) -> usize {
        self.acquires.len()
    }

    /// Returns whether acquires wait for admission.
    pub fn has_admission_queue(&self) -> bool {
        self.is_writable && self.acquires.has_queue()
    }

    /// Returns whether this owner id is that of a hold of this name, perhaps of a revoked one.
    ///
    /// # Errors
    ///
    /// If it is that of a hold of another name.
    pub fn owns(&self, owner: &OwnerId, name: &LockName) -> Result<bool, Refused> {
        self.tenure.owns(owner, name)
    }

    /// Returns whether it ends when an operator ends the session of this id: its own, or one from which it has taken something over
    /// that its client has not released. Not one that ends by itself in a moment.
    pub fn ends_with(&self, id: SessionId) -> bool {
        let is_own = self.terms.session == Some(id);
        match &self.state {
            State::Closing { .. } | State::Ended => false,
            State::Resuming(resuming) | State::NotOpened { resuming, .. } => {
                is_own || resuming.inherits_from(id)
            }
            State::Open | State::Detached { .. } | State::Lingering { .. } => {
                let mut inherited = self.inherited.iter();
                is_own || inherited.any(|(_, before)| before.iter().any(|session| session == id))
            }
        }
    }

    /// Returns the names of all that it holds, waits for or is taking over.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        let resuming = match &self.state {
            State::Resuming(resuming) | State::NotOpened { resuming, .. } => Some(resuming),
            _ => None,
        };
        let resuming = resuming.into_iter().flat_map(|resuming| resuming.names());
        let acquires = self.acquires.iter();
        let asked = acquires.flat_map(|(_, wanted)| wanted.locks.iter().map(|lock| &lock.name));
        let held = self.tenure.held().map(|(_, name)| name);
        resuming.chain(asked).chain(held)
    }

    /// Returns how far it is.
    pub fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Returns the next thing to do for it. `may_start` says whether one more acquire may be on its way to the store; while the
    /// store can't be reached, each is sent all the same, to be told so at once.
    pub fn poll_output(
        &mut self,
        context: &mut Context<'_>,
        may_start: &mut dyn FnMut() -> bool,
    ) -> Option<Output> {
        if !self.effects.has_outputs()
            && self.has_admission_queue()
            && (!self.is_store_up || may_start())
        {
            let mut step = step!(self, context);
            self.acquires.start_next(self.tenure.holds(), &mut step);
        }
        self.effects.pop()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) unless something else happens before.
    pub fn next_timeout(&self) -> Option<Moment> {
        let acquires = self.acquires.due(self.is_writable);
        match &self.state {
            State::Resuming(resuming) => resuming.due(),
            State::Open => {
                let due = self.tenure.due();
                Some(acquires.map_or(due, |at| at.min(due)))
            }
            State::Detached { until, shorten_at } => {
                let shorten_at = shorten_at.filter(|_| !self.tenure.is_renewing());
                let due = [Some(*until), acquires, shorten_at, self.tenure.bound()];
                due.into_iter().flatten().min()
            }
            State::Closing { until, .. }
            | State::NotOpened { until, .. }
            | State::Lingering { until } => Some(*until),
            State::Ended => None,
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        match &mut self.state {
            State::Resuming(resuming) => resuming.on_time(&mut step!(self, context)),
            State::Open => {
                let effects = &mut self.effects;
                if self.tenure.on_time(self.is_store_up, now, effects) {
                    let ttl = self.terms.ttl;
                    effects.push(Output::EndStream(Some(Refused::Silent { ttl })));
                    return self.terminate(context);
                }
                self.on_acquires_time(context);
            }
            State::Detached { until, .. } if *until <= now => self.terminate(context),
            State::Detached { until, shorten_at } => {
                let is_due = shorten_at.is_some_and(|at| at <= now);
                if is_due && !self.tenure.is_renewing() {
                    *shorten_at = None;
                    self.tenure.shorten(now.until(*until), &mut self.effects);
                }
                self.tenure.end_bounded(true, now, &mut self.effects);
                self.on_acquires_time(context);
                self.end_if_empty(context);
            }
            State::Closing { request, until } if *until <= now => {
                let request = *request;
                // What has not ended by now goes on in the background.
                self.drop_commands(false, context);
                self.closed(request, context);
            }
            State::NotOpened { until, .. } | State::Lingering { until } if *until <= now => {
                self.terminate(context);
            }
            _ => {}
        }
    }

    /// Tells the client what operators ask of it, if it has a stream that has room for that.
    fn tell_release_requests(&mut self, context: &mut Context<'_>) {
        if self.is_open() && self.is_writable {
            let holds = self.tenure.holds_mut();
            holds.tell_requests(context.now, &mut self.effects);
        }
    }

    fn on_acquires_time(&mut self, context: &mut Context<'_>) {
        let mut step = step!(self, context);
        for finished in self.acquires.on_time(self.is_writable, &mut step) {
            self.finish(finished, context);
        }
    }

    /// Takes in something that happened.
    pub fn handle(&mut self, input: Input, context: &mut Context<'_>) {
        match input {
            Input::StoreUp(is_up) => {
                self.is_store_up = is_up;
                // What the store lost while it was away is found at once, not at the next renewal.
                if is_up && self.is_open() {
                    self.tenure.renew(&mut self.effects);
                }
            }
            Input::Writable(is_writable) => {
                self.is_writable = is_writable;
                self.tell_release_requests(context);
            }
            Input::ReleaseRequested(owner, token, request) => {
                let holds = self.tenure.holds_mut();
                holds.ask((owner, token), request, context.now);
                self.tell_release_requests(context);
            }
            Input::StoreReply(id, result) => self.on_reply(id, result, context),
            Input::Registry(owner, event) => self.on_registry(owner, event, context),
            Input::Request(request, asked) if self.is_open() => {
                if let Err(refused) = self.on_request(request, asked, context) {
                    self.effects.send(request, Response::Refused(refused));
                }
            }
            Input::StreamEnded(end) if self.is_open() => self.on_stream_ended(end, context),
            Input::Draining(draining) if self.is_open() => {
                self.effects.send(0, Response::Draining(draining));
            }
            Input::Stopping => self.stop(context),
            Input::EndedByOperator => self.end_by_operator(context),
            Input::Request(..) | Input::StreamEnded(_) | Input::Draining(_) => {}
        }
        match self.state {
            State::Detached { .. } => self.end_if_empty(context),
            State::Closing { request, .. }
                if self.acquires.is_empty() && !self.effects.is_waiting() =>
            {
                self.closed(request, context);
            }
            _ => {}
        }
    }

    /// Takes in what the client may do from now on: what is not permitted any more ends.
    pub fn revise(
        &mut self,
        is_permitted: &dyn Fn(&LockName, Mode) -> bool,
        context: &mut Context<'_>,
    ) {
        let acquires = self.acquires.iter();
        let denied = acquires.filter_map(|(request, wanted)| {
            let mut locks = wanted.locks.iter();
            let denied = locks.find(|lock| !is_permitted(&lock.name, lock.mode))?;
            Some((request, denied.name.clone()))
        });
        for (request, name) in denied.collect::<Vec<_>>() {
            let mut step = step!(self, context);
            if let Some(finished) = self.acquires.deny(request, name, &mut step) {
                self.finish(finished, context);
            }
        }
        let is_detached = matches!(self.state, State::Detached { .. });
        let effects = &mut self.effects;
        self.tenure
            .revise(is_permitted, is_detached, context.now, effects);
        if is_detached {
            self.end_if_empty(context);
        }
    }

    /// Ends it at once, as if its client had died. What it has ends in the background.
    pub fn terminate(&mut self, context: &mut Context<'_>) {
        if !matches!(self.state, State::Ended) {
            self.end(false, context);
        }
    }

    /// Ends it because the process does: leaves what it holds to expire, and its places for as long as the store keeps them.
    /// The client may still believe in its locks, and can resume all of it on another coordinator. Acquires for which the
    /// client has no ticket are given up.
    fn stop(&mut self, context: &mut Context<'_>) {
        let refused = match self.state {
            // It ends by itself in a moment.
            State::Closing { .. } | State::Ended => return,
            State::Resuming(_) => Some(Refused::StoppedWhileResuming),
            State::Open => Some(Refused::Stopped),
            _ => None,
        };
        if refused.is_some() {
            self.effects.push(Output::EndStream(refused));
        }
        self.end(!is_planted(Fault::DrainReleases), context);
    }

    /// Ends it: what it has is released in the background, or (`is_left`) stays in the store until it expires.
    fn end(&mut self, is_left: bool, context: &mut Context<'_>) {
        self.drop_commands(is_left, context);
        if let State::NotOpened { resuming, .. } | State::Resuming(resuming) =
            std::mem::replace(&mut self.state, State::Ended)
        {
            resuming.let_go(is_left, &mut step!(self, context));
        }
        for claim in self.tenure.take_holds().chain(self.tenure.take_revoked()) {
            if is_left {
                self.effects.register(claim.owner, Interest::Settling);
            } else {
                self.effects
                    .clean_up(claim, End::Unclean, None, context.now);
            }
        }
        self.effects.push(Output::Ended);
    }

    /// Lets go of acquires and commands: what they come to ends in the background.
    fn drop_commands(&mut self, leaves_places: bool, context: &mut Context<'_>) {
        let mut step = step!(self, context);
        self.acquires.let_go(leaves_places, &mut step, |_| true);
        for purpose in self.effects.let_go() {
            if let Purpose::Release(_, Some(claim))
            | Purpose::CloseRelease(claim)
            | Purpose::GiveBack(_, claim) = purpose
            {
                self.effects.clean_up(claim, End::Clean, None, context.now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
