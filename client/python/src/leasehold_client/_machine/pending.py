"""Requests that have not been answered: acquires, releases and changes, and the callers that wait for their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .._clock import MILLISECOND, SECOND
from .._failure import Failure
from .ids import Ids
from .output import AcquireReply, HoldReply
from .spec import AcquireSpec, Change

ANSWER_TIMEOUT = 10 * SECOND
"""Time limit for the answer to a release or a change; after it, the caller learns that it is not confirmed."""
ANSWER_GRACE = 2 * SECOND
"""Extra time after its wait in which the coordinator may answer an acquire."""
RETRY_FIRST = 100 * MILLISECOND
RETRY_MAX = 2 * SECOND


@dataclass
class Owned:
    """Identity of a hold at a coordinator."""

    name: str
    ids: Ids
    # The hold's number here; 0 if there is none.
    number: int = 0

    def copy(self) -> Owned:
        """Returns a copy that later attempts to resume do not change."""
        return Owned(self.name, self.ids.copy(), self.number)


@dataclass
class Release:
    """A lock to be given back."""

    owned: Owned
    reply: int | None = None
    trace: str = ""
    # Index of the owner id that it is asked by. If nothing is held under one, a later one may hold it.
    index: int = 0
    # Pause before it is repeated, if it fails, and the time of that on the same stream.
    retry_in: int = RETRY_FIRST
    retry_at: int | None = None
    # Another stream was asked before and did not answer: the release may have been carried out.
    again: bool = False
    # The resume in progress already counts the hold once less because of this release.
    counted: bool = False
    # The hold's deadline has passed, and no coordinator was told yet.
    expired: bool = False

    def anew(self) -> Release:
        """Returns the release for another stream, because this one has not answered."""
        return replace(self, index=0, again=True, retry_at=None)


@dataclass(frozen=True)
class ChangeRequest:
    """A change of a hold, as its user has asked for it."""

    key: int
    change: Change
    trace: str
    reply: int


class Replies:
    """Callers that wait, in the order in which they asked, and so in that in which their time is over."""

    def __init__(self) -> None:
        """Makes it empty."""
        self._waiting: dict[int, tuple[int, HoldReply]] = {}
        self._last = 0

    def add(self, now: int, reply: HoldReply) -> int:
        """Adds a caller, and numbers it."""
        self._last += 1
        self._waiting[self._last] = (now + ANSWER_TIMEOUT, reply)
        return self._last

    def first_due(self) -> int | None:
        """Returns when the first of them has waited for long enough."""
        return next((due for due, _ in self._waiting.values()), None)

    def take(self, number: int) -> HoldReply | None:
        """Removes a caller; none if its time was over before."""
        waiting = self._waiting.pop(number, None)
        return None if waiting is None else waiting[1]

    def take_due(self, now: int) -> HoldReply | None:
        """Removes the first caller if it has waited for long enough."""
        for number, (due, _) in self._waiting.items():
            return self.take(number) if due <= now else None
        return None


@dataclass
class Waiting:
    """An acquire that has not been answered."""

    reply: AcquireReply
    spec: AcquireSpec
    # End of its wait.
    deadline: int | None
    # Its request on the present stream, if it is there, and whether it waits in a queue there.
    sent_as: int | None = None
    queued: bool = False
    # The ids by which its place can be resumed; none if it waits for several names, one after the other.
    ticket: Ids | None = None
    # The coordinator could not serve it for now: why, when it is asked again, and the pause after that.
    refused: Failure | None = None
    retry_at: int | None = None
    retry_in: int = RETRY_FIRST

    def unsend(self) -> None:
        """Notes that the stream that it was sent on does not serve it any more."""
        self.sent_as, self.queued, self.retry_at = None, False, None

    def put_off(self, now: int, failure: Failure) -> None:
        """Notes that it is to be asked again on the same stream, later."""
        asked = 0 if failure.retry_after is None else round(failure.retry_after * SECOND)
        self.refused, self.retry_at = failure, now + max(self.retry_in, min(asked, RETRY_MAX))
        self.retry_in = min(self.retry_in * 2, RETRY_MAX)

    def remaining(self, now: int) -> int | None:
        """Returns the time left of its wait."""
        if self.spec.wait is not None and self.deadline is not None:
            return max(0, self.deadline - now)
        return self.spec.wait

    def ends_at(self) -> int | None:
        """Returns when it ends without an answer: later while a coordinator is about to give one."""
        if self.deadline is None:
            return None
        return self.deadline + (ANSWER_GRACE if self.sent_as is not None else 0)
