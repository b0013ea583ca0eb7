//! Contended names of one coordinator, as a state machine without I/O. It keeps their queues in the store alive, and finds out
//! what a lost message would have said.
//!
//! Each name that somebody waits for here is refreshed once a second, and as soon as what is in its way has expired. Messages
//! of the store only make this faster: whatever they tell is confirmed first.
//!
//! [`ContendedNames::handle`] takes in what happens and [`ContendedNames::handle_timeout`] the passing of time;
//! [`ContendedNames::poll_output`] gives what is to be done for it, which a driver carries out strictly in this order, and
//! [`ContendedNames::next_timeout`] the time of the next refresh.

mod events;
mod hash;
mod name;
mod sent;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

pub use self::events::{Context, Input, Output, Owners};
use self::{
    name::Contended,
    sent::{Granted, Purpose, Sent},
};
use crate::{
    command::{Acquire, Current, Loss, Op, REFRESH_INTERVAL, Reply, Stamped, WakeUp},
    failure::StoreError,
    id::OwnerId,
    name::LockName,
    planted::{Fault, is_planted},
    session::{CommandId, RegistryEvent, TrackedWait},
    time::Moment,
};

/// Added to an expiry, which the store gives in whole milliseconds, so that a refresh finds it past.
const EXPIRY_SLACK: Duration = Duration::from_millis(2);

/// The names for which at least one caller waits at this coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContendedNames {
    names: HashMap<LockName, Contended>,
    /// Each name once, by the time of its next refresh.
    due: BTreeSet<(Moment, LockName)>,
    sent: HashMap<CommandId, Sent>,
    /// Grants to waiters that are registered, and announced soon.
    early: HashMap<OwnerId, Granted>,
    outputs: VecDeque<Output>,
    /// The last number of a waiter, refresh or command.
    last: u64,
}

impl ContendedNames {
    /// Returns how many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether no caller waits.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the time of the next refresh.
    pub fn next_timeout(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Returns the next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Takes in what happens.
    pub fn handle(&mut self, input: Input, context: Context<'_>) {
        match input {
            Input::Waits(wait) => self.on_waits(wait, context),
            Input::Gone { name, owner } => self.on_gone(&name, &owner),
            Input::Recheck { name, after } => self.schedule(&name, after + EXPIRY_SLACK, context),
            Input::Look { name } => {
                self.send(name, None, Purpose::Refresh, Op::Refresh { oldest: None })
            }
            Input::WakeUp(wake_up) => self.on_wake_up(wake_up, context),
            Input::Answered(id, result) => self.on_answer(id, result, context),
            Input::StoreUp => {
                let names: Vec<LockName> = self.names.keys().cloned().collect();
                for name in names {
                    self.schedule(&name, Duration::ZERO, context);
                }
            }
        }
    }

    /// Refreshes the names whose time has come.
    pub fn handle_timeout(&mut self, context: Context<'_>) {
        if self.next_timeout().is_none_or(|due| due > context.now) {
            return;
        }
        // Only now, and not after every input: each of them takes a look at the owner ids.
        self.early.retain(|owner, _| context.owners.waits(owner));
        while self.next_timeout().is_some_and(|due| due <= context.now)
            && let Some((_, name)) = self.due.pop_first()
        {
            let number = self.number();
            let Some(contended) = self.names.get_mut(&name) else {
                continue;
            };
            contended.due = context.now.after(REFRESH_INTERVAL);
            self.due.insert((contended.due, name.clone()));
            if contended.begin_refresh(number) {
                let oldest = contended.waiting(context.owners).next();
                let oldest = oldest.map(|acquire| acquire.owner);
                self.send(name, Some(number), Purpose::Refresh, Op::Refresh { oldest });
            }
        }
    }

    fn on_waits(&mut self, wait: TrackedWait, context: Context<'_>) {
        let TrackedWait {
            name,
            acquire,
            expires_in,
        } = wait;
        let number = self.number();
        let contended = self.names.entry(name.clone()).or_insert_with(|| {
            let due = context.now.after(REFRESH_INTERVAL);
            self.due.insert((due, name.clone()));
            Contended::new(due)
        });
        contended.join(number, Arc::clone(&acquire));
        if let Some(granted) = self.early.remove(&acquire.owner) {
            self.confirm(name, acquire, granted, None);
        } else if let Some(expires_in) = expires_in {
            self.schedule(&name, expires_in + EXPIRY_SLACK, context);
        }
    }

    fn on_gone(&mut self, name: &LockName, owner: &OwnerId) {
        if let Some(contended) = self.names.get_mut(name)
            && contended.leave(owner)
            && let Some((name, contended)) = self.names.remove_entry(name)
        {
            self.due.remove(&(contended.due, name));
        }
    }

    /// Has the name refreshed after this long, unless it is refreshed sooner anyway.
    fn schedule(&mut self, name: &LockName, after: Duration, context: Context<'_>) {
        let due = context.now.after(after.min(REFRESH_INTERVAL));
        if let Some(contended) = self.names.get_mut(name)
            && due < contended.due
        {
            self.due.remove(&(contended.due, name.clone()));
            contended.due = due;
            self.due.insert((due, name.clone()));
        }
    }

    fn on_wake_up(&mut self, wake_up: WakeUp, context: Context<'_>) {
        match wake_up {
            WakeUp::Missed { name } => self.schedule(&name, Duration::ZERO, context),
            WakeUp::Forced { owner, .. } => self.tell(owner, RegistryEvent::Lost(Loss::Forced)),
            WakeUp::ForcedWaiter { owner, .. } => self.tell(owner, RegistryEvent::ForcedOut),
            WakeUp::Resumed { owner, .. } => self.tell(owner, RegistryEvent::Moved),
            WakeUp::ReleaseRequested {
                owner,
                token,
                request,
                ..
            } => {
                self.outputs.push_back(Output::Ask(owner, token, request));
            }
            WakeUp::Granted {
                name,
                owner,
                token,
                permits,
                of_session,
            } => {
                if is_planted(Fault::WakeUpDropped) {
                    return;
                }
                // A message that comes late or twice tells of a waiter that has been seen to.
                if context.owners.waits(&owner) {
                    match self.waiter(&name, &owner) {
                        Some(_) if is_planted(Fault::ConfirmationSkipped) => {
                            self.granted(&name, owner, (token, permits), context.now);
                        }
                        Some(acquire) => self.confirm(name, acquire, (token, permits), None),
                        None => {
                            self.early.insert(owner, (token, permits));
                        }
                    }
                } else if of_session && !context.owners.knows(&owner) {
                    // A message is a hint, and no ground to release anything.
                    self.handle(Input::Look { name }, context);
                }
            }
        }
    }

    fn on_answer(
        &mut self,
        id: CommandId,
        result: Result<Stamped, StoreError>,
        context: Context<'_>,
    ) {
        let Some(sent) = self.sent.remove(&id) else {
            return;
        };
        let Sent {
            name,
            refresh,
            purpose,
        } = sent;
        match purpose {
            Purpose::Refresh => self.on_refreshed(&name, refresh, result, context),
            Purpose::Confirm(acquire, granted) => {
                self.on_confirmed(&name, refresh, (acquire, granted), result, context);
            }
            Purpose::Join(acquire) => self.on_joined(&name, &acquire, result, context),
        }
        // Confirmations and the refresh itself come before waiters join again: one that holds the lock waits no more.
        if let Some(number) = refresh
            && let Some(contended) = self.names.get_mut(&name)
            && contended.answered(number)
        {
            let waiting: Vec<_> = contended.waiting(context.owners).map(Arc::clone).collect();
            for acquire in waiting {
                self.join_again(&name, acquire, refresh);
            }
        }
        if let Some(contended) = self.names.get_mut(&name)
            && contended.end_refresh()
        {
            self.schedule(&name, Duration::ZERO, context);
        }
    }

    fn on_refreshed(
        &mut self,
        name: &LockName,
        refresh: Option<u64>,
        result: Result<Stamped, StoreError>,
        context: Context<'_>,
    ) {
        let reply = result.map(|stamped| stamped.executed.reply);
        let Ok(Reply::Refreshed {
            current,
            expires_in,
            attached,
        }) = reply
        else {
            if let (Some(number), Some(contended)) = (refresh, self.names.get_mut(name)) {
                contended.refresh_failed(number);
            }
            // The store's status tells when it is back; until then the interval does.
            return self.recheck_after(name, reply.err(), context);
        };
        for Current {
            owner,
            token,
            permits,
            of_session,
        } in current
        {
            if context.owners.waits(&owner)
                && let Some(acquire) = self.waiter(name, &owner)
            {
                self.confirm(name.clone(), acquire, (token, permits), refresh);
            } else if of_session && !context.owners.knows(&owner) {
                self.outputs.push_back(Output::Discard(name.clone(), owner));
            }
        }
        if let (Some(number), false) = (refresh, attached)
            && let Some(contended) = self.names.get_mut(name)
        {
            contended.join_after(number);
        }
        if let Some(expires_in) = expires_in {
            self.schedule(name, expires_in + EXPIRY_SLACK, context);
        }
    }

    fn on_confirmed(
        &mut self,
        name: &LockName,
        refresh: Option<u64>,
        (acquire, (token, permits)): (Arc<Acquire>, Granted),
        result: Result<Stamped, StoreError>,
        context: Context<'_>,
    ) {
        let owner = acquire.owner;
        match result {
            Ok(Stamped { executed, sent_at }) => match executed.reply {
                Reply::Renewed => self.granted(name, owner, (token, permits), sent_at),
                Reply::Lost(Loss::Resumed) => self.end(name, owner, RegistryEvent::Moved),
                // It has run out already.
                _ if context.owners.waits(&owner) => self.join_again(name, acquire, refresh),
                _ => {}
            },
            Err(error @ StoreError::NotReplicated { .. }) => {
                self.end(name, owner, RegistryEvent::GrantFailed(error));
            }
            Err(error) => {
                self.may_be_missing(name);
                self.recheck_after(name, Some(error), context);
            }
        }
    }

    /// Takes in what became of a waiter that the store had forgotten, or never knew of. One that was in the queue has
    /// stayed where it was.
    fn on_joined(
        &mut self,
        name: &LockName,
        acquire: &Acquire,
        result: Result<Stamped, StoreError>,
        context: Context<'_>,
    ) {
        let owner = acquire.owner;
        match result {
            Ok(Stamped { executed, sent_at }) => match executed.reply {
                Reply::Granted { token, permits } => {
                    self.granted(name, owner, (token, permits), sent_at);
                }
                Reply::Lost(Loss::Resumed) => return self.end(name, owner, RegistryEvent::Moved),
                Reply::Lost(Loss::Forced) => {
                    return self.end(name, owner, RegistryEvent::ForcedOut);
                }
                // Nobody was told of its grant, and nobody is granted the lock before its lock-delay is over or it is released.
                Reply::Lost(Loss::Expired) => {
                    let failed = RegistryEvent::GrantFailed(StoreError::late_grant());
                    return self.end(name, owner, failed);
                }
                // The limit was lowered while it waited.
                Reply::OtherLimit { limit } => {
                    return self.end(name, owner, RegistryEvent::OtherLimit(limit));
                }
                _ => {}
            },
            Err(error @ StoreError::NotReplicated { .. }) => {
                self.end(name, owner, RegistryEvent::GrantFailed(error));
            }
            Err(_) => return self.may_be_missing(name),
        }
        // It stopped waiting while its acquire was on the way, and may have left the queue before it arrived. One that is
        // still known has been told, or will be released by whoever gave it up; one of the unary calls may have been told
        // and be its caller's alone by now.
        if acquire.session.is_some() && !context.owners.knows(&owner) {
            self.outputs.push_back(Output::Discard(name.clone(), owner));
        }
    }

    /// Has all waiters join the queue again at the next refresh: one may be missing although the oldest is not.
    fn may_be_missing(&mut self, name: &LockName) {
        if let Some(contended) = self.names.get_mut(name) {
            contended.rejoin = true;
        }
    }

    /// Has a name refreshed at once after a command that may have handed the lock on.
    fn recheck_after(&mut self, name: &LockName, error: Option<StoreError>, context: Context<'_>) {
        if error.is_some_and(|error| error.is_indeterminate()) {
            self.schedule(name, EXPIRY_SLACK, context);
        }
    }

    /// Makes a hand-off from elsewhere last for its TTL, and then gives it to its waiter.
    fn confirm(
        &mut self,
        name: LockName,
        acquire: Arc<Acquire>,
        granted: Granted,
        refresh: Option<u64>,
    ) {
        let (owner, ttl) = (acquire.owner, acquire.ttl);
        let token = Some(granted.0);
        let purpose = Purpose::Confirm(acquire, granted);
        self.send(name, refresh, purpose, Op::Renew { owner, token, ttl });
    }

    fn join_again(&mut self, name: &LockName, acquire: Arc<Acquire>, refresh: Option<u64>) {
        let op = Op::Acquire(Acquire {
            again: true,
            ..Acquire::clone(&acquire)
        });
        self.send(name.clone(), refresh, Purpose::Join(acquire), op);
    }

    fn send(&mut self, name: LockName, refresh: Option<u64>, purpose: Purpose, op: Op) {
        let id = CommandId::new(self.number());
        if let (Some(number), Some(contended)) = (refresh, self.names.get_mut(&name)) {
            contended.sent(number);
        }
        let sent = Sent {
            name: name.clone(),
            refresh,
            purpose,
        };
        self.sent.insert(id, sent);
        self.outputs.push_back(Output::Store { id, name, op });
    }

    /// Tells a waiter of its grant.
    fn granted(
        &mut self,
        name: &LockName,
        owner: OwnerId,
        (token, permits): Granted,
        sent_at: Moment,
    ) {
        let granted = RegistryEvent::Granted {
            token,
            permits,
            sent_at,
        };
        self.end(name, owner, granted);
    }

    /// Tells a waiter of the end of its wait. It is announced until it says so itself, but waits no more from here on.
    fn end(&mut self, name: &LockName, owner: OwnerId, event: RegistryEvent) {
        if let Some(contended) = self.names.get_mut(name) {
            contended.leave(&owner);
        }
        self.tell(owner, event);
    }

    fn tell(&mut self, owner: OwnerId, event: RegistryEvent) {
        self.outputs.push_back(Output::Tell(owner, event));
    }

    fn waiter(&self, name: &LockName, owner: &OwnerId) -> Option<Arc<Acquire>> {
        self.names.get(name)?.waiter(owner).cloned()
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
