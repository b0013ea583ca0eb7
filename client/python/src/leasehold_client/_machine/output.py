"""Actions that the machine of a session asks its driver for. Each stream has a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._failure import Failure
from .._lease import Lease
from ..errors import AcquireError, ConnectError, LostReason
from ..v1 import session_pb2


@dataclass(frozen=True)
class Granted:
    """A lock that was granted."""

    key: int
    lease: Lease
    # Number of times that the actor holds it, this grant included.
    hold_count: int


@dataclass(frozen=True)
class SessionInfo:
    """Description of an open session, as its coordinator gave it. Every reconnect brings another one."""

    session_id: str
    """The session's name in listings. Not secret."""
    coordinator: str
    """The coordinator's name in listings."""
    ttl: float
    """The TTL in force, in seconds."""
    heartbeat_interval: float
    """Seconds between heartbeats of a session that holds or waits for something."""


HoldResult = LostReason | Failure | str | None
"""Outcome of a release or change: none if it was carried out; the loss; the refusal; or "unconfirmed"."""
UNCONFIRMED = "unconfirmed"

AcquireReply = Callable[[list[Granted] | AcquireError], None]
HoldReply = Callable[[HoldResult], None]


@dataclass(frozen=True)
class Send:
    """Send this on the stream."""

    stream: int
    request: session_pb2.SessionRequest


@dataclass(frozen=True)
class Acquired:
    """Answer an acquire: one grant for each lock in the order of the names, or the error."""

    reply: AcquireReply
    result: list[Granted] | AcquireError


@dataclass(frozen=True)
class HoldDone:
    """Answer a release or a change."""

    reply: HoldReply
    result: HoldResult


@dataclass(frozen=True)
class Opened:
    """The session is open on this stream, and from now on only on it: leave any other."""

    stream: int
    info: SessionInfo


@dataclass(frozen=True)
class Draining:
    """The coordinator is going away at this moment."""

    until: int


@dataclass(frozen=True)
class HangUp:
    """Give up the stream, which the machine has forgotten already.

    Cut it, unless it did not open in time: then keep it until another one has opened, because its end would release the locks that
    it may still resume.
    """

    stream: int
    error: ConnectError | None = None


@dataclass(frozen=True)
class Leave:
    """Leave the stream that was to be the next one, once its requests are sent; the end of the session waits for that."""

    stream: int


@dataclass(frozen=True)
class Ended:
    """End the driver: there is nothing left to do."""


Output = Send | Acquired | HoldDone | Opened | Draining | HangUp | Leave | Ended
