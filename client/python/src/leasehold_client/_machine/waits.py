"""Acquires that have not been answered: sent, sent again on the next stream, cancelled, given up."""

from __future__ import annotations

from .._clock import earlier
from .._failure import invalid_field
from ..errors import Refused, SessionClosed, refused, unconnected
from ..v1 import session_pb2
from .ids import Ids
from .output import AcquireReply
from .pending import Owned, Release, Waiting
from .spec import AcquireSpec
from .state import State
from .stream import AcquireInFlight


class Waits(State):
    """Part of the machine for acquires."""

    def begin_acquire(self, now: int, number: int, spec: AcquireSpec, reply: AcquireReply) -> None:
        """Begins an acquire. The number is the caller's, and rises with every acquire of this session."""
        deadline = now + spec.wait if spec.wait else None
        waiting = Waiting(reply, spec, deadline)
        if self.ending or self.refuses_acquires:
            return self.fail(waiting, SessionClosed(spec.label))
        self.waits_end_at = earlier(self.waits_end_at, deadline)
        self.waiting[number] = waiting
        self.send_acquire(now, number)

    def send_acquire(self, now: int, number: int) -> None:
        """Sends an acquire, if the stream takes it."""
        stream, waiting = self.stream, self.waiting.get(number)
        if stream is None or waiting is None or not self.takes_acquires or waiting.sent_as is not None:
            return
        if waiting.retry_at is not None and now < waiting.retry_at:
            return
        waiting.retry_at = None
        if stream.holds_back(waiting.spec.actor, number):
            return
        try:
            acquire = waiting.spec.message(waiting.remaining(now))
        except (TypeError, ValueError) as error:
            # It would fail on each stream.
            del self.waiting[number]
            return self.fail(waiting, Refused(waiting.spec.label, invalid_field("acquire", str(error))))
        self.outputs.extend(stream.wake(now))
        request = session_pb2.SessionRequest(acquire=acquire)
        self.outputs.append(stream.send(request, AcquireInFlight(number), waiting.spec.trace))
        waiting.sent_as = stream.last_request_id
        if waiting.spec.is_try:
            waiting.deadline = now
            self.waits_end_at = earlier(self.waits_end_at, waiting.ends_at())

    def queued(self, request_id: int, queued: session_pb2.SessionQueued) -> None:
        """Notes that an acquire has a place in the queue."""
        request = self.stream.in_flight.get(request_id) if self.stream else None
        waiting = self.waiting.get(request.acquire) if isinstance(request, AcquireInFlight) else None
        if waiting:
            waiting.queued = True
            can_move = len(waiting.spec.locks) == 1 and queued.ticket
            waiting.ticket = Ids(queued.ticket) if can_move else None

    def send_held_back(self, now: int, actor: int) -> None:
        """Sends the acquires of this actor that were held back, after an abandoned one has been answered."""
        for number in self.stream.abandoned_answered(actor) if self.stream else ():
            self.send_acquire(now, number)

    def wake_for_waits(self) -> None:
        """Sets the alarm for the earliest end of a wait."""
        ends = (waiting.ends_at() for waiting in self.waiting.values())
        self.waits_end_at = min((end for end in ends if end is not None), default=None)

    def repeat_acquires(self, now: int) -> None:
        """Sends the acquires that are to be repeated now."""
        if self.waits_retry_at is None or now < self.waits_retry_at:
            return
        for number in list(self.waiting):
            self.send_acquire(now, number)
        retries = (waiting.retry_at for waiting in self.waiting.values())
        self.waits_retry_at = min((at for at in retries if at is not None), default=None)

    def end_waits(self, now: int) -> None:
        """Fails the acquires whose wait is over."""
        if self.waits_end_at is None or now < self.waits_end_at:
            return

        def is_over(waiting: Waiting) -> bool:
            ends_at = waiting.ends_at()
            return ends_at is not None and ends_at <= now

        for waiting in self.take_waiting(is_over):
            self.abandon(waiting)
            # Only a coordinator can say that a lock was busy all the while; here none did.
            label, failure = waiting.spec.label, waiting.refused
            self.fail(waiting, unconnected(label, self.unreachable) if failure is None or self.unreachable else refused(label, failure))
        self.wake_for_waits()

    def abandon(self, waiting: Waiting) -> None:
        """Tells the coordinator that the caller waits no longer, and remembers to give back a grant that crosses it."""
        if self.stream is not None and waiting.sent_as is not None:
            self.outputs.append(self.stream.cancel(waiting.sent_as, waiting.spec.actor))
        elif self.stream is None and waiting.ticket is not None:
            # It may have come to a grant meanwhile.
            self.put_off(Release(Owned(waiting.spec.label, waiting.ticket)))

    def ask_again(self, number: int) -> None:
        """Asks for an acquire from the start, on the next stream that takes acquires."""
        waiting = self.waiting.get(number)
        if waiting:
            waiting.unsend()
            waiting.ticket = None

    def wait_on(self, number: int, waiting: Waiting) -> None:
        """Lets an acquire wait on, to be asked for again."""
        self.waiting[number] = waiting
        # In the order in which they were asked for.
        self.waiting = dict(sorted(self.waiting.items(), key=lambda item: item[0]))
        self.ask_again(number)
