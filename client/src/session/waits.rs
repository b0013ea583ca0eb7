//! Acquires that have not been answered: sent, sent again on the next stream, cancelled, given up.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    holds::Owned,
    ids::Ids,
    machine::Machine,
    output::Output,
    pending::{RETRY_FIRST, RETRY_MAX, Release},
    spec::AcquireSpec,
    stream::InFlight,
    waiting::Waiting,
};
use crate::{
    clock::{Moment, earlier},
    error::{AcquireError, Failure},
    proto::v1::{self, session_request::Request as Body},
};

impl<A, H> Machine<A, H> {
    /// Begins an acquire. `id` is the caller's, and rises with every acquire of this session.
    pub(super) fn acquire(&mut self, now: Moment, id: u64, spec: AcquireSpec, reply: A) {
        self.expire(now);
        let wait = spec.wait.filter(|wait| !wait.is_zero());
        let waiting = Waiting {
            reply,
            deadline: wait.map(|wait| now.after(wait)),
            spec,
            sent_as: None,
            queued: false,
            ticket: None,
            failure: None,
            retry_in: RETRY_FIRST,
            retry_at: None,
        };
        if self.ending {
            return self.fail(waiting, |name| AcquireError::SessionClosed { name });
        }
        self.waits_end_at = earlier(self.waits_end_at, waiting.deadline);
        self.waiting.insert(id, waiting);
        self.send_acquire(now, id);
    }

    /// Cancels an acquire whose caller waits no longer. Does nothing once it has been answered.
    pub(super) fn cancel(&mut self, now: Moment, id: u64) {
        self.expire(now);
        if let Some(waiting) = self.waiting.remove(&id) {
            self.abandon(&waiting);
        }
    }

    pub(super) fn send_acquire(&mut self, now: Moment, id: u64) {
        let (Some(stream), Some(waiting)) = (&mut self.stream, self.waiting.get_mut(&id)) else {
            return;
        };
        // From the connection on, what is in flight settles, so that a busy stream is left too.
        let has_next = self.next.is_some();
        let pauses = waiting.retry_at.is_some_and(|at| now < at);
        if has_next || !stream.accepts() || waiting.sent_as.is_some() || pauses {
            return;
        }
        if stream.holds_back(waiting.spec.actor, id) {
            return;
        }
        self.outputs.extend(stream.wake(now));
        let body = Body::Acquire(waiting.spec.message(waiting.remaining(now)));
        let output = stream.send(body, InFlight::Acquire(id), waiting.spec.trace.as_ref());
        self.outputs.push_back(output);
        waiting.sent_as = Some(stream.last_request_id());
        waiting.retry_at = None;
        if waiting.spec.is_try() {
            waiting.deadline = Some(now);
            self.waits_end_at = earlier(self.waits_end_at, waiting.ends_at());
        }
    }

    /// Notes that an acquire has a place in the queue.
    pub(super) fn queued(&mut self, id: u64, queued: v1::SessionQueued) {
        let in_flight = self
            .stream
            .as_ref()
            .and_then(|stream| stream.in_flight.get(&id));
        let Some(InFlight::Acquire(acquire)) = in_flight else {
            return;
        };
        if let Some(waiting) = self.waiting.get_mut(acquire) {
            waiting.queued = true;
            (waiting.failure, waiting.retry_in) = (None, RETRY_FIRST);
            let can_move = waiting.spec.locks.as_slice().len() == 1 && !queued.ticket.is_empty();
            waiting.ticket = can_move.then(|| Ids::new(queued.ticket));
        }
    }

    /// Sends the acquires of this actor that were held back, after an abandoned one has been answered and its grant given back.
    pub(super) fn send_held_back(&mut self, now: Moment, actor: u64) {
        let stream = self.stream.as_mut();
        let held_back = stream.map(|stream| stream.abandoned_answered(actor));
        for id in held_back.unwrap_or_default() {
            self.send_acquire(now, id);
        }
    }

    /// Lets an acquire wait on that the coordinator could not serve because of its store, and asks for it again after a pause. It has lost
    /// its place in the queue.
    pub(super) fn wait_for_store(
        &mut self,
        now: Moment,
        acquire: u64,
        mut waiting: Waiting<A>,
        failure: Failure,
    ) {
        if waiting.failure.is_none() {
            let lock = &*waiting.spec.locks.label();
            // Once in a row, since no caller sees it, and it may go on for ever.
            tracing::warn!(
                lock,
                "an acquire could not be served, and is asked for again until its wait is over: {failure}"
            );
        }
        let asked = failure.retry_after().unwrap_or_default().min(RETRY_MAX);
        let pause = waiting.retry_in.max(asked);
        waiting.retry_in = (waiting.retry_in * 2).min(RETRY_MAX);
        waiting.failure = Some(failure);
        self.waiting.insert(acquire, waiting);
        self.ask_again(acquire);
        let retry_at = Some(now.after(pause));
        if let Some(waiting) = self.waiting.get_mut(&acquire) {
            waiting.retry_at = retry_at;
        }
        self.acquires_due = earlier(self.acquires_due, retry_at);
    }

    /// Asks again for the acquires whose pause is over.
    pub(super) fn repeat_acquires(&mut self, now: Moment) {
        if self.acquires_due.is_none_or(|at| now < at) {
            return;
        }
        let is_due = |waiting: &Waiting<A>| waiting.retry_at.is_some_and(|at| at <= now);
        let waiting = self.waiting.iter().filter(|(_, waiting)| is_due(waiting));
        for acquire in waiting.map(|(acquire, _)| *acquire).collect::<Vec<_>>() {
            self.send_acquire(now, acquire);
        }
        // Where it could not be sent, the next stream is asked.
        let pauses = self.waiting.values().filter_map(|waiting| waiting.retry_at);
        self.acquires_due = pauses.filter(|at| now < *at).min();
    }

    /// Sets the alarm for the earliest end of a wait.
    pub(super) fn wake_for_waits(&mut self) {
        self.waits_end_at = self.waiting.values().filter_map(Waiting::ends_at).min();
    }

    pub(super) fn end_waits(&mut self, now: Moment) {
        if self.waits_end_at.is_none_or(|at| now < at) {
            return;
        }
        let ended = self.take_waiting(|waiting| waiting.ends_at().is_some_and(|at| at <= now));
        let unreachable = self.unreachable.clone();
        for waiting in ended {
            self.abandon(&waiting);
            // Only a coordinator can say that a lock was busy all the while; here none did.
            let failure = waiting.failure.clone();
            self.fail(waiting, |name| match (failure, &unreachable) {
                (Some(failure), None) => AcquireError::refused(name, failure),
                (_, unreachable) => AcquireError::unconnected(name, unreachable.as_ref()),
            });
        }
        self.wake_for_waits();
    }

    /// Fails the acquires on this stream of which the coordinator has said nothing yet: one of them has ended it, and would end the
    /// next one.
    pub(super) fn fail_unheard(&mut self, number: u64, failure: &Failure) {
        let stream = self.stream.as_ref();
        if stream.is_some_and(|stream| stream.number == number) {
            let is_unheard = |waiting: &Waiting<A>| waiting.sent_as.is_some() && !waiting.queued;
            self.fail_waiting(is_unheard, |name| {
                let source = failure.clone();
                AcquireError::Refused { name, source }
            });
        }
    }

    pub(super) fn fail_waiting(
        &mut self,
        which: impl Fn(&Waiting<A>) -> bool,
        error: impl Fn(Arc<str>) -> AcquireError,
    ) {
        for waiting in self.take_waiting(which) {
            self.fail(waiting, &error);
        }
    }

    /// Answers an acquire with an error about its locks.
    pub(super) fn fail(
        &mut self,
        waiting: Waiting<A>,
        error: impl FnOnce(Arc<str>) -> AcquireError,
    ) {
        let error = error(waiting.spec.locks.label());
        self.outputs
            .push_back(Output::Acquired(waiting.reply, Err(error)));
    }

    /// Tells the coordinator that the caller waits no longer, and remembers to give back a grant that crosses the message.
    fn abandon(&mut self, waiting: &Waiting<A>) {
        if let (Some(stream), Some(request_id)) = (&mut self.stream, waiting.sent_as) {
            let cancel = stream.cancel(request_id, waiting.spec.actor);
            self.outputs.push_back(cancel);
        } else if let (None, Some(ticket)) = (&self.stream, &waiting.ticket) {
            // It may have come to a grant meanwhile.
            let owned = Owned::stray(waiting.spec.locks.label(), ticket.clone());
            self.put_off(Release::new(owned, None));
        }
    }

    /// Asks for an acquire from the start, on the next stream that takes acquires.
    pub(super) fn ask_again(&mut self, acquire: u64) {
        if let Some(waiting) = self.waiting.get_mut(&acquire) {
            waiting.unsend();
            waiting.ticket = None;
        }
    }

    fn take_waiting(&mut self, which: impl Fn(&Waiting<A>) -> bool) -> Vec<Waiting<A>> {
        let (taken, left): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(_, waiting)| which(waiting));
        self.waiting = left;
        taken.into_values().collect()
    }
}
