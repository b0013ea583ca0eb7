//! Queues of waiters at this coordinator. A master knows only which coordinators wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Acquire, Caller, Loss, OwnerAt, Reply, Resume, ResumedWaiter},
    id::{OwnerId, WaiterNumber},
    name::LockName,
    view::{EDGES, WaitEdge, WaiterView},
};

use super::{
    board::Board,
    line::{Line, Place, Turn},
    round::{Masters, stamped},
};
use crate::{
    clock,
    redis::decode::wait_edge,
    store::{Answer, Observer, Stamped},
};

/// Longest random pause before a name that came free elsewhere is tried, so that waiting coordinators do not collide.
const LOTS: Duration = Duration::from_millis(5);

/// State that the store's tasks share.
pub(super) struct Inner {
    pub(super) masters: Arc<Masters>,
    pub(super) board: Board,
    pub(super) lines: Lines,
    pub(super) observer: OnceLock<Observer>,
}

/// Queues of all names.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<LockName, Line>>);

impl Lines {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Line>> {
        // A panic elsewhere can't leave it torn: each use is one step of a line.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first acquire of a name, if it begins now.
    fn begin(&self, name: &LockName) -> Option<Turn> {
        let mut lines = self.lock();
        lines.get_mut(name)?.begin()
    }

    /// Returns the first waiters of a name, and their number.
    pub(super) fn waiters(&self, name: &LockName, most: usize) -> (Vec<WaiterView>, u64) {
        let lines = self.lock();
        let Some(line) = lines.get(name) else {
            return (Vec::new(), 0);
        };
        let waiting = line.iter().filter(|place| place.waits());
        let shown = waiting.clone().take(most);
        let shown = shown.map(Place::view).collect();
        (shown, u64::try_from(waiting.count()).unwrap_or(u64::MAX))
    }

    /// Returns the waiters' edges for the detector of deadlocks.
    pub(super) fn edges(&self, name: &LockName) -> Vec<WaitEdge> {
        let lines = self.lock();
        let places = lines.get(name).into_iter().flat_map(Line::iter);
        let waiting = places.filter(|place| place.waits()).take(EDGES);
        waiting
            .map(|place| wait_edge(place.owner(), place.view()))
            .collect()
    }

    /// Notes whether waiters of other coordinators were woken by a release.
    pub(super) fn others_wait(&self, name: &LockName, others_wait: bool) {
        if let Some(line) = self.lock().get_mut(name) {
            line.others_wait = others_wait;
        }
    }
}

impl Inner {
    /// Queues an acquire, and begins it if it is the first.
    pub(super) fn line_up(
        self: &Arc<Self>,
        name: LockName,
        caller: Caller,
        acquire: Acquire,
        answer: Answer,
    ) {
        let owner = acquire.owner;
        let waits = acquire.wait;
        let mut lines = self.lines.lock();
        let line = lines.entry(name.clone()).or_default();
        let known = line.position(&owner);
        let is_stuck = line.is_stuck();
        if known.is_none() && is_stuck && !waits {
            drop(lines);
            return self.tell_busy(name, answer);
        }
        let mut answer = Some(answer);
        if known.is_none() {
            let is_first = line.is_empty();
            // The first one, and one that does not wait, get the result as their answer.
            let result = answer.take_if(|_| is_first || !waits);
            line.join(Turn { acquire, caller }, self.masters.time(), result);
        }
        let position = line.position(&owner).unwrap_or(0);
        let next = if is_stuck || position > 0 {
            None
        } else {
            line.begin()
        };
        drop(lines);
        if let Some(answer) = answer {
            let reply = Reply::Queued {
                position: place_number(position),
                expires_in: None,
            };
            self.tell(&name, answer, Ok(self.stamp(reply)));
        }
        self.spawn(name, next);
    }

    /// Carries an acquire out in the background.
    fn spawn(self: &Arc<Self>, name: LockName, turn: Option<Turn>) {
        if let Some(turn) = turn {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.drive(&name, turn).await });
        }
    }

    /// Removes an owner id from the queue; returns false if it is not there.
    pub(super) fn leave(&self, name: &LockName, owner: &OwnerId) -> bool {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(name) else {
            return false;
        };
        let left = line.leave(owner);
        if line.is_over() {
            lines.remove(name);
        }
        drop(lines);
        let Some(left) = left else {
            return false;
        };
        if let Some(answer) = left.answer {
            let reply = Reply::Busy { holder: None };
            self.tell(name, answer, Ok(self.stamp(reply)));
        }
        true
    }

    /// Removes the waiter of a number from the queue, and returns it as it was.
    pub(super) fn force_waiter(&self, name: &LockName, number: WaiterNumber) -> Option<OwnerAt> {
        let former = {
            let lines = self.lines.lock();
            let place = lines.get(name)?.numbered(number)?;
            OwnerAt {
                owner: place.owner(),
                coordinator: place.turn.caller.coordinator.clone(),
            }
        };
        self.leave(name, &former.owner).then_some(former)
    }

    /// Begins the first acquire of a name, which may have come free.
    pub(super) fn try_next(self: &Arc<Self>, name: &LockName) {
        self.spawn(name.clone(), self.lines.begin(name));
    }

    /// Does the same after a release that was just sent; after a random pause if other coordinators wait too.
    pub(super) fn after_release(self: &Arc<Self>, name: &LockName) {
        let others_wait = match self.lines.lock().get(name) {
            None => return,
            Some(line) => line.others_wait,
        };
        if others_wait {
            self.draw_lots(name.clone());
        } else {
            self.try_next(name);
        }
    }

    /// Begins it after a random pause, once for all requests meanwhile.
    pub(super) fn draw_lots(self: &Arc<Self>, name: LockName) {
        match self.lines.lock().get_mut(&name) {
            Some(line) if !line.draws_lots => line.draws_lots = true,
            _ => return,
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(LOTS.mul_f64(fastrand::f64())).await;
            if let Some(line) = inner.lines.lock().get_mut(&name) {
                line.draws_lots = false;
            }
            inner.try_next(&name);
        });
    }

    /// Executes a refresh: reports whether the caller's oldest waiter is queued, and tries the first acquire again.
    pub(super) async fn refresh(
        self: Arc<Self>,
        name: LockName,
        oldest: Option<OwnerId>,
    ) -> Result<Stamped, StoreError> {
        let sent_at = clock::now();
        let (attached, turn) = {
            let mut lines = self.lines.lock();
            let mut line = lines.get_mut(&name);
            let attached = oldest.is_none_or(|oldest| {
                line.as_ref()
                    .is_some_and(|line| line.position(&oldest).is_some())
            });
            let stuck = line.as_mut().filter(|line| line.is_stuck());
            (attached, stuck.and_then(|line| line.begin()))
        };
        let expires_in = match turn {
            Some(turn) => self.drive(&name, turn).await?,
            None => None,
        };
        let reply = Reply::Refreshed {
            current: Vec::new(),
            expires_in,
            attached,
        };
        Ok(stamped(reply, self.masters.time(), sent_at))
    }

    /// Executes a resume: here, if the place is in a queue of this coordinator, or else on the masters.
    pub(super) fn resume(
        self: &Arc<Self>,
        name: LockName,
        caller: Caller,
        resume: Resume,
        answer: Answer,
    ) {
        if let Some(reply) = self.resume_place(&name, &caller, &resume) {
            return self.tell(&name, answer, Ok(self.stamp(reply)));
        }
        if let Some(reason) = self.board.refused(&self.masters) {
            return answer.give(Err(StoreError::Unavailable { reason }));
        }
        let resumed = self.masters.resume(&name, caller, &resume);
        self.answer(name, answer, resumed.outcome());
    }

    /// Gives a queued acquire its next owner id. A try in flight then belongs to no owner: its grant is released, and the
    /// acquire is tried again.
    fn resume_place(&self, name: &LockName, caller: &Caller, resume: &Resume) -> Option<Reply> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(name)?;
        let mut ids = [resume.next].into_iter().chain(resume.from.iter().copied());
        let owner = ids.find(|owner| line.position(owner).is_some())?;
        let place = line.take_over(&owner, caller, resume)?;
        if let Some(former) = place.answer.take() {
            self.tell(name, former, Ok(self.stamp(Reply::Lost(Loss::Resumed))));
        }
        let waiter = Box::new(ResumedWaiter {
            acquire: place.turn.acquire.clone(),
            predecessors: place.predecessors.clone(),
        });
        Some(Reply::ResumedWait {
            waiter,
            position: place_number(line.position(&resume.next)?),
            expires_in: None,
        })
    }

    /// Returns the result of a command that no master was asked about.
    pub(super) fn stamp(&self, reply: Reply) -> Stamped {
        stamped(reply, self.masters.time(), clock::now())
    }

    /// Gives an answer, after the observer has seen it. Neither blocks, nor sends a command, so the queues may be locked.
    pub(super) fn tell(
        &self,
        name: &LockName,
        answer: Answer,
        result: Result<Stamped, StoreError>,
    ) {
        if let Ok(stamped) = &result {
            self.observe(name, stamped);
        }
        answer.give(result);
    }

    /// Answers a command with the result of a task.
    pub(super) fn answer(
        self: &Arc<Self>,
        name: LockName,
        answer: Answer,
        outcome: impl Future<Output = Result<Stamped, StoreError>> + Send + 'static,
    ) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let result = outcome.await;
            inner.tell(&name, answer, result);
        });
    }

    pub(super) fn observe(&self, name: &LockName, stamped: &Stamped) {
        if let Some(observer) = self.observer.get() {
            observer.observe(name, stamped);
        }
    }
}

pub(super) fn place_number(position: usize) -> u64 {
    u64::try_from(position)
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}
