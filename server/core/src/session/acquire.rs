//! One acquire, from the request to its outcome.
//!
//! An acquire takes its names one after the other, in the order of the names, which is the same for everybody: a session that
//! waits for a name holds only names before it, so that acquires of several names never wait for one another in a circle. Names
//! that were taken are renewed while the others are waited for, and given back before the client hears that it can't have all
//! of them. If one of them is lost meanwhile, the acquire gives all back and begins again, since those taken after it were taken
//! with a right that is gone.

use std::{sync::Arc, time::Duration};

use super::{
    CommandFailure, CommandId, LockSpec, LockSpecs, MaxHold, RegistryEvent, RequestId, Wait,
    effects::{Bound, Claim, Effects, Grant, Purpose},
    output::{Interest, Note, Output, Refused, Response, TrackedWait, WaitEnd},
    taken::Taken,
};
use crate::{
    command::{self, End, Loss, Op, Reply, Stamped},
    deadlock::Deadlock,
    failure::StoreError,
    id::{Actor, FencingToken, OwnerId, SessionId},
    name::{ClientName, LockName, Value},
    planted::{Fault, is_planted},
    time::Moment,
    view::HolderView,
};

/// Wishes of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) actor: Actor,
    pub(super) locks: LockSpecs,
    /// Holds of the actor that it counts on, each counted once more already.
    pub(super) again: Vec<OwnerId>,
}

impl Wanted {
    /// Returns how many locks it asks for beside those that the actor holds.
    pub(super) fn more(&self) -> usize {
        self.locks.len() - self.again.len()
    }
}

/// Outcome of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum AcquireOutcome {
    /// All names are held: the grants of the acquire, and this one, the last.
    Granted(Grant),
    /// The lock was not free, and the acquire did not want to wait.
    Busy(Option<HolderView>),
    /// The locks did not come free in time.
    TimedOut(Option<HolderView>),
    /// It was cancelled.
    Cancelled,
    /// Another stream resumed its place: its outcome is sent there.
    Moved,
    /// It was refused, or failed.
    Refused(Refused),
}

/// An acquire that has no outcome yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Acquire {
    request: RequestId,
    pub(super) wanted: Wanted,
    value: Value,
    lock_delay: Duration,
    max_hold: Option<MaxHold>,
    wait: Wait,
    deadline: Option<Moment>,
    /// Names that were taken while others are waited for.
    pub(super) taken: Taken,
    /// Whether its actor held something when it was sent, apart from what the acquire took.
    is_holding: bool,
    is_queue_told: bool,
    /// Whether the client knows its ticket and may resume its place.
    is_resumable: bool,
    is_cancelled: bool,
    /// The lock for which the client has lost its permission.
    pub(super) denied: Option<LockName>,
    state: AcquireState,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AcquireState {
    /// In the admission queue.
    Queued,
    /// On its way to the store.
    Sent {
        command: CommandId,
        claim: Claim,
        may_arrive_until: Moment,
        /// Event of the owner id that came before the store's answer.
        early: Option<RegistryEvent>,
    },
    /// In the lock's queue.
    Waiting { claim: Claim },
    /// Leaving the lock's queue.
    GivingUp {
        command: CommandId,
        claim: Claim,
        why: GiveUp,
    },
    /// Looking who holds the lock, for the client to know.
    Viewing { command: CommandId },
    /// Giving back the names that were taken.
    Releasing { outstanding: usize, then: Then },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GiveUp {
    TimedOut,
    Cancelled,
    Deadlocked(Box<Deadlock>),
    ForcedOut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Then {
    Restart,
    End(Box<AcquireOutcome>),
}

/// Terms that all acquires of a session share, or those of a unary call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    /// `None` for a unary call.
    pub(super) session: Option<SessionId>,
    pub(super) client_name: ClientName,
    pub(super) ttl: Duration,
    /// Whether the client is told tickets, and so can resume its places.
    pub(super) tells_tickets: bool,
}

/// Surroundings of a step of an acquire.
pub(super) struct Step<'a> {
    pub(super) terms: &'a Terms,
    pub(super) effects: &'a mut Effects,
    pub(super) now: Moment,
    /// Draws an owner id at random.
    pub(super) fresh: &'a mut dyn FnMut() -> OwnerId,
}

impl Acquire {
    /// Returns an acquire that is to be sent. `fresh` holds the locks that its actor does not hold.
    pub(super) fn new(
        request: RequestId,
        wanted: Wanted,
        fresh: Vec<LockSpec>,
        (wait, value, lock_delay, max_hold): (Wait, Value, Duration, Option<MaxHold>),
        now: Moment,
    ) -> Self {
        let is_single = wanted.locks.len() == 1;
        let todo = if is_single { Vec::new() } else { fresh };
        Self {
            request,
            wanted,
            value,
            lock_delay,
            max_hold,
            wait,
            deadline: wait.deadline(now),
            taken: Taken::none_of(todo),
            is_holding: false,
            is_queue_told: false,
            is_resumable: false,
            is_cancelled: false,
            denied: None,
            state: AcquireState::Queued,
        }
    }

    /// Returns an acquire whose place was resumed. Its waiter has been announced.
    pub(super) fn resumed(
        request: RequestId,
        acquire: &command::Acquire,
        name: LockName,
        deadline: Option<Moment>,
        tells_tickets: bool,
    ) -> Self {
        let claim = Claim::of(name.clone(), acquire);
        let mode = acquire.mode;
        let wanted = Wanted {
            actor: acquire.actor,
            locks: LockSpecs::new(LockSpec { name, mode }, Vec::new()),
            again: Vec::new(),
        };
        // What the client was told of its bound was told on another stream.
        let max_hold = acquire.max_hold.map(|limit| MaxHold {
            limit,
            is_asked: false,
        });
        let (value, lock_delay) = (acquire.value.clone(), acquire.lock_delay);
        let terms = (Wait::Forever, value, lock_delay, max_hold);
        Self {
            deadline,
            is_queue_told: true,
            is_resumable: tells_tickets,
            state: AcquireState::Waiting { claim },
            ..Self::new(request, wanted, Vec::new(), terms, Moment::from_micros(0))
        }
    }

    /// Returns the names that it is to take, which its actor does not hold.
    pub(super) fn asked_names(&self) -> impl Iterator<Item = &LockName> {
        let only = self.is_single().then(|| self.wanted.locks.first());
        let locks = self.taken.todo().iter().chain(only);
        locks.map(|lock| &lock.name)
    }

    /// Returns whether it takes one name only.
    fn is_single(&self) -> bool {
        self.taken.todo().is_empty()
    }

    /// Returns whether it is in the admission queue.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.state, AcquireState::Queued)
    }

    /// Returns whether it is in the lock's queue.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, AcquireState::Waiting { .. })
    }

    /// Returns the owner id that it has registered, if there is one.
    pub(super) fn owner(&self) -> Option<OwnerId> {
        match &self.state {
            AcquireState::Sent { claim, .. }
            | AcquireState::Waiting { claim }
            | AcquireState::GivingUp { claim, .. } => Some(claim.owner),
            _ => None,
        }
    }

    /// Returns when it has something to do of itself.
    pub(super) fn due(&self) -> Option<Moment> {
        let renewal = self.taken.due();
        match self.state {
            AcquireState::Queued => self.deadline,
            AcquireState::Sent { .. } => renewal,
            AcquireState::Waiting { .. } => [self.deadline, renewal].into_iter().flatten().min(),
            _ => None,
        }
    }

    /// Sends it: its turn in the admission queue has come.
    pub(super) fn start(&mut self, is_holding: bool, step: &mut Step<'_>) {
        self.is_holding = is_holding;
        self.send(true, step);
    }

    /// Returns the lock that it takes now, or next.
    fn current(&self) -> &LockSpec {
        let next = self.taken.next();
        next.unwrap_or_else(|| self.wanted.locks.first())
    }

    /// Returns what is asked of the store for the lock that it takes now.
    fn command(&self, owner: OwnerId, terms: &Terms) -> command::Acquire {
        command::Acquire {
            owner,
            session: terms.session,
            actor: self.wanted.actor,
            client_name: terms.client_name.clone(),
            mode: self.current().mode,
            value: self.value.clone(),
            ttl: terms.ttl,
            lock_delay: self.lock_delay,
            max_hold: self.max_hold.map(|max_hold| max_hold.limit),
            wait: self.wait != Wait::No,
            again: false,
        }
    }

    /// Sends the acquire of the next name.
    fn send(&mut self, is_first: bool, step: &mut Step<'_>) {
        let name = self.current().name.clone();
        let acquire = self.command((step.fresh)(), step.terms);
        let (claim, command, may_arrive_until) =
            step.effects
                .acquire((self.request, is_first), name, acquire, step.now);
        self.state = AcquireState::Sent {
            command,
            claim,
            may_arrive_until,
            early: None,
        };
    }

    /// Takes in the reply to a command that was sent for the acquire itself.
    pub(super) fn on_reply(
        &mut self,
        id: CommandId,
        result: Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) -> Option<AcquireOutcome> {
        match std::mem::replace(&mut self.state, AcquireState::Queued) {
            AcquireState::Sent {
                command,
                claim,
                may_arrive_until,
                early,
            } if command == id => self.on_sent(claim, may_arrive_until, early, result, step),
            AcquireState::GivingUp {
                command,
                claim,
                why,
            } if command == id => self.on_left(claim, why, &result, step),
            AcquireState::Viewing { command } if command == id => {
                let holder = match result.map(|stamped| stamped.executed.reply) {
                    Ok(Reply::Seen(view)) => view.holders.into_iter().next(),
                    _ => None,
                };
                self.settle(AcquireOutcome::TimedOut(holder), step)
            }
            // Of a command that it has let go of.
            state => {
                self.state = state;
                None
            }
        }
    }

    fn on_sent(
        &mut self,
        claim: Claim,
        may_arrive_until: Moment,
        early: Option<RegistryEvent>,
        result: Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) -> Option<AcquireOutcome> {
        let Stamped { executed, sent_at } = match result {
            Ok(stamped) => stamped,
            Err(CommandFailure::TooManyWaiters) => {
                step.effects.register(claim.owner, Interest::Forgotten);
                let refused = Refused::TooManyWaiters(claim.name);
                return self.settle(AcquireOutcome::Refused(refused), step);
            }
            Err(CommandFailure::Store(error)) => {
                if matches!(error, StoreError::Unavailable { .. })
                    || is_planted(Fault::UnansweredForgotten)
                {
                    step.effects.register(claim.owner, Interest::Forgotten);
                } else {
                    // It may have acted half-way, also if the store refused it.
                    let until = Some(may_arrive_until);
                    step.effects.clean_up(claim, End::Clean, until, step.now);
                }
                return self.settle(AcquireOutcome::Refused(Refused::Store(error)), step);
            }
        };
        let outcome = match executed.reply {
            Reply::Granted { token, permits } => {
                step.effects.note(Note::Granted);
                let grant = self.grant(claim, (token, permits), sent_at);
                return self.on_grant(grant, step);
            }
            Reply::Queued {
                position,
                expires_in,
            } => return self.on_queued(claim, position, expires_in, early, step),
            Reply::Busy { holder } => {
                step.effects.register(claim.owner, Interest::Forgotten);
                AcquireOutcome::Busy(holder)
            }
            Reply::OtherLimit { limit } => {
                step.effects.register(claim.owner, Interest::Forgotten);
                let name = claim.name;
                AcquireOutcome::Refused(Refused::OtherLimit { name, limit })
            }
            Reply::Lost(Loss::Expired) => {
                step.effects.clean_up(claim, End::Clean, None, step.now);
                AcquireOutcome::Refused(Refused::Store(StoreError::late_grant()))
            }
            _ => {
                step.effects.clean_up(claim, End::Clean, None, step.now);
                AcquireOutcome::Refused(Refused::Store(unexpected("acquire")))
            }
        };
        self.settle(outcome, step)
    }

    fn on_queued(
        &mut self,
        claim: Claim,
        position: u64,
        expires_in: Option<Duration>,
        early: Option<RegistryEvent>,
        step: &mut Step<'_>,
    ) -> Option<AcquireOutcome> {
        let acquire = self.command(claim.owner, step.terms);
        step.effects.push(Output::TrackWait(TrackedWait {
            name: claim.name.clone(),
            acquire: Arc::new(acquire),
            expires_in,
        }));
        let is_holding = self.is_holding || !self.taken.is_empty();
        if is_holding && !self.wanted.actor.is_nobody() {
            step.effects.push(Output::WatchDeadlock(claim.owner));
        }
        if !self.is_cancelled && !std::mem::replace(&mut self.is_queue_told, true) {
            let ticket = claim.owner;
            step.effects
                .send(self.request, Response::Queued { ticket, position });
            self.is_resumable = self.is_single() && step.terms.tells_tickets;
        }
        self.state = AcquireState::Waiting { claim };
        if let Some(event) = early {
            return self.on_event(event, step);
        }
        if self.is_cancelled {
            self.give_up(GiveUp::Cancelled, step);
        }
        None
    }

    /// Takes in what happened to its owner id.
    pub(super) fn on_event(
        &mut self,
        event: RegistryEvent,
        step: &mut Step<'_>,
    ) -> Option<AcquireOutcome> {
        if let AcquireState::Sent { early, .. } = &mut self.state {
            *early = Some(event);
            return None;
        }
        let AcquireState::Waiting { claim } = &self.state else {
            // It is being given up, and the release takes back whatever it was granted.
            return None;
        };
        let claim = claim.clone();
        let owner = claim.owner;
        match event {
            RegistryEvent::Granted {
                token,
                permits,
                sent_at,
            } => {
                step.effects
                    .push(Output::UntrackWait(owner, WaitEnd::Granted));
                step.effects.note(Note::Granted);
                let grant = self.grant(claim, (token, permits), sent_at);
                self.on_grant(grant, step)
            }
            RegistryEvent::GrantFailed(error) => {
                step.effects
                    .push(Output::UntrackWait(owner, WaitEnd::Failed));
                step.effects.clean_up(claim, End::Clean, None, step.now);
                self.settle(AcquireOutcome::Refused(Refused::Store(error)), step)
            }
            RegistryEvent::OtherLimit(limit) => {
                step.effects
                    .push(Output::UntrackWait(owner, WaitEnd::Failed));
                let name = claim.name.clone();
                step.effects.clean_up(claim, End::Clean, None, step.now);
                let refused = Refused::OtherLimit { name, limit };
                self.settle(AcquireOutcome::Refused(refused), step)
            }
            RegistryEvent::Moved => {
                step.effects
                    .push(Output::UntrackWait(owner, WaitEnd::Moved));
                step.effects.register(owner, Interest::Forgotten);
                self.settle(AcquireOutcome::Moved, step)
            }
            RegistryEvent::Deadlocked(deadlock) => {
                self.give_up(GiveUp::Deadlocked(deadlock), step);
                None
            }
            RegistryEvent::ForcedOut => {
                self.give_up(GiveUp::ForcedOut, step);
                None
            }
            RegistryEvent::Lost(_) => None,
        }
    }

    fn grant(
        &self,
        claim: Claim,
        (token, permits): (FencingToken, Option<u32>),
        sent_at: Moment,
    ) -> Grant {
        Grant {
            claim,
            token,
            mode: self.current().mode.granted(permits),
            bound: Bound::of(self.max_hold, sent_at),
            sent_at,
        }
    }

    fn on_grant(&mut self, grant: Grant, step: &mut Step<'_>) -> Option<AcquireOutcome> {
        if self.taken.is_last() {
            return Some(AcquireOutcome::Granted(grant));
        }
        self.taken.push(grant);
        if self.is_cancelled {
            return self.settle(AcquireOutcome::Cancelled, step);
        }
        self.send(false, step);
        None
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, step: &mut Step<'_>) -> Option<AcquireOutcome> {
        let is_over = self.deadline.is_some_and(|deadline| deadline <= step.now);
        match self.state {
            AcquireState::Queued if is_over => return Some(AcquireOutcome::TimedOut(None)),
            AcquireState::Waiting { .. } if is_over => self.give_up(GiveUp::TimedOut, step),
            // It held a name for as long as it may, and has yet to get the others.
            AcquireState::Sent { .. } | AcquireState::Waiting { .. }
                if self.taken.is_over(step.now) =>
            {
                self.restart(step);
            }
            AcquireState::Sent { .. } | AcquireState::Waiting { .. }
                if self.taken.renewal_due().is_some_and(|due| due <= step.now) =>
            {
                self.taken.renew(self.request, step.effects);
            }
            _ => {}
        }
        None
    }

    /// Ends it without its locks. A grant of a single name that is on its way stands.
    pub(super) fn cancel(&mut self, step: &mut Step<'_>) -> Option<AcquireOutcome> {
        self.is_cancelled = true;
        if self.is_queued() {
            return Some(AcquireOutcome::Cancelled);
        }
        self.give_up(GiveUp::Cancelled, step);
        None
    }

    /// Leaves the lock's queue if it waits there, or gives back a grant that came meanwhile.
    fn give_up(&mut self, why: GiveUp, step: &mut Step<'_>) {
        let AcquireState::Waiting { claim } = &self.state else {
            return;
        };
        let claim = claim.clone();
        // It waits no more: nobody may put it back into the queue behind the release.
        step.effects.register(claim.owner, Interest::Settling);
        let command = step.effects.release(Purpose::Acquire(self.request), &claim);
        self.state = AcquireState::GivingUp {
            command,
            claim,
            why,
        };
    }

    fn on_left(
        &mut self,
        claim: Claim,
        why: GiveUp,
        result: &Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) -> Option<AcquireOutcome> {
        let (end, outcome) = match why {
            GiveUp::TimedOut => (WaitEnd::TimedOut, AcquireOutcome::TimedOut(None)),
            GiveUp::Cancelled => (WaitEnd::Cancelled, AcquireOutcome::Cancelled),
            GiveUp::Deadlocked(deadlock) => {
                let refused = Refused::Deadlock(deadlock);
                (WaitEnd::Deadlocked, AcquireOutcome::Refused(refused))
            }
            GiveUp::ForcedOut => {
                let refused = Refused::ForcedOut(claim.name.clone());
                (WaitEnd::Forced, AcquireOutcome::Refused(refused))
            }
        };
        step.effects.push(Output::UntrackWait(claim.owner, end));
        if result.is_err() {
            step.effects.clean_up(claim, End::Clean, None, step.now);
            return self.settle(outcome, step);
        }
        // From here on a grant to it is nobody's, and is handed on.
        step.effects.register(claim.owner, Interest::Forgotten);
        if matches!(outcome, AcquireOutcome::TimedOut(_)) {
            let purpose = Purpose::Acquire(self.request);
            let command = step.effects.store(purpose, claim.name, Op::view(0));
            self.state = AcquireState::Viewing { command };
            return None;
        }
        self.settle(outcome, step)
    }

    /// Ends it, after giving back what was taken.
    fn settle(&mut self, outcome: AcquireOutcome, step: &mut Step<'_>) -> Option<AcquireOutcome> {
        if self.taken.is_empty() {
            return Some(outcome);
        }
        self.give_back(Then::End(Box::new(outcome)), step);
        None
    }

    fn give_back(&mut self, then: Then, step: &mut Step<'_>) {
        let outstanding = self.taken.give_back(self.request, step.effects);
        self.state = AcquireState::Releasing { outstanding, then };
    }

    /// One of the names that were taken was given back, or goes on being released in the background.
    pub(super) fn on_given_back(&mut self, step: &mut Step<'_>) -> Option<AcquireOutcome> {
        let AcquireState::Releasing { outstanding, then } = &mut self.state else {
            return None;
        };
        *outstanding -= 1;
        if *outstanding > 0 {
            return None;
        }
        match std::mem::replace(then, Then::Restart) {
            Then::End(outcome) => Some(*outcome),
            Then::Restart if self.is_cancelled => Some(AcquireOutcome::Cancelled),
            Then::Restart => {
                self.send(false, step);
                None
            }
        }
    }

    /// Takes in the reply to the renewal of a name that was taken.
    pub(super) fn on_renewed(
        &mut self,
        owner: &OwnerId,
        result: &Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) {
        if self.taken.on_renewed(owner, result, step.now) {
            self.restart(step);
        }
    }

    fn restart(&mut self, step: &mut Step<'_>) {
        match &self.state {
            AcquireState::Sent { .. } | AcquireState::Waiting { .. } => {}
            // It has its outcome, and gives back what it took.
            _ => return,
        }
        self.drop_claim(false, step);
        self.give_back(Then::Restart, step);
    }

    /// Ends what its owner id stands for in the background. With `leaves_places`, a place that the client may resume stays in
    /// the queue.
    fn drop_claim(&mut self, leaves_places: bool, step: &mut Step<'_>) {
        let state = std::mem::replace(&mut self.state, AcquireState::Queued);
        match state {
            AcquireState::Sent {
                command,
                claim,
                may_arrive_until,
                ..
            } => {
                step.effects.answered(command);
                let until = Some(may_arrive_until);
                step.effects.clean_up(claim, End::Clean, until, step.now);
            }
            AcquireState::Waiting { claim } => {
                let untracked = Output::UntrackWait(claim.owner, WaitEnd::Cancelled);
                step.effects.push(untracked);
                if leaves_places && self.is_resumable {
                    step.effects.register(claim.owner, Interest::Settling);
                } else {
                    step.effects.clean_up(claim, End::Clean, None, step.now);
                }
            }
            AcquireState::GivingUp { command, claim, .. } => {
                step.effects.answered(command);
                let untracked = Output::UntrackWait(claim.owner, WaitEnd::Cancelled);
                step.effects.push(untracked);
                step.effects.clean_up(claim, End::Clean, None, step.now);
            }
            AcquireState::Viewing { command } => {
                step.effects.answered(command);
            }
            AcquireState::Queued | AcquireState::Releasing { .. } => {}
        }
    }

    /// Lets go of it: whatever it stands for ends in the background. What it gives back already is left to those commands.
    pub(super) fn let_go(mut self, leaves_places: bool, step: &mut Step<'_>) {
        self.drop_claim(leaves_places, step);
        for grant in self.taken.into_grants() {
            step.effects
                .clean_up(grant.claim, End::Clean, None, step.now);
        }
    }

    /// Returns whether it can be resumed on another stream, where its outcome is sent.
    pub(super) fn can_move(&self) -> bool {
        match self.state {
            AcquireState::Waiting { .. } => self.is_single() && self.is_queue_told,
            AcquireState::GivingUp { .. } | AcquireState::Viewing { .. } => self.is_single(),
            _ => false,
        }
    }
}

/// Returns the failure of a command whose reply belongs to another operation; the stores never give one.
pub(super) fn unexpected(operation: &str) -> StoreError {
    StoreError::Garbled {
        reason: format!("the reply to {operation} is that of another operation"),
    }
}
