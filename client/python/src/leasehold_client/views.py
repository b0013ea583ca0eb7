"""What callers may see of locks, sessions, elections and coordinators. No view has an owner id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Self

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from ._clock import SECOND, from_wire
from .v1 import admin_pb2, types_pb2

__all__ = [
    "CertificateView",
    "CoordinatorView",
    "EndedSession",
    "EventKind",
    "Holder",
    "Leader",
    "LeaderChange",
    "LimitView",
    "LockEvent",
    "LockMode",
    "LockView",
    "PermissionView",
    "SessionView",
    "Waiter",
]


class LockMode(Enum):
    """Mode in which a lock is held."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    SEMAPHORE = "semaphore"


class EventKind(Enum):
    """Kind of a watched event."""

    GRANTED = "granted"
    QUEUED = "queued"
    WITHDRAWN = "withdrawn"
    RELEASED = "released"
    EXPIRED = "expired"
    LOST = "lost"
    FORCED = "forced"
    VALUE_CHANGED = "value_changed"
    DOWNGRADED = "downgraded"
    LIMIT_CHANGED = "limit_changed"
    PERMITS_REDUCED = "permits_reduced"
    RELEASE_REQUESTED = "release_requested"
    UNKNOWN = "unknown"
    """A kind that this version does not know."""


_MODES: dict[int, LockMode] = {
    types_pb2.LOCK_MODE_EXCLUSIVE: LockMode.EXCLUSIVE,
    types_pb2.LOCK_MODE_SHARED: LockMode.SHARED,
    types_pb2.LOCK_MODE_SEMAPHORE: LockMode.SEMAPHORE,
}


def _kind(kind: int) -> EventKind:
    descriptor = admin_pb2.LockEventKind.DESCRIPTOR.values_by_number.get(kind)
    word = descriptor.name.removeprefix("LOCK_EVENT_KIND_").lower() if descriptor else "unknown"
    return EventKind(word) if word in EventKind._value2member_map_ else EventKind.UNKNOWN


def _read(value: Any) -> Any:
    match value:
        case Timestamp():
            return value.ToDatetime(tzinfo=UTC)
        case Duration():
            return from_wire(value) / SECOND
        case Message():
            return _VIEWS[value.DESCRIPTOR.name]._from(value)
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "dict": dict,
    "tuple": lambda several: tuple(map(_read, several)),
    "EventKind": _kind,
    "LockMode": _MODES.get,
}
"""What reads fields of these types."""


class _View:
    """What callers may see of a message. Its fields have the names of the message's."""

    @classmethod
    def _from(cls, message: Message, **known: Any) -> Self:
        """Returns the view of a message. A field that may be none is that if the message lacks it."""
        make: Any = cls
        for field in fields(make):
            if field.name not in known:
                kind = str(field.type)
                may_lack = "None" in kind and message.DESCRIPTOR.fields_by_name[field.name].has_presence
                is_there = not may_lack or message.HasField(field.name)
                read = _READ.get(kind.partition(" ")[0].partition("[")[0], _read)
                known[field.name] = read(getattr(message, field.name)) if is_there else None
        view: Self = make(**known)
        return view


@dataclass(frozen=True)
class Holder(_View):
    """One holder of a lock."""

    session_id: str
    """The session that holds it; empty for a hold of the unary calls and for a foreign holder."""
    client_name: str
    """The name that the client gave itself."""
    coordinator: str
    """The coordinator that granted or last confirmed the hold."""
    fencing_token: int
    """The fencing token; 0 for a foreign holder."""
    acquired_at: datetime | None
    """Time of the grant, by the store's clock; none for a foreign holder."""
    ttl: float | None
    """Seconds until the hold ends unless it is renewed; none if it never ends."""
    value: bytes
    """What the holder attached to its hold."""
    hold_count: int
    """Number of times that the holder holds it; 0 for a foreign holder."""
    foreign: bool
    """Whether a program that does not use Leasehold set the lock's key."""
    permits: int
    """Permits of a semaphore; 0 in other modes."""
    actor: int
    """The client's actor; 0 for none."""
    max_hold: float | None
    """Seconds from `acquired_at` for which it may be held; none if there is no bound."""
    peer: str
    """The network address that the session came from. Only `get_lock` tells it, at the coordinator that serves the session, to those who
    may list that; empty otherwise."""


@dataclass(frozen=True)
class Waiter(_View):
    """One waiter for a lock."""

    session_id: str
    """The session that waits; empty for a unary call."""
    client_name: str
    """The name that the client gave itself."""
    coordinator: str
    """The coordinator at which it waits."""
    waiting_since: datetime
    """When it joined the queue, by the store's clock."""
    position: int
    """Its place: 1 is next."""
    mode: LockMode | None
    """How it wants to hold the lock."""
    permits: int
    """Permits that it wants of a semaphore; 0 in other modes."""
    actor: int
    """The client's actor; 0 for none."""
    number: int
    """The waiter's number for `force_release`."""
    permits_at_least: int
    """The fewest permits that it is content with; 0 if it named none."""
    peer: str
    """The network address that the session came from, told as for a holder."""


@dataclass(frozen=True)
class LockView(_View):
    """Everything that can be seen of one lock."""

    name: str
    """The lock's name."""
    mode: LockMode | None
    """How it is held; none while it is free."""
    holders: tuple[Holder, ...]
    """Its holders, at most 100."""
    waiters: tuple[Waiter, ...]
    """Its waiters in order, at most 100; empty in listings."""
    holder_count: int
    """Number of all holders."""
    waiter_count: int
    """Number of all waiters."""
    fencing_token: int
    """The newest fencing token; 0 if none is on record."""
    closed_for: float | None
    """Seconds for which it stays closed after an unclean end; none unless it is closed."""
    limit: int
    """The semaphore's limit; 0 for other locks."""
    permits_taken: int
    """Permits that are taken; 0 for other locks."""
    limit_revision: int
    """The revision of the limit."""


@dataclass(frozen=True)
class LockEvent(_View):
    """A change of a lock."""

    kind: EventKind
    """What happened."""
    name: str
    """The lock's name."""
    time: datetime
    """When it happened, by the store's clock."""
    fencing_token: int
    """The token of the hold in question; 0 for waiters and foreign holders."""
    holder: Holder | None
    """The hold in question."""
    waiter: Waiter | None
    """The waiter in question."""
    mode: LockMode | None
    """How the lock is held after this; none while it is free."""
    holder_count: int
    """Number of holders after this."""
    waiter_count: int
    """Number of waiters after this."""


@dataclass(frozen=True)
class SessionView(_View):
    """One session of a coordinator."""

    session_id: str
    """The session's id."""
    client_name: str
    """The name that the client gave itself."""
    peer: str
    """The address that it came from."""
    coordinator: str
    """The coordinator that serves it."""
    ttl: float
    """Its TTL in seconds."""
    opened_at: datetime
    """When it was opened, by the coordinator's wall clock."""
    since_heartbeat: float
    """Seconds since its last heartbeat."""
    hold_count: int
    """Number of locks that it holds."""
    waiter_count: int
    """Number of acquires that it has waiting."""
    metadata: dict[str, str]
    """Free text of the client."""
    identity: str
    """The identity that opened it; empty if callers need none."""


@dataclass(frozen=True)
class PermissionView(_View):
    """Permission of the caller."""

    permission: str
    """`acquire`, `inspect` or `administer`."""
    locks: tuple[str, ...]
    """Prefixes of the names of locks that it is for; the empty one stands for every name."""
    elections: tuple[str, ...]
    """Prefixes of the names of elections that it is for; the empty one stands for every name."""


@dataclass(frozen=True)
class LimitView(_View):
    """Limit of a coordinator."""

    name: str
    """The setting, such as `max-sessions`; or `open-files`."""
    used: int
    """How much of it is in use."""
    limit: int


@dataclass(frozen=True)
class CertificateView(_View):
    """Certificate of a coordinator."""

    purpose: str
    """What it is for: `server` (the gRPC port), `admin` (the admin port) or `store` (to identify itself to Redis)."""
    expires: datetime | None
    """When the first certificate of its chain expires."""


@dataclass(frozen=True)
class CoordinatorView(_View):
    """Status of one coordinator.

    Callers that may not inspect every lock do not see its store, its counts, its limits and its certificates.
    """

    coordinator: str
    """Its id."""
    version: str
    """Its version."""
    uptime: float
    """Seconds since it started."""
    serving: bool
    """Whether it serves."""
    reason: str
    """Why it does not serve; while it serves, what its store has refused in the last minute; empty if neither."""
    store: str
    """URL of its store, without passwords."""
    store_up: bool | None
    """Whether it reaches its store; None where the caller may not see it."""
    session_count: int | None
    hold_count: int | None
    waiter_count: int | None
    time: datetime | None
    """Its wall clock when it answered."""
    draining: bool
    """Whether it was told to stop, and waits for its clients to leave."""
    identity: str
    """The caller's identity, for example `token:ci`; empty where callers need none."""
    permissions: tuple[PermissionView, ...]
    """What the caller may do here."""
    min_ttl: float
    """The smallest TTL that it grants, in seconds."""
    default_ttl: float
    """The TTL of callers that ask for none, in seconds."""
    max_ttl: float
    """The largest TTL that it grants, in seconds."""
    key_prefix: str | None
    """Prefix of the Redis keys of locks."""
    min_replicas: int | None
    """Replicas that must acknowledge a grant."""
    limits: tuple[LimitView, ...]
    certificates: tuple[CertificateView, ...]

    @classmethod
    def _from(cls, message: Any, **known: Any) -> Self:
        unseen = message.store_state == admin_pb2.STORE_STATE_UNSPECIFIED
        return super()._from(message, store_up=None if unseen else message.store_state == admin_pb2.STORE_STATE_UP)


@dataclass(frozen=True)
class EndedSession(_View):
    """Outcome of `end_session`."""

    ended: bool
    """Whether there was such a session."""
    session_count: int
    """Number of sessions that coordinators have ended."""
    hold_count: int
    """Number of holds that were ended."""
    waiter_count: int
    """Number of waits that were ended."""


@dataclass(frozen=True)
class Leader(_View):
    """The leader of an election."""

    fencing_token: int
    """The token of its term; 0 for a program that does not use Leasehold."""
    value: bytes
    """What it proclaims."""
    client_name: str
    """The name that it gave itself."""
    session_id: str
    """The session that leads; empty for a holder by the unary calls."""
    coordinator: str
    """The coordinator that elected or last confirmed it."""
    elected_at: datetime | None
    """When it was elected, by the store's clock."""


@dataclass(frozen=True)
class LeaderChange:
    """A change that an observer sees."""

    leader: Leader | None
    """The leader from now on; none if nobody leads."""
    skipped: bool
    """Whether there may have been other leaders or values since the last change."""


_VIEWS: dict[str, type[_View]] = {view.__name__: view for view in _View.__subclasses__()}
