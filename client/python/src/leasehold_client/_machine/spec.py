"""Specification of an acquire, and changes of holds, without the caller."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._clock import wire
from ..v1 import lock_pb2, session_pb2, types_pb2
from ..views import LockMode

_MODES = {
    LockMode.EXCLUSIVE: types_pb2.LOCK_MODE_EXCLUSIVE,
    LockMode.SHARED: types_pb2.LOCK_MODE_SHARED,
    LockMode.SEMAPHORE: types_pb2.LOCK_MODE_SEMAPHORE,
}


@dataclass(frozen=True)
class LockSpec:
    """One lock of an acquire: its name, and the mode in which to hold it."""

    name: str
    """The lock's name."""
    mode: LockMode = LockMode.EXCLUSIVE
    """Mode in which it is held."""
    permits: int | None = None
    """Permits of a semaphore."""
    limit: int | None = None
    """The semaphore's limit."""
    at_least: int | None = None
    """The fewest permits to be content with; none for all."""
    limit_revision: int = 0
    """The revision of the limit."""

    @classmethod
    def exclusive(cls, name: str) -> LockSpec:
        """Returns an exclusive hold."""
        return cls(name)

    @classmethod
    def shared(cls, name: str) -> LockSpec:
        """Returns a shared hold."""
        return cls(name, LockMode.SHARED)

    @classmethod
    def of_permits(cls, name: str, permits: int, limit: int, *, at_least: int | None = None, limit_revision: int = 0) -> LockSpec:
        """Returns permits of a semaphore with this limit."""
        return cls(name, LockMode.SEMAPHORE, permits, limit, at_least, limit_revision)

    @property
    def _terms(self) -> tuple[object, ...]:
        return self.mode, self.permits, self.limit, self.at_least, self.limit_revision

    def _fill(self, message: session_pb2.LockSpec | session_pb2.SessionAcquire | lock_pb2.AcquireRequest) -> None:
        message.mode = _MODES[self.mode]
        message.permits = self.permits or 0
        message.limit = self.limit or 0
        message.permits_at_least = self.at_least or 0
        message.limit_revision = self.limit_revision


@dataclass(frozen=True)
class AcquireSpec:
    """One acquire, as long as it takes and over reconnects. Times are nanoseconds."""

    locks: tuple[LockSpec, ...]
    several: bool = False
    # None is without a bound, and 0 is no wait.
    wait: int | None = None
    value: bytes = b""
    lock_delay: int = 0
    max_hold: int | None = None
    # 0 for no actor.
    actor: int = 0
    reentrant: bool = False
    # The trace that the request is part of.
    trace: str = ""

    @property
    def is_try(self) -> bool:
        """Whether it is not to wait."""
        return self.wait == 0

    @property
    def label(self) -> str:
        """The name or names, for messages to people."""
        return ", ".join(lock.name for lock in self.locks)

    def message(self, wait: int | None) -> session_pb2.SessionAcquire:
        """Returns the request, with the rest of the wait."""
        asked = session_pb2.SessionAcquire(value=self.value, actor=self.actor, reentrant=self.reentrant)
        asked.lock_delay.CopyFrom(wire(self.lock_delay))
        if wait is not None:
            asked.wait.CopyFrom(wire(wait))
        if self.max_hold is not None:
            asked.max_hold.CopyFrom(wire(self.max_hold))
        first = self.locks[0]
        # Coordinators of every version know one mode for all.
        if any(lock._terms != first._terms for lock in self.locks):
            for lock in self.locks:
                lock._fill(asked.locks.add(name=lock.name))
            return asked
        first._fill(asked)
        if self.several:
            asked.names.extend(lock.name for lock in self.locks)
        else:
            asked.name = first.name
        return asked

    def are_of(self, granted: list[session_pb2.GrantedLock]) -> bool:
        """Returns whether these locks are the named ones, each once and in the same order."""
        return bool(granted) and [lock.name for lock in self.locks] == [lock.name for lock in granted]


@dataclass(frozen=True)
class Value:
    """Change of the value attached to a hold."""

    value: bytes = field(repr=False)


@dataclass(frozen=True)
class Downgrade:
    """Change from exclusive to shared."""


@dataclass(frozen=True)
class Reduce:
    """Change to no more than this many permits."""

    permits: int


Change = Value | Downgrade | Reduce
