"""Inputs of a session's machine: what callers ask for, the ends of streams, and time.

- `next` is **asked** when what `stream` has been asked has been answered, or after a while. From then on what `stream` says is
  withheld, since it may know less of what is held than it did.
- `next` **opens**: it becomes `stream`. What it resumed is under its next owner id, what it refused is lost, what the former had
  not answered is asked anew. The former is closed.
- `next` **declines**: nothing was resumed; what `stream` said meanwhile counts after all.
- `next` **ends without an answer**: what it was asked for may be under its next owner ids, which are tried from now on; what
  `stream` says counts no more, unless it ends something. If the coordinator may have heard of that end, it may have let go of it,
  so that holds are suspended or lost.
- `stream` **ends**: holds are suspended or lost, and whatever `next` resumes of what is lost is given back there.
- `stream` **ends because its coordinator stops**: the coordinator left the keys in the store to expire, so holds stay held until
  their own deadlines, and `next` resumes what it can before that.
"""

from __future__ import annotations

import logging
from enum import Enum

from .._clock import SECOND, from_wire
from .._failure import Failure
from .._reasons import SESSION_ENDED
from ..errors import ConnectError, LostReason, SessionClosed, unconnected
from .answers import Answers
from .fate import Fate
from .output import AcquireReply, Ended, HangUp, HoldReply, Leave
from .spec import AcquireSpec, Change
from .stream import CLOSE_TIMEOUT

log = logging.getLogger("leasehold_client")

DRAINING_HEARTBEATS = 5
"""Heartbeats per TTL that a session sends to a coordinator that is going away, so that much of the TTL is left afterwards."""
PLACES_KEPT = 10 * SECOND
"""Time for which the store keeps the places of waiters whose coordinator has stopped."""


class StreamEnd(Enum):
    """End of a stream."""

    LEFT = "left"
    """It broke, or its coordinator left it; its holds may be resumed within the grace."""
    DISOWNED = "disowned"
    """The coordinator no longer knows who the client is, and leaves the holds for as long as it promised."""
    STOPPED = "stopped"
    """The coordinator stopped, and left everything to expire: holds stay held until their own deadlines."""
    BY_OPERATOR = "by_operator"
    """An operator ended the session, and took everything from it."""


class Machine(Answers):
    """One session, over all the streams that it has in its life."""

    def acquire(self, now: int, number: int, spec: AcquireSpec, reply: AcquireReply) -> None:
        """Begins an acquire. The number is the caller's, and rises with every acquire of this session."""
        self.expire(now)
        self.begin_acquire(now, number, spec, reply)

    def cancel(self, now: int, number: int) -> None:
        """Cancels an acquire whose caller waits no longer. Does nothing once it has been answered."""
        self.expire(now)
        waiting = self.waiting.pop(number, None)
        if waiting:
            self.abandon(waiting)

    def refuse_acquires(self, now: int) -> None:
        """Fails all acquires, from now on too, because the session is to end once the work under its holds has."""
        self.expire(now)
        self.refuses_acquires = True
        for waiting in self.take_waiting(lambda _: True):
            self.abandon(waiting)
            self.fail(waiting, SessionClosed(waiting.spec.label))

    def release(self, now: int, key: int, trace: str = "", reply: HoldReply | None = None) -> None:
        """Handles the release of a grant: once for each, even a lost one."""
        self.expire(now)
        self.begin_release(now, key, trace, reply)

    def change(self, now: int, key: int, change: Change, trace: str, reply: HoldReply) -> None:
        """Handles the request to change a hold."""
        self.expire(now)
        self.begin_change(now, key, change, trace, reply)

    def connect_failed(self, now: int, error: ConnectError) -> None:
        """Notes that no coordinator could be reached and opened a session.

        Callers that wanted to wait go on waiting, unless the next attempt would fail as well.
        """
        self.expire(now)
        self.unreachable = error
        doomed = not error.is_retryable
        self.fail_waiting(
            lambda waiting: waiting.sent_as is None and (doomed or waiting.spec.is_try),
            lambda name: unconnected(name, error),
        )

    def stream_ended_by(self, now: int, number: int, failure: Failure | None) -> StreamEnd:
        """Handles the end of the session's stream, plain or with this failure. Returns what the end means."""
        # A broken connection is no stop: the coordinator may still be there, hear of the break, and release everything.
        if failure is None:
            end = StreamEnd.STOPPED if self.is_draining else StreamEnd.LEFT
        elif failure.is_draining:
            end = StreamEnd.STOPPED
        elif failure.reason == SESSION_ENDED:
            end = StreamEnd.BY_OPERATOR
        else:
            end = StreamEnd.DISOWNED if failure.is_unauthenticated else StreamEnd.LEFT
            if failure.is_unreadable and self.stream and self.stream.number == number:
                self.refuse_unanswered(failure)
        self.stream_ended(now, number, end)
        return end

    def stream_ended(self, now: int, number: int, end: StreamEnd) -> None:
        """Handles the end of a stream.

        If the session was open on it, its locks are lost or suspended before anything else happens, unless its coordinator stopped.
        """
        self.expire(now)
        match end:
            case StreamEnd.LEFT:
                grace = from_wire(self.open.disconnect_grace)
            case StreamEnd.BY_OPERATOR:
                grace = 0
            case _:
                # Deadlines are earlier.
                grace = self.ttl or 0
        if self.is_next(number):
            return self.attempt_failed(now, Fate.DROPPED)
        stream = self.stream
        if stream is None or stream.number != number:
            return
        self.stream = None
        if self.ending or grace == 0:
            self.holds.end_with_stream(now)
            self.put_off_unanswered(stream)
            self.give_up_unsent()
        else:
            until = self.resume_until = now + grace
            if end is StreamEnd.STOPPED:
                self.stopped_until = max(until, now + PLACES_KEPT)
            else:
                self.holds.suspend(now, until if end is StreamEnd.LEFT else None)
            self.put_off_unanswered(stream)
        if self.ending:
            self.outputs.append(Ended())
            return
        # A try that was on its way may have been granted and lost with the stream; asking again could find our own former hold and
        # call it busy.
        self.fail_waiting(
            lambda waiting: waiting.spec.is_try and waiting.sent_as is not None,
            lambda name: unconnected(name, None),
        )
        for waiting in self.waiting.values():
            waiting.unsend()
        self.wake_for_waits()
        self.ask_next_if_due(now)

    def close(self, now: int) -> None:
        """Ends the session. Its holds are lost before the coordinator hears of it."""
        if self.ending:
            return
        self.expire(now)
        self.ending = True
        self.holds.end_all(now, LostReason.SESSION_CLOSED)
        self.fail_waiting(lambda _: True, SessionClosed)
        self.give_up_unsent()
        stream, self.next = self.next, None
        if stream and stream.resuming:
            # What it takes over is not the present stream's any more, and has to be given back here.
            self.outputs += [stream.send_close(), Leave(stream.number)]
        elif stream:
            self.outputs.append(HangUp(stream.number))
        if self.stream is None:
            self.outputs.append(Ended())
        elif self.stream.closing is None:
            self.send_close(now)

    def tick(self, now: int) -> None:
        """Does everything that is due at `now`."""
        self.expire(now)
        self.end_waits(now)
        self.repeat_acquires(now)
        self.end_overdue_replies(now)
        self.repeat_releases(now)
        if self.resume_until is not None and self.resume_until <= now:
            self.resume_until = None
            self.give_up_unsent()
        self.tick_next(now)
        self._tick_stream(now)

    def _tick_stream(self, now: int) -> None:
        stream = self.stream
        if stream is None:
            return
        if stream.closing is not None:
            if stream.closing <= now:
                self.hang_up(now, stream.number)
            return
        opened = stream.opened
        if opened is None:
            return
        if opened.silent_from + opened.ttl <= now:
            log.warning("no heartbeat was answered by %s for a TTL: the stream is given up", stream.endpoint)
            return self.hang_up(now, stream.number)
        if not stream.silent and opened.silent_from + opened.ttl // 2 <= now:
            log.info("no heartbeat was answered by %s for half the TTL: the session is to move", stream.endpoint)
            stream.silent = True
        if stream.move_again_at is not None and stream.move_again_at <= now:
            stream.asked_to_move, stream.move_again_at = True, None
        if opened.next_heartbeat <= now:
            interval = opened.heartbeat_interval
            if stream.draining is not None:
                interval = min(interval, opened.ttl // DRAINING_HEARTBEATS)
            self.outputs.extend(stream.send_heartbeat(now, interval))

    def hang_up(self, now: int, number: int) -> None:
        """Cuts a stream."""
        self.stream_ended(now, number, StreamEnd.LEFT)
        self.outputs.append(HangUp(number))

    def send_close(self, now: int) -> None:
        """Closes the session on its stream."""
        if self.stream:
            self.stream.closing = now + CLOSE_TIMEOUT
            self.outputs.append(self.stream.send_close())
