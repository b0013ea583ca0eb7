//! Acquires that have not been answered: sent, sent again on the next stream, cancelled, given up.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    holds::Owned, ids::Ids, machine::Machine, output::Output, pending::Release, spec::AcquireSpec,
    stream::InFlight, waiting::Waiting,
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
        if has_next || !stream.accepts() || waiting.sent_as.is_some() {
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
            self.fail(waiting, |name| {
                AcquireError::unconnected(name, unreachable.as_ref())
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
