"""Moves of the session to another stream: their occasions, and the fate of requests on the former stream."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .._clock import MILLISECOND, SECOND, from_wire
from .._failure import from_session
from .._lease import reason_from_wire
from ..errors import ConnectError, unconnected
from ..v1 import session_pb2, types_pb2
from .fate import Fate, fate_of, fate_of_answer
from .output import HangUp
from .requests import Requests
from .stream import Hearing, Plain, Stream

log = logging.getLogger("leasehold_client")

SETTLING = SECOND
"""Time that the coordinator of the present stream has to answer requests in flight, before the next one is asked."""
MOVE_AGAIN = 10 * SECOND
"""Pause before a session that could not move as asked tries again."""
SHORTEST_ATTEMPT = 50 * MILLISECOND
"""Attempts to resume are not given up faster than this, however little time is left."""


class Moving(Requests):
    """Part of the machine for moves."""

    def connected(self, now: int, endpoint: str) -> int:
        """Opens the session on a new connection, at once or as soon as the present stream has answered its requests.

        Returns the number of the new stream.
        """
        self.expire(now)
        self.last_stream += 1
        self.next = Stream(self.last_stream, endpoint, now + SETTLING)
        self.ask_next_if_due(now)
        return self.last_stream

    def outdated(self) -> None:
        """Notes that the credentials with which the session was opened have been replaced."""
        if self.stream:
            self.stream.outdated = True

    def ask_to_move(self) -> None:
        """Notes that the coordinator, which goes on serving, asked the session to move. A pause after a failed move goes on."""
        if self.stream and self.stream.move_again_at is None:
            self.stream.asked_to_move = True

    def stays(self, now: int) -> bool:
        """Handles the failure of every attempt to open the session on another stream.

        The session stays on the present one, with outdated credentials if need be, unless that has to be left. Returns whether it
        stays.
        """
        stream = self.stream
        if stream is None or stream.must_be_left:
            return False
        if stream.asked_to_move:
            stream.asked_to_move, stream.move_again_at = False, now + MOVE_AGAIN
        stream.outdated = False
        return True

    def attempt_limit(self, now: int) -> int:
        """Returns the time limit of an attempt, to connect and again to open: not all of the time left to the holds."""
        deadline = self.holds.first_deadline(now)
        if deadline is None:
            return self.open_timeout
        return min(max((deadline - now) // 3, SHORTEST_ATTEMPT), self.open_timeout)

    def ask_next_if_due(self, now: int) -> None:
        """Sends the `open` on the next stream, unless the present one may yet answer something."""
        if self.next is None or self.next.asked:
            return
        may_answer = self.stream is not None and not self.stream.silent and self.stream.is_heard
        if not may_answer or not self.is_unsettled or self.next.open_by <= now:
            self._ask_next(now, self.next)

    def _ask_next(self, now: int, stream: Stream) -> None:
        # Noted before the messages are handed on.
        stream.begin(now, now + self.attempt_limit(now))
        request_id = stream.number_request(Plain.OPEN)
        for open in self.opens(now, stream):
            self.send_on(stream, session_pb2.SessionRequest(request_id=request_id, open=open))
        if self.stream and self.stream.is_heard:
            self.stream.hearing = Hearing.WITHHELD

    def opens(self, now: int, stream: Stream) -> list[session_pb2.SessionOpen]:
        """Returns the messages that open the session on the next stream."""
        raise NotImplementedError

    def send_on(self, stream: Stream, request: session_pb2.SessionRequest) -> None:
        """Sends a request that has its number."""
        raise NotImplementedError

    def message(self, now: int, number: int, message: session_pb2.SessionResponse) -> None:
        """Handles a message on this stream."""
        raise NotImplementedError

    def opened_in_part(self, now: int, request_id: int, part: session_pb2.SessionOpened) -> None:
        """Adds a part of the answer to `open`."""
        raise NotImplementedError

    def settle_attempt(self, fate: Fate) -> None:
        """Ends an attempt to resume that had no result that this session knows of."""
        raise NotImplementedError

    def tick_next(self, now: int) -> None:
        """Does what is due on the next stream."""
        self.ask_next_if_due(now)
        if self.next and self.next.open_by <= now:
            error = ConnectError.timed_out(self.next.endpoint, now - self.next.heartbeats.began)
            self._give_up_next(now, self.next.number, error)

    def _give_up_next(self, now: int, number: int, error: ConnectError) -> None:
        """Gives up the attempt to open a session on this stream."""
        self.attempt_failed(now, fate_of(error))
        self.outputs.append(HangUp(number, error))

    def message_of_next(self, now: int, stream: Stream, message: session_pb2.SessionResponse) -> None:
        """Handles a message on the stream that the session is being opened on."""
        kind = message.WhichOneof("response")
        if kind == "opened":
            self.opened_in_part(now, message.request_id, message.opened)
        elif kind == "error":
            error = ConnectError.broke(stream.endpoint, from_session(message.error))
            self._give_up_next(now, stream.number, error)

    def attempt_failed(self, now: int, fate: Fate) -> None:
        """Handles the end of the next stream, on which the session did not open."""
        stream, self.next = self.next, None
        if stream is None:
            return
        if stream.asked:
            self._attempt_ended(now, fate, in_progress=True)
            self.settle_attempt(fate)
            self._listen_again(now, fate)
        self.send_unsent(now)
        self.leave_if_drained(now)

    def _attempt_ended(self, now: int, fate: Fate, *, in_progress: bool) -> None:
        """Ends or suspends what a stream that has ended may have taken over."""
        if fate is Fate.DROPPED:
            # As when the stream ends that it is on, which this one may have become.
            self.holds.attempt_dropped(now, from_wire(self.open.disconnect_grace), in_progress=in_progress)
        elif fate is Fate.ENDED:
            self.holds.attempt_dropped(now, 0, in_progress=in_progress)

    def lost_in_doubt(self, now: int, locks: Iterable[session_pb2.LostLock]) -> None:
        """Handles the losses that a coordinator reports which may not be the one that has the holds.

        A hold that is lost without need does no harm.
        """
        # The client's own resume has others lose it as resumed.
        lost = {lock.owner_id: reason_from_wire(lock.reason) for lock in locks if lock.reason != types_pb2.LOST_REASON_RESUMED}
        if lost:
            log.warning("a coordinator says that locks are lost: %s", ", ".join({reason.value for reason in lost.values()}))
            self.holds.lost_in_doubt(now, lost)

    def overdue_message(self, now: int, message: session_pb2.SessionResponse) -> None:
        """Handles a message on a stream that did not open in time."""
        self.expire(now)
        match message.WhichOneof("response"):
            case "lost":
                self.lost_in_doubt(now, message.lost.locks)
            case "opened":
                # What it has resumed is named to the next coordinator as tried.
                self.lost_in_doubt(now, message.opened.refused)
            case "error":
                self.overdue_ended(now, fate_of_answer(from_session(message.error)))
            case "closed":
                self.overdue_ended(now, Fate.DROPPED)

    def overdue_ended(self, now: int, fate: Fate) -> None:
        """Handles the end of a stream that did not open in time, and may have been carried out.

        If its coordinator may have noticed the end, that may have released what this session had tried to take over.
        """
        self.expire(now)
        self._attempt_ended(now, fate, in_progress=False)

    def _listen_again(self, now: int, fate: Fate) -> None:
        """Handles the messages withheld from the stream before, if nothing was taken over from it."""
        stream = self.stream
        if stream is None:
            return
        withheld, stream.withheld = stream.withheld, []
        if stream.hearing is not Hearing.WITHHELD or fate is not Fate.DECLINED:
            stream.hearing = Hearing.DEAF
            return
        stream.hearing = Hearing.OPEN
        for message in withheld:
            self.message(now, stream.number, message)

    def leave(self, former: Stream, left_behind: bool) -> None:
        """Closes the stream that the session has moved from: nothing here owns the holds that are left on it."""
        # What is lost, but is to stay closed for its lock-delay, must not be released cleanly.
        if former.closing is None and not left_behind:
            self.outputs.append(former.send_close())
        for number in self.put_off_unanswered(former):
            # With a number again it was resumed.
            waiting = self.waiting.get(number)
            if waiting is None or waiting.sent_as is not None:
                continue
            if waiting.spec.is_try:
                # It may have been granted, and asking again could find that.
                del self.waiting[number]
                self.fail(waiting, unconnected(waiting.spec.label, None))
            else:
                self.ask_again(number)

    def send_unsent(self, now: int) -> None:
        """Puts all that could not be asked so far on the stream, as far as it takes it."""
        if self.takes_changes:
            changes, self.unsent_changes = self.unsent_changes, []
            for change in changes:
                self.send_change(now, change)
            releases = [release for release in self.unsent_releases if release.retry_at is None]
            self.unsent_releases = [release for release in self.unsent_releases if release.retry_at is not None]
            for release in releases:
                self.send_release(release)
        for number in list(self.waiting):
            self.send_acquire(now, number)
