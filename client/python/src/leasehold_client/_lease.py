"""State of one hold, which its user and its session share: held, suspended or lost. Any thread may ask."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from . import _fork
from ._clock import SECOND, earlier, from_wire
from .errors import LostReason
from .v1 import session_pb2, types_pb2

log = logging.getLogger("leasehold_client")


class LockState(Enum):
    """State of a hold."""

    HELD = "held"
    """It is held, by this process's own clock and all messages so far."""
    SUSPENDED = "suspended"
    """The stream broke, and the session may yet resume the hold: do not act on it."""
    LOST = "lost"
    """It is not held any more. That is final."""


@dataclass(frozen=True)
class ReleaseRequest:
    """An operator's request to release a lock. The hold is unchanged: finish and release it, or go on."""

    reason: str
    """The reason, for people; empty if the operator gave none."""
    within: float | None
    """Seconds to release it from when the client received the request; none if the operator named no time."""

    @classmethod
    def _from(cls, asked: session_pb2.SessionReleaseRequested) -> ReleaseRequest:
        within = from_wire(asked.within) / SECOND if asked.HasField("within") else None
        return cls(asked.reason, within)


_REASONS: dict[int, LostReason] = {
    types_pb2.LOST_REASON_EXPIRED: LostReason.EXPIRED,
    types_pb2.LOST_REASON_DELETED: LostReason.DELETED,
    types_pb2.LOST_REASON_TAKEN: LostReason.TAKEN,
    types_pb2.LOST_REASON_FORCED: LostReason.FORCED,
    types_pb2.LOST_REASON_RESUMED: LostReason.RESUMED,
    types_pb2.LOST_REASON_PERMISSION_REVOKED: LostReason.PERMISSION_REVOKED,
    types_pb2.LOST_REASON_MAX_HOLD: LostReason.MAX_HOLD,
}


def reason_from_wire(reason: int) -> LostReason:
    """Returns the reason of a loss; `UNKNOWN` for one that this version does not know."""
    return _REASONS.get(reason, LostReason.UNKNOWN)


class Lease:
    """One hold. Its user and the session agree about its state at any moment.

    Every method that takes `now` first ends the hold if its deadline has passed, so that an answer "lost" is never taken back.
    """

    __slots__ = (
        "_disowned",
        "_ends_at",
        "_generation",
        "_listeners",
        "_lock",
        "_reason",
        "_request",
        "_suspended",
        "_until",
        "name",
        "permits",
        "token",
    )

    def __init__(self, name: str, token: int, deadline: int, ends_at: int | None = None, permits: int | None = None):
        """Makes a hold that lasts until the deadline unless it is extended, and never longer than `ends_at`."""
        self.name = name
        self.token = token
        self.permits = permits
        self._until = deadline if ends_at is None else min(ends_at, deadline)
        self._ends_at = ends_at
        self._suspended = False
        # The coordinator no longer knows who the client is.
        self._disowned = False
        self._reason: LostReason | None = None
        self._request: ReleaseRequest | None = None
        self._listeners: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._generation = _fork.generation()

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that was granted the hold."""
        return self._generation != _fork.generation()

    def listen(self, listener: Callable[[], object]) -> None:
        """Has a listener called after each change of the state or the request. It may be called by any thread."""
        with self._lock:
            self._listeners.append(listener)

    def _at(self, now: int) -> bool:
        """Ends the hold if its deadline has passed. Returns whether it ended now. The caller has the lock."""
        if self._reason is not None or now < self._until:
            return False
        if self._ends_at is not None and self._ends_at <= self._until:
            self._reason = LostReason.MAX_HOLD
        elif not self._suspended:
            self._reason = LostReason.EXPIRED
        else:
            self._reason = LostReason.UNAUTHENTICATED if self._disowned else LostReason.SESSION_ENDED
        return True

    def _tell(self) -> None:
        for listener in list(self._listeners):
            try:
                listener()
            except Exception:
                # The session goes on, whatever its user does when it is told.
                log.exception("failed to tell of a change of the lock %r", self.name)

    def status(self, now: int) -> tuple[LockState, LostReason | None]:
        """Returns the state at `now`, and the reason if it is lost."""
        if self.is_forked:
            return LockState.LOST, LostReason.FORKED
        # Without the mutex, unless it ends now: the handler of a signal may have interrupted this thread here, and wait for another that
        # needs it. `resume` moves the deadline before it holds again, and is read in the opposite order.
        suspended, until, reason = self._suspended, self._until, self._reason
        if reason is None and until <= now:
            with self._lock:
                ended = self._at(now)
                reason, suspended = self._reason, self._suspended
            if ended:
                self._tell()
        if reason is not None:
            return LockState.LOST, reason
        return (LockState.SUSPENDED if suspended else LockState.HELD), None

    def state(self, now: int) -> LockState:
        """Returns the state at `now`."""
        return self.status(now)[0]

    def lost(self, now: int) -> LostReason | None:
        """Returns why it is lost; none while it is held or suspended."""
        return self.status(now)[1]

    def deadline(self, now: int) -> int | None:
        """Returns the moment at which it is lost, if it is held or suspended at `now`."""
        return None if self.lost(now) else self._until

    def extend(self, to: int) -> None:
        """Moves the deadline to `to` if that is later. Does nothing to a hold that is not held."""
        with self._lock:
            if self._reason is None and not self._suspended:
                self._until = max(self._until, self._limit(to))

    def _limit(self, deadline: int) -> int:
        return deadline if self._ends_at is None else min(self._ends_at, deadline)

    def suspend(self, now: int, limit: int | None) -> None:
        """Suspends the hold until `limit`, or its deadline if that is earlier.

        There is no limit if the coordinator ended the stream because it no longer knows the client.
        """
        with self._lock:
            self._at(now)
            if self._reason is None:
                self._disowned |= limit is None
                self._suspended = True
                if limit is not None:
                    self._until = min(self._until, limit)
        self._tell()

    def resume(self, now: int, to: int, ends_at: int | None) -> None:
        """Holds it until `to`, which may be before its deadline so far, because another stream has taken it over."""
        with self._lock:
            self._at(now)
            if self._reason is None:
                self._ends_at = earlier(self._ends_at, ends_at)
                self._until = self._limit(to)
                self._suspended = self._disowned = False
        self._tell()

    def end(self, now: int, reason: LostReason) -> LostReason | None:
        """Ends the hold; the first reason stays. Returns that one if it had ended before."""
        if self.is_forked:
            return LostReason.FORKED
        with self._lock:
            self._at(now)
            first = self._reason
            if first is None:
                self._reason = reason
        self._tell()
        return first

    def ends_at(self) -> int | None:
        """Returns the latest moment of its end, whatever is answered; none if there is no bound."""
        return self._ends_at

    def ask(self, request: ReleaseRequest) -> None:
        """Notes that an operator asks for its release."""
        self._request = request
        self._tell()

    @property
    def request(self) -> ReleaseRequest | None:
        """The last request to release it."""
        return self._request
