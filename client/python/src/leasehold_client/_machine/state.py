"""State of a session, over all the streams that it has in its life, and what all parts of its machine share.

At most two streams at a time. `stream` has the session open on it. `next` is to have it next: it is there while there is no
`stream`, or while that one is to be left, and from its connection on. Of what is held or waited for:

| `stream` | `next` | a hold is | its owner id is | releases and changes | acquires |
|---|---|---|---|---|---|
| open | – | held | the confirmed one | are sent | are sent |
| outdated, or asked to move | – | held | the confirmed one | are sent | are sent |
| outdated, or asked to move | connected | held | the confirmed one | are put off | are put off |
| to be left | – | held | the confirmed one | are sent | are put off |
| to be left | connected | held | the confirmed one | are put off | are put off |
| to be left, not heard | asked | held | that or `next` | are put off | are put off |
| to be left, deaf | – or connected | held | that or one tried | are put off | are put off |
| –, it broke | any | suspended, if there is a grace; else lost | as above | are put off, or fail | are put off |
| –, its coordinator stopped | any | held | as above | are put off | are put off |

A stream that is outdated or asked to move need not be left: if no other one can be opened, the session stays on it and tries again
later. From `next` asked on, it is as any stream that is to be left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..errors import AcquireError, ConnectError
from ..v1 import session_pb2
from .holds import Holds
from .output import UNCONFIRMED, Acquired, HoldDone, HoldResult, Output
from .pending import ChangeRequest, Release, Replies, Waiting
from .stream import AcquireInFlight, Stream


class State:
    """State of a session."""

    def __init__(self, open_timeout: int, open: session_pb2.SessionOpen, draw: Callable[[], bytes]) -> None:
        """Makes a session without a stream. `draw` makes owner ids: 16 random bytes."""
        self.open = open
        # Time limit for a session to open once there is a connection.
        self.open_timeout = open_timeout
        # The TTL in force on the last stream.
        self.ttl: int | None = None
        self.draw = draw
        self.holds = Holds()
        # The waiting acquires, by the order in which they were asked for.
        self.waiting: dict[int, Waiting] = {}
        # No wait ends before this: a lower bound.
        self.waits_end_at: int | None = None
        # No acquire is repeated before this: a lower bound.
        self.waits_retry_at: int | None = None
        # Releases that no stream could be asked for so far, and those to be repeated.
        self.unsent_releases: list[Release] = []
        self.unsent_changes: list[ChangeRequest] = []
        # Callers that wait for the answers to releases and changes.
        self.replies = Replies()
        self.stream: Stream | None = None
        self.next: Stream | None = None
        self.last_stream = 0
        # If there is no stream: the time until which the session may resume the holds of the last one.
        self.resume_until: int | None = None
        # If there is no stream because its coordinator stopped: the time until which the store keeps the holds and places.
        self.stopped_until: int | None = None
        # This process wants the session to end.
        self.ending = False
        # It is to end once the work under its holds has.
        self.refuses_acquires = False
        # Why there is no stream, if attempts to connect have failed since the last one.
        self.unreachable: ConnectError | None = None
        self.outputs: deque[Output] = deque()

    def next_output(self) -> Output | None:
        """Returns the next thing to do, in order."""
        return self.outputs.popleft() if self.outputs else None

    @property
    def is_open(self) -> bool:
        """Whether there is a stream with a session on it."""
        return self.stream is not None

    @property
    def is_moving(self) -> bool:
        """Whether the session moves, or is to move, from a stream that it has."""
        return self.stream is not None and self.stream.is_to_be_left

    @property
    def is_draining(self) -> bool:
        """Whether the coordinator has said that it is going away."""
        return self.stream is not None and self.stream.draining is not None

    @property
    def is_outdated(self) -> bool:
        """Whether the stream was opened with credentials that have been replaced, and the session moves because of that."""
        return self.stream is not None and self.stream.outdated

    @property
    def is_closing(self) -> bool:
        """Whether the session has said `close` on its stream."""
        return self.stream is not None and self.stream.closing is not None

    @property
    def wants_connection(self) -> bool:
        """Whether the driver is to make another connection."""
        leaves = self.stream is None or self.stream.is_to_be_left
        return not self.ending and self.next is None and leaves

    def is_next(self, number: int) -> bool:
        """Returns whether this is the stream that is to have the session next."""
        return self.next is not None and self.next.number == number

    def is_orphaned(self, now: int) -> bool:
        """Returns whether a coordinator stopped so recently that the session can still resume its holds and places."""
        has_any = not self.holds.is_empty() or bool(self.waiting)
        return has_any and self.stopped_until is not None and now < self.stopped_until

    @property
    def takes_changes(self) -> bool:
        """Whether releases and changes can be sent: not while they could cross a change of owner."""
        return self.stream is not None and self.stream.is_heard and self.next is None

    @property
    def takes_acquires(self) -> bool:
        """Whether acquires can be sent. They are put off once there is a stream to move to."""
        return self.stream is not None and self.stream.accepts and not (self.next and self.stream.is_to_be_left)

    @property
    def is_unsettled(self) -> bool:
        """Whether an answer is about to come."""
        for request in self.stream.in_flight.values() if self.stream else ():
            if isinstance(request, AcquireInFlight):
                waiting = self.waiting.get(request.acquire)
                if waiting and not waiting.queued:
                    return True
            elif isinstance(request, Release | ChangeRequest):
                return True
        return False

    @property
    def is_idle(self) -> bool:
        """Whether the session has nothing, waits for nothing, and is asked for nothing."""
        return (
            self.holds.is_empty()
            and not self.waiting
            and not self.unsent_releases
            and not self.unsent_changes
            and self.next is None
            and self.stream is not None
            and not self.stream.is_to_be_left
            and not self.stream.in_flight
        )

    def alarm(self) -> int | None:
        """Returns when to call `tick` at the latest."""
        moments = [self.holds.check_at, self.waits_end_at, self.waits_retry_at, self.replies.first_due(), self.resume_until]
        moments += [stream.alarm() for stream in (self.stream, self.next) if stream]
        # While none can be sent there may be as many as there were holds, and none has a time of its own.
        if self.takes_changes:
            moments += [release.retry_at for release in self.unsent_releases]
        return min((moment for moment in moments if moment is not None), default=None)

    def reply(self, number: int | None, result: HoldResult) -> None:
        """Answers, unless the caller was already told that its request was not confirmed in time."""
        reply = self.replies.take(number) if number is not None else None
        if reply:
            self.outputs.append(HoldDone(reply, result))

    def fail(self, waiting: Waiting, error: AcquireError) -> None:
        """Answers an acquire with an error about its locks."""
        self.outputs.append(Acquired(waiting.reply, error))

    def fail_waiting(self, which: Callable[[Waiting], bool], error: Callable[[str], AcquireError]) -> None:
        """Fails those acquires."""
        for waiting in self.take_waiting(which):
            self.fail(waiting, error(waiting.spec.label))

    def take_waiting(self, which: Callable[[Waiting], bool]) -> list[Waiting]:
        """Removes those acquires."""
        taken = [number for number, waiting in self.waiting.items() if which(waiting)]
        return [self.waiting.pop(number) for number in taken]

    def put_off(self, release: Release) -> None:
        """Keeps a release for the next stream, if there may be anything left to give back then."""
        if self.stream is not None or self.resume_until is not None or release.owned.ids.in_doubt:
            self.unsent_releases.append(release)
        else:
            self.reply(release.reply, UNCONFIRMED)

    def give_up_unsent(self) -> None:
        """Fails all outstanding changes and releases of the last stream, except of holds that another stream may have."""
        for change in self.unsent_changes:
            self.reply(change.reply, UNCONFIRMED)
        self.unsent_changes = []
        releases, self.unsent_releases = self.unsent_releases, []
        for release in releases:
            self.reply(release.reply, UNCONFIRMED)
            release.reply = None
            if not self.ending and release.owned.ids.in_doubt:
                self.unsent_releases.append(release)

    def put_off_unanswered(self, stream: Stream) -> list[int]:
        """Keeps what this stream was asked about holds, and has not answered, for the next one.

        Returns the acquires that it has not answered, in the order in which they were asked.
        """
        acquires = []
        repeated = [release for release in self.unsent_releases if release.retry_at is not None]
        self.unsent_releases = [release for release in self.unsent_releases if release.retry_at is None]
        in_flight, stream.in_flight = stream.in_flight, {}
        # In the order in which they were sent.
        for _, request in sorted(in_flight.items(), key=lambda item: item[0]):
            if isinstance(request, AcquireInFlight):
                acquires.append(request.acquire)
            elif isinstance(request, Release):
                self.unsent_releases.append(request.anew())
            elif isinstance(request, ChangeRequest):
                self.unsent_changes.append(request)
        self.unsent_releases += [release.anew() for release in repeated]
        return acquires
