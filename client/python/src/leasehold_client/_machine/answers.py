"""Handling of each message from the coordinator."""

from __future__ import annotations

import logging

from .._clock import SECOND, earlier, from_wire
from .._failure import Failure, from_session, protocol
from .._lease import Lease, ReleaseRequest, reason_from_wire
from .._reasons import PASSING
from ..errors import Busy, Refused, TimedOut, refused, unconnected
from ..v1 import session_pb2, types_pb2
from ..views import Holder
from .ids import Ids
from .output import Acquired, Draining, Granted
from .pending import ChangeRequest, Owned, Release, Waiting
from .resume import Resuming
from .stream import Abandoned, AcquireInFlight, Hearing, InFlight

log = logging.getLogger("leasehold_client")


class Answers(Resuming):
    """Part of the machine for messages."""

    def message(self, now: int, number: int, message: session_pb2.SessionResponse) -> None:
        """Handles a message on this stream."""
        self.expire(now)
        if self.next and self.next.number == number:
            return self.message_of_next(now, self.next, message)
        stream = self.stream
        if stream is None or stream.number != number:
            return
        if not stream.is_heard:
            if message.WhichOneof("response") == "heartbeat" and stream.opened:
                # It lives, and keeps what has not been moved.
                stream.opened.answered(now)
            if stream.hearing is Hearing.WITHHELD:
                stream.withheld.append(message)
            # An end counts at once, whatever becomes of the attempt: somebody else may have the lock.
            if message.HasField("lost"):
                self.lost_in_doubt(now, message.lost.locks)
            elif message.HasField("closed"):
                self.hang_up(now, number)
            elif message.HasField("draining") and not message.draining.keeps_serving:
                # A plain end after this is the coordinator's stop, which leaves what is held.
                stream.draining = now + from_wire(message.draining.deadline)
            return
        self._heard(now, message)
        self.leave_if_drained(now)
        self.ask_next_if_due(now)

    def _heard(self, now: int, message: session_pb2.SessionResponse) -> None:
        """Handles a message. A fault costs the request that it answers, and nothing else."""
        request = self.stream.in_flight.get(message.request_id) if self.stream else None
        waiting = self.waiting.get(request.acquire) if isinstance(request, AcquireInFlight) else None
        try:
            self._handle(now, message)
        except Exception:
            log.exception("failed to handle a message of the coordinator: the request that it answers fails")
            failure = protocol("the coordinator's answer could not be handled; the log says why")
            self._take(message.request_id)
            if isinstance(request, AcquireInFlight) and waiting:
                self.waiting.pop(request.acquire, None)
                self.give_back(list(message.granted.locks))
                self._refuse(waiting, failure)
            elif isinstance(request, Release | ChangeRequest):
                self.reply(request.reply, failure)

    def _handle(self, now: int, message: session_pb2.SessionResponse) -> None:
        number, kind = message.request_id, message.WhichOneof("response")
        actor = self._abandoned_by(number)
        if kind == "granted":
            self._granted(now, number, message.granted)
        elif kind == "not_granted":
            self._not_granted(number, message.not_granted)
        elif kind == "released":
            release = self._take(number)
            if isinstance(release, Release):
                self.released(now, release, message.released.released)
        elif kind in ("value_set", "downgraded", "reduced"):
            request = self._take(number)
            if isinstance(request, ChangeRequest):
                self.changed(now, request, bool(getattr(getattr(message, kind), kind)))
        elif kind == "heartbeat":
            self._heartbeat_acked(now, message.heartbeat)
        elif kind == "lost":
            for lock in message.lost.locks:
                reason = reason_from_wire(lock.reason)
                if self.holds.lost(lock.owner_id, now, reason):
                    log.warning("the coordinator says that lock %r is lost: %s", lock.name, reason.value)
        elif kind == "release_requested":
            asked = message.release_requested
            self.holds.ask(asked.owner_id, ReleaseRequest._from(asked))
        elif kind == "draining":
            self._draining(now, message.draining)
        elif kind == "closed":
            if self.stream:
                self.hang_up(now, self.stream.number)
        elif kind == "queued":
            self.queued(number, message.queued)
        elif kind == "error":
            self._failed(now, number, from_session(message.error))
        # Anything else was opened before, or is what a newer coordinator says besides, which is not for us.
        if actor is not None and self._abandoned_by(number) is None:
            self.send_held_back(now, actor)

    def hang_up(self, now: int, number: int) -> None:
        """Cuts a stream."""
        raise NotImplementedError

    def _abandoned_by(self, number: int) -> int | None:
        """Returns the actor of this acquire, if it was abandoned and has not been answered."""
        request = self.stream.in_flight.get(number) if self.stream else None
        return request.actor if isinstance(request, Abandoned) else None

    def _take(self, number: int) -> InFlight | None:
        """Returns the request that this answers, if it is still in flight."""
        return self.stream.in_flight.pop(number, None) if self.stream else None

    def _take_acquire(self, number: int) -> tuple[int, Waiting] | None:
        """Returns the acquire that this answers, if its caller still waits. It is no longer among those that wait."""
        request = self._take(number)
        if not isinstance(request, AcquireInFlight):
            return None
        waiting = self.waiting.pop(request.acquire, None)
        return None if waiting is None else (request.acquire, waiting)

    def _granted(self, now: int, number: int, granted: session_pb2.SessionGranted) -> None:
        answered, locks = self._take_acquire(number), list(granted.locks)
        # Whatever was granted and has nobody to hold it is given back.
        if answered is None:
            return self.give_back(locks)
        acquire, waiting = answered
        if not waiting.spec.are_of(locks):
            self.give_back(locks)
            return self._refuse(waiting, protocol("the coordinator granted another lock"))
        sent_at = self.stream.heartbeats.sent_at(granted.acked_heartbeat) if self.stream else None
        if sent_at is not None and now < sent_at + from_wire(granted.valid_for) and not self.is_closing:
            bounds = {bound.owner_id: sent_at + from_wire(bound.ends_in) for bound in granted.bounded}
            return self.hold(waiting, locks, bounds, sent_at + from_wire(granted.valid_for))
        log.warning("a grant of lock %r came too late to be used", waiting.spec.label)
        # If it crossed our `close`, that gives it back.
        if not self.is_closing:
            self.give_back(locks)
        if waiting.spec.is_try:
            self.fail(waiting, unconnected(waiting.spec.label, None))
        else:
            self.wait_on(acquire, waiting)
            self.send_acquire(now, acquire)
            self.wake_for_waits()

    def hold(
        self,
        waiting: Waiting,
        locks: list[session_pb2.GrantedLock],
        bounds: dict[bytes, int],
        deadline: int,
    ) -> None:
        """Hands the granted locks to the caller. They are good until the deadline, or until their bounds."""
        granted = []
        for asked, lock in zip(waiting.spec.locks, locks, strict=True):
            ends_at = bounds.get(lock.owner_id)
            # Coordinators that name no number grant all that was asked for.
            permits = None if asked.permits is None else (lock.permits or asked.permits)
            lease = Lease(asked.name, lock.fencing_token, deadline, ends_at, permits)
            check_at = deadline if ends_at is None else min(ends_at, deadline)
            key = self.holds.insert(lease, lock.owner_id, waiting.spec.lock_delay, check_at)
            granted.append(Granted(key, lease, lock.hold_count))
        self.outputs.append(Acquired(waiting.reply, granted))

    def give_back(self, locks: list[session_pb2.GrantedLock]) -> None:
        """Releases granted locks that nobody takes."""
        for lock in locks:
            self.send_release(Release(Owned(lock.name, Ids(lock.owner_id))))

    def _not_granted(self, number: int, answer: session_pb2.SessionNotGranted) -> None:
        answered = self._take_acquire(number)
        if answered is None:
            return
        acquire, waiting = answered
        label, wait = waiting.spec.label, waiting.spec.wait
        # We did not cancel it: the coordinator puts its waiters out because it goes away.
        if answer.outcome == types_pb2.ACQUIRE_OUTCOME_CANCELLED and self.is_draining:
            return self.wait_on(acquire, waiting)
        holder = Holder._from(answer.holder) if answer.HasField("holder") else None
        if wait is None or answer.outcome not in (
            types_pb2.ACQUIRE_OUTCOME_BUSY,
            types_pb2.ACQUIRE_OUTCOME_TIMED_OUT,
        ):
            what = f"the coordinator ended the acquire unasked: outcome {answer.outcome}"
            self.fail(waiting, Refused(label, protocol(what)))
        elif wait == 0:
            self.fail(waiting, Busy(label, holder))
        else:
            self.fail(waiting, TimedOut(label, wait / SECOND, holder))

    def _heartbeat_acked(self, now: int, ack: session_pb2.SessionHeartbeatAck) -> None:
        is_idle, stream = self.is_idle, self.stream
        if stream is None:
            return
        sent_at = stream.heartbeats.sent_at(ack.acked_heartbeat)
        if sent_at is None:
            log.debug("an answer to a heartbeat that was never sent, or long ago")
            return
        if stream.opened:
            stream.opened.answered(now)
            if is_idle and ack.HasField("next_within"):
                stream.opened.rest(sent_at, from_wire(ack.next_within))
        self.holds.extend(sent_at + from_wire(ack.valid_for))
        # No attempt to move has come to anything yet, so that there is no need any more.
        if stream.silent:
            stream.silent = False
            self.send_unsent(now)

    def _draining(self, now: int, draining: session_pb2.SessionDraining) -> None:
        if draining.keeps_serving:
            log.debug("the coordinator asks the session to move")
            self.ask_to_move()
        elif self.stream:
            until = now + from_wire(draining.deadline)
            self.stream.draining = until
            if self.stream.opened:
                self.stream.opened.next_heartbeat = now
            self.outputs.append(Draining(until))

    def _failed(self, now: int, number: int, failure: Failure) -> None:
        request = self._take(number)
        if isinstance(request, AcquireInFlight):
            waiting = self.waiting.pop(request.acquire, None)
            if waiting is None:
                return
            # What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
            waits_on = failure.is_retryable and failure.code != "ABORTED" and not waiting.spec.is_try
            if waits_on and (self.is_draining or failure.reason in PASSING):
                self.wait_on(request.acquire, waiting)
                if not self.is_draining:
                    log.info("lock %r waits on, although the coordinator can't serve it now: %s", waiting.spec.label, failure)
                    waiting.put_off(now, failure)
                    self.waits_retry_at = earlier(self.waits_retry_at, waiting.retry_at)
                    self.wake_for_waits()
            else:
                self._refuse(waiting, failure)
        elif isinstance(request, Release):
            self.release_failed(now, request, failure)
        elif isinstance(request, ChangeRequest):
            self.reply(request.reply, failure)
        elif not isinstance(request, Abandoned):
            log.debug("the coordinator could not serve a request: %s", failure)

    def refuse_unanswered(self, failure: Failure) -> None:
        """Fails the acquires and changes of which the stream said nothing: one of them broke it, and would break the next one too."""
        in_flight = self.stream.in_flight if self.stream else {}
        for number, request in list(in_flight.items()):
            if isinstance(request, AcquireInFlight):
                waiting = self.waiting.get(request.acquire)
                if waiting and not waiting.queued:
                    del in_flight[number], self.waiting[request.acquire]
                    self._refuse(waiting, failure)
            elif isinstance(request, ChangeRequest):
                del in_flight[number]
                self.reply(request.reply, failure)

    def _refuse(self, waiting: Waiting, failure: Failure) -> None:
        self.fail(waiting, refused(waiting.spec.label, failure))
