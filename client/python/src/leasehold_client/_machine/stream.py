"""State of one lease stream. It is dropped with the stream, so that nothing of an old stream can leak into the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .._clock import MILLISECOND, SECOND, earlier, from_wire
from ..v1 import session_pb2
from .heartbeats import Heartbeats
from .ids import Ids
from .output import Send, SessionInfo
from .pending import ChangeRequest, Release

CLOSE_TIMEOUT = 2 * SECOND
"""Time limit for the answer to a `close`; after it, the stream is cut."""
SHORTEST_HEARTBEAT = 10 * MILLISECOND
"""Heartbeats are never sent faster than this, whatever a coordinator asks for."""
LONGEST_REST = 600 * SECOND
"""A session that has nothing sends a heartbeat at least this often, whatever a coordinator allows."""


class Plain(Enum):
    """Request in flight of which nothing needs to be known."""

    OPEN = "open"
    """The `open`."""
    OTHER = "other"
    """A heartbeat, a cancel or a close."""


@dataclass(frozen=True)
class AcquireInFlight:
    """An acquire, by its number in the session."""

    acquire: int


@dataclass(frozen=True)
class Abandoned:
    """An acquire whose caller waits no longer. If it is granted, the session gives the lock back."""

    actor: int


InFlight = Plain | AcquireInFlight | Abandoned | Release | ChangeRequest


@dataclass
class OpenedStream:
    """Terms of the session, as the coordinator opened it."""

    ttl: int
    heartbeat_interval: int
    next_heartbeat: int
    # Time from which answers are missed: that of the last answer to a heartbeat, or of the session's opening, or the end of a rest.
    silent_from: int
    # The session has nothing, and need not send a heartbeat at every interval.
    rests: bool = False

    def answered(self, now: int) -> None:
        """Notes an answer to a heartbeat."""
        self.silent_from = self.next_heartbeat if self.rests else now

    def rest(self, sent_at: int, pause: int) -> None:
        """Puts the next heartbeat off, because the session has nothing. It is due so long after that one was sent."""
        next_heartbeat = sent_at + min(pause, LONGEST_REST)
        if next_heartbeat > self.next_heartbeat:
            self.next_heartbeat = self.silent_from = next_heartbeat
            self.rests = True

    def wake(self, now: int, last_sent: int) -> None:
        """Ends a rest."""
        if self.rests:
            self.rests = False
            self.next_heartbeat = last_sent + self.heartbeat_interval
            self.silent_from = now


@dataclass
class Abandoning:
    """An actor that has abandoned acquires.

    Until the coordinator has answered them, it takes the actor for waiting or holding, and would refuse the actor's next acquires.
    """

    unanswered: int = 0
    # Its next acquires, by their numbers in the session.
    held_back: list[int] = field(default_factory=list)


class Hearing(Enum):
    """Treatment of the coordinator's messages once another stream has been asked to take over the session's holds."""

    OPEN = "open"
    """Nothing is being taken over."""
    WITHHELD = "withheld"
    """They are kept until the other stream has answered."""
    DEAF = "deaf"
    """The other stream ended without an answer: the session does not know which holds this coordinator still has."""


@dataclass(frozen=True)
class AskedWait:
    """Place in a queue that another stream is asked to take over: the acquire, and its request on that stream."""

    acquire: int
    request_id: int
    actor: int


class Stream:
    """One lease stream."""

    def __init__(self, number: int, endpoint: str, open_by: int) -> None:
        """Makes a stream on which nothing has been sent, and on which `open` is to be sent by then."""
        # Never used again in this session.
        self.number = number
        self.endpoint = endpoint
        self.heartbeats = Heartbeats(open_by)
        # `open` was sent.
        self.asked = False
        # Resumes in `open` that have not been answered, by the next owner id: a hold by its number, or a place.
        self.resuming: dict[bytes, int | AskedWait] = {}
        # The parts of `opened` that have come, if there are more.
        self.opening: session_pb2.SessionOpened | None = None
        self.opened: OpenedStream | None = None
        # Before `open` is sent, the latest time for that. Afterwards, the time at which the stream is given up unless it has opened.
        self.open_by = open_by
        # The coordinator is going away, by then: nothing new is asked of it.
        self.draining: int | None = None
        # No heartbeat has been answered for a while: nothing new is asked of it.
        self.silent = False
        # It was opened with credentials that have been replaced: the session moves before they expire.
        self.outdated = False
        # The coordinator asked this session to move, but goes on serving it.
        self.asked_to_move = False
        # No other stream could be opened: the time at which the session tries again to move as asked.
        self.move_again_at: int | None = None
        self.hearing = Hearing.OPEN
        self.withheld: list[session_pb2.SessionResponse] = []
        # `close` was sent; the stream is cut if it has not ended by then.
        self.closing: int | None = None
        self.in_flight: dict[int, InFlight] = {}
        self._abandoning: dict[int, Abandoning] = {}
        self.last_request_id = 0

    def begin(self, now: int, open_by: int) -> None:
        """Notes that the `open` is sent at `now`, and must be answered by `open_by`."""
        self.heartbeats = Heartbeats(now)
        self.asked = True
        self.open_by = open_by

    def open(self, now: int, opened: session_pb2.SessionOpened) -> SessionInfo:
        """Notes that the session is open on it, and returns the session's description."""
        ttl = from_wire(opened.ttl)
        interval = max(from_wire(opened.heartbeat_interval), SHORTEST_HEARTBEAT)
        self.opened = OpenedStream(ttl, interval, now + interval, now)
        return SessionInfo(opened.session_id, opened.coordinator, ttl / SECOND, interval / SECOND)

    @property
    def is_to_be_left(self) -> bool:
        """Whether the session is to move to another stream."""
        may_be_left = self.outdated or self.asked_to_move
        return self.opened is not None and self.closing is None and (self.must_be_left or may_be_left)

    @property
    def must_be_left(self) -> bool:
        """Whether the stream can't go on for long as it is."""
        return self.draining is not None or self.silent or not self.is_heard

    @property
    def is_heard(self) -> bool:
        """Whether the coordinator's messages count."""
        return self.hearing is Hearing.OPEN

    @property
    def accepts(self) -> bool:
        """Whether acquires may be sent on it, until there is a connection to move to."""
        return self.opened is not None and self.closing is None and not self.must_be_left

    def number_request(self, expects: InFlight) -> int:
        """Numbers a request and remembers what its answer is for. Numbers are never used again on a stream."""
        self.last_request_id += 1
        if expects is not Plain.OTHER:
            self.in_flight[self.last_request_id] = expects
        return self.last_request_id

    def send(self, request: session_pb2.SessionRequest, expects: InFlight, trace: str = "") -> Send:
        """Returns the output that sends a request as a part of this trace."""
        request.request_id = self.number_request(expects)
        request.traceparent = trace
        return Send(self.number, request)

    def send_heartbeat(self, now: int, interval: int) -> list[Send]:
        """Returns the output that sends a heartbeat, and puts the next one off by this interval."""
        if self.opened is None:
            return []
        self.opened.wake(now, now)
        self.opened.next_heartbeat = now + interval
        heartbeat = session_pb2.SessionHeartbeat(sequence=self.heartbeats.note(now))
        return [self.send(session_pb2.SessionRequest(heartbeat=heartbeat), Plain.OTHER)]

    def wake(self, now: int) -> list[Send]:
        """Ends a rest, because the session is about to ask for something.

        Returns the heartbeat to send before, if the last one is older than the interval: deadlines count from the newest that the
        coordinator has heard.
        """
        if self.opened is None or not self.opened.rests:
            return []
        self.opened.wake(now, self.heartbeats.last_sent)
        if self.opened.next_heartbeat > now:
            return []
        return self.send_heartbeat(now, self.opened.heartbeat_interval)

    def send_close(self) -> Send:
        """Returns the output that closes the session on this stream."""
        return self.send(session_pb2.SessionRequest(close=session_pb2.SessionClose()), Plain.OTHER)

    def cancel(self, acquire_request_id: int, actor: int) -> Send:
        """Returns the output that cancels an acquire for which the caller no longer waits."""
        self.in_flight[acquire_request_id] = Abandoned(actor)
        if actor != 0:
            self._abandoning.setdefault(actor, Abandoning()).unanswered += 1
        cancel = session_pb2.SessionCancel(acquire_request_id=acquire_request_id)
        return self.send(session_pb2.SessionRequest(cancel=cancel), Plain.OTHER)

    def resume(self, name: str, ids: Ids, next_owner_id: bytes, asked: int | AskedWait) -> session_pb2.SessionResume:
        """Returns the request to take over what is known by these ids, under another one from now on."""
        ids.attempt(next_owner_id)
        self.resuming[next_owner_id] = asked
        return session_pb2.SessionResume(name=name, owner_id=ids.confirmed, tried_owner_ids=ids.tried, next_owner_id=next_owner_id)

    def holds_back(self, actor: int, acquire: int) -> bool:
        """Returns whether an acquire of this actor must be held back. If so, `abandoned_answered` returns it later."""
        abandoning = self._abandoning.get(actor)
        if abandoning is None:
            return False
        abandoning.held_back.append(acquire)
        return True

    def abandoned_answered(self, actor: int) -> list[int]:
        """Notes that an abandoned acquire of this actor was answered. Returns the acquires that can be sent now."""
        abandoning = self._abandoning.get(actor)
        if abandoning is None:
            return []
        abandoning.unanswered -= 1
        if abandoning.unanswered > 0:
            return []
        del self._abandoning[actor]
        return abandoning.held_back

    def alarm(self) -> int | None:
        """Returns when this stream needs attention next: for a heartbeat, or for answers that have been missing for too long."""
        if self.closing is not None:
            return self.closing
        if self.opened is None:
            return self.open_by
        silence = self.opened.silent_from + (self.opened.ttl if self.silent else self.opened.ttl // 2)
        return earlier(earlier(self.opened.next_heartbeat, silence), self.move_again_at)
