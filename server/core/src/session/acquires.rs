//! Table of a session's acquires: those that wait for admission, are on their way to the store, or wait for their locks.
//!
//! The admission queue bounds how many acquires one session has on their way at a time; what its client sends after them (a
//! heartbeat, above all) is heard meanwhile. An acquire that is cancelled, or has waited for as long as it may, leaves the queue
//! at once: only this session knows of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CommandFailure, CommandId, RegistryEvent, RequestId,
    acquire::{Acquire, AcquireOutcome, Step, Wanted},
    holds::Holds,
};
use crate::{
    command::Stamped,
    id::{Actor, OwnerId},
    name::LockName,
    time::Moment,
};

/// Most acquires that are ended in one go because their time was over, so that other sessions have their turn.
const OVERDUE_AT_ONCE: usize = 32;

/// The acquires that have no outcome yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Acquires {
    by_request: BTreeMap<RequestId, Acquire>,
    /// Acquires by the owner id that they have registered.
    by_owner: BTreeMap<OwnerId, RequestId>,
    /// Names that actors ask for. Actor 0 is not among them.
    asked: BTreeSet<(Actor, LockName)>,
    /// The admission queue, by the order of arrival.
    queue: BTreeMap<u64, RequestId>,
    arrivals: u64,
    queue_places: BTreeMap<RequestId, u64>,
    /// Deadlines of those in the admission queue.
    queue_due: BTreeSet<(Moment, RequestId)>,
    /// Times at which the others have something to do of themselves.
    due: BTreeSet<(Moment, RequestId)>,
    /// Number of locks that all of them ask for.
    locks: usize,
}

/// An acquire that has come to its end.
pub(super) struct Finished {
    pub(super) request: RequestId,
    pub(super) acquire: Acquire,
    pub(super) outcome: AcquireOutcome,
}

impl Acquires {
    pub(super) fn len(&self) -> usize {
        self.by_request.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_request.is_empty()
    }

    pub(super) fn contains(&self, request: RequestId) -> bool {
        self.by_request.contains_key(&request)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RequestId, &Wanted)> {
        let acquires = self.by_request.iter();
        acquires.map(|(request, acquire)| (*request, &acquire.wanted))
    }

    /// Returns how many locks all of them ask for.
    pub(super) fn locks(&self) -> usize {
        self.locks
    }

    /// Returns whether an actor asks for a name.
    pub(super) fn is_asked(&self, actor: Actor, name: &LockName) -> bool {
        // A clone counts a reference.
        self.asked.contains(&(actor, name.clone()))
    }

    /// Frees the memory that an empty table keeps.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            let arrivals = self.arrivals;
            *self = Self {
                arrivals,
                ..Self::default()
            };
        }
    }

    /// Returns whether acquires wait for admission.
    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns when one of them has something to do; those in the admission queue only while answers can be sent.
    pub(super) fn due(&self, is_writable: bool) -> Option<Moment> {
        let queued = self.queue_due.first().filter(|_| is_writable);
        let due = [self.due.first(), queued].into_iter().flatten();
        due.map(|(at, _)| *at).min()
    }

    /// Takes an acquire in, at the end of the admission queue or wherever else it is already.
    pub(super) fn insert(&mut self, request: RequestId, acquire: Acquire) {
        self.locks += acquire.wanted.more();
        let actor = acquire.wanted.actor;
        if !actor.is_nobody() {
            let names = acquire.asked_names();
            self.asked.extend(names.map(|name| (actor, name.clone())));
        }
        if acquire.is_queued() {
            self.arrivals += 1;
            self.queue.insert(self.arrivals, request);
            self.queue_places.insert(request, self.arrivals);
        }
        self.index(request, &acquire);
        self.by_request.insert(request, acquire);
    }

    /// Sends the first of the admission queue.
    pub(super) fn start_next(&mut self, holds: &Holds, step: &mut Step<'_>) {
        if let Some((_, request)) = self.queue.first_key_value() {
            self.step(*request, |acquire| {
                acquire.start(holds.any_of(acquire.wanted.actor), step);
                None
            });
        }
    }

    /// Takes in the reply to a command that was sent for an acquire.
    pub(super) fn on_reply(
        &mut self,
        request: RequestId,
        id: CommandId,
        result: Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) -> Option<Finished> {
        self.step(request, |acquire| acquire.on_reply(id, result, step))
    }

    /// Takes in what happened to an owner id; `None` also if it belongs to no acquire.
    pub(super) fn on_event(
        &mut self,
        owner: &OwnerId,
        event: RegistryEvent,
        step: &mut Step<'_>,
    ) -> Option<Finished> {
        let request = *self.by_owner.get(owner)?;
        self.step(request, |acquire| acquire.on_event(event, step))
    }

    /// Takes in that a name of several was given back.
    pub(super) fn on_given_back(
        &mut self,
        request: RequestId,
        step: &mut Step<'_>,
    ) -> Option<Finished> {
        self.step(request, |acquire| acquire.on_given_back(step))
    }

    /// Takes in the reply to the renewal of a name of several.
    pub(super) fn on_renewed(
        &mut self,
        request: RequestId,
        owner: &OwnerId,
        result: &Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) {
        self.step(request, |acquire| {
            acquire.on_renewed(owner, result, step);
            None
        });
    }

    /// Cancels an acquire, if there is one.
    pub(super) fn cancel(&mut self, request: RequestId, step: &mut Step<'_>) -> Option<Finished> {
        self.step(request, |acquire| acquire.cancel(step))
    }

    /// Notes that the client has lost the permission for a lock of an acquire, and cancels that.
    pub(super) fn deny(
        &mut self,
        request: RequestId,
        name: LockName,
        step: &mut Step<'_>,
    ) -> Option<Finished> {
        self.step(request, |acquire| {
            acquire.denied = Some(name);
            acquire.cancel(step)
        })
    }

    /// Does what is due, for some of them at a time.
    pub(super) fn on_time(&mut self, is_writable: bool, step: &mut Step<'_>) -> Vec<Finished> {
        let mut finished = Vec::new();
        for _ in 0..OVERDUE_AT_ONCE {
            let queued = self.queue_due.first().filter(|_| is_writable);
            let due = [self.due.first(), queued].into_iter().flatten().min();
            let Some((at, request)) = due.copied() else {
                break;
            };
            if step.now < at {
                break;
            }
            finished.extend(self.step(request, |acquire| acquire.on_time(step)));
        }
        finished
    }

    /// Removes those for which this holds, and lets go of what they stand for.
    pub(super) fn let_go(
        &mut self,
        leaves_places: bool,
        step: &mut Step<'_>,
        is_over: impl Fn(&Acquire) -> bool,
    ) -> Vec<Wanted> {
        let over = self.by_request.iter();
        let over = over.filter(|(_, acquire)| is_over(acquire));
        let over: Vec<RequestId> = over.map(|(request, _)| *request).collect();
        let over = over.into_iter().filter_map(|request| {
            let acquire = self.remove(request)?;
            let wanted = acquire.wanted.clone();
            acquire.let_go(leaves_places, step);
            Some(wanted)
        });
        over.collect()
    }

    /// Carries out a step of one acquire, and keeps what is known of it up to date.
    fn step(
        &mut self,
        request: RequestId,
        step: impl FnOnce(&mut Acquire) -> Option<AcquireOutcome>,
    ) -> Option<Finished> {
        // Out of the table meanwhile: nothing else is done to it.
        let mut acquire = self.by_request.remove(&request)?;
        self.unindex(request, &acquire);
        let outcome = step(&mut acquire);
        if !acquire.is_queued() || outcome.is_some() {
            self.leave_queue(request);
        }
        let Some(outcome) = outcome else {
            self.index(request, &acquire);
            self.by_request.insert(request, acquire);
            return None;
        };
        self.forget(&acquire);
        Some(Finished {
            request,
            acquire,
            outcome,
        })
    }

    fn remove(&mut self, request: RequestId) -> Option<Acquire> {
        let acquire = self.by_request.remove(&request)?;
        self.unindex(request, &acquire);
        self.leave_queue(request);
        self.forget(&acquire);
        Some(acquire)
    }

    fn forget(&mut self, acquire: &Acquire) {
        self.locks -= acquire.wanted.more();
        let actor = acquire.wanted.actor;
        if !actor.is_nobody() {
            for name in acquire.asked_names() {
                self.asked.remove(&(actor, name.clone()));
            }
        }
    }

    fn leave_queue(&mut self, request: RequestId) {
        if let Some(place) = self.queue_places.remove(&request) {
            self.queue.remove(&place);
        }
    }

    fn index(&mut self, request: RequestId, acquire: &Acquire) {
        if let Some(owner) = acquire.owner() {
            self.by_owner.insert(owner, request);
        }
        if let Some(due) = acquire.due() {
            self.due_of(acquire).insert((due, request));
        }
    }

    fn unindex(&mut self, request: RequestId, acquire: &Acquire) {
        if let Some(owner) = acquire.owner() {
            self.by_owner.remove(&owner);
        }
        if let Some(due) = acquire.due() {
            self.due_of(acquire).remove(&(due, request));
        }
    }

    /// Returns the set that has the acquire's next moment.
    fn due_of(&mut self, acquire: &Acquire) -> &mut BTreeSet<(Moment, RequestId)> {
        if acquire.is_queued() {
            &mut self.queue_due
        } else {
            &mut self.due
        }
    }
}
