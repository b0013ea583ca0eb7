"""Requests for locks and permits of semaphores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import _arguments as arguments
from ._clock import Seconds
from ._machine import AcquireSpec, LockSpec
from ._scope import take
from .actor import Actor
from .errors import Busy
from .hold import Hold, Holds
from .session import Session

__all__ = ["LockRequest", "LockSpec", "Semaphore"]

H = TypeVar("H", bound=Hold | Holds)


def first(holds: list[Hold]) -> Hold:
    """Returns the hold of a request for one lock."""
    return holds[0]


def spec(
    locks: Sequence[LockSpec],
    *,
    several: bool,
    wait: Seconds | None,
    value: bytes | str,
    lock_delay: Seconds,
    max_hold: Seconds | None,
    actor: Actor | None,
    reentrant: bool,
) -> AcquireSpec:
    """Returns the specification of an acquire of locks that have been checked. Checks the rest."""
    arguments.instance(reentrant, bool, "reentrant")
    arguments.instance(actor, (Actor, type(None)), "actor")
    if reentrant and actor is None:
        actor = Actor.current()
    return AcquireSpec(
        tuple(locks),
        several,
        arguments.wait_nanos(wait),
        arguments.value_bytes(value),
        arguments.nanos(lock_delay, "lock_delay"),
        arguments.hold_nanos(max_hold),
        actor.number if actor else 0,
        reentrant,
    )


class LockRequest(Generic[H]):
    """Request for one lock or several, which is made when it is used: `async with`, `acquire` or `try_acquire`.

    It may be used again, and each use is a request of its own. As a context manager it acquires, runs the body, and releases; a loss
    cancels the body and raises `LockLost`.
    """

    def __init__(self, session: Session, spec: AcquireSpec, make: Callable[[list[Hold]], H]) -> None:
        """Makes a request on this session; `make` makes the result of the holds."""
        self._session = session
        self._spec = spec
        self._make = make
        # Each task ends what it began.
        self._entered: list[tuple[asyncio.Task[Any] | None, H]] = []

    async def acquire(self) -> H:
        """Waits for the lock, and returns its hold. If the call is cancelled, a grant that crosses it is given back.

        Raises an `AcquireError`: `Busy` or `TimedOut` if it did not come free in time; `Refused` and its subclasses if the coordinator
        could not serve the request; `Unavailable` if none answered within the wait. Without a wait, a lost connection is no error: the
        request goes on at the next coordinator.
        """
        return await self._acquire(self._spec)

    async def try_acquire(self) -> H | None:
        """Returns the hold, or none if the lock is busy. Otherwise as `acquire`."""
        try:
            return await self._acquire(replace(self._spec, wait=0))
        except Busy:
            return None

    async def _acquire(self, spec: AcquireSpec) -> H:
        return self._make(await self._session._acquire(spec))

    async def __aenter__(self) -> H:
        """Acquires, and begins the body."""
        hold = await self.acquire()
        await hold.__aenter__()
        self._entered.append((asyncio.current_task(), hold))
        return hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases."""
        entered = take(self._entered, lambda entered: entered[0])
        return await entered[1].__aexit__(kind, error, traceback) if entered else None


@dataclass(frozen=True)
class Semaphore:
    """A semaphore, from which permits are requested. All its users must name the same limit."""

    _session: Session = field(repr=False)
    name: str
    """The semaphore's name."""
    limit: int
    """Its total of permits."""
    limit_revision: int = 0
    """The revision of the limit: a greater one replaces the limit in force."""

    def permits(
        self,
        permits: int = 1,
        *,
        at_least: int | None = None,
        wait: Seconds | None = None,
        value: bytes | str = b"",
        lock_delay: Seconds = 0,
        max_hold: Seconds | None = None,
        actor: Actor | None = None,
        reentrant: bool = False,
    ) -> LockRequest[Hold]:
        """Returns a request for so many permits, or, with `at_least`, for as many as are free, at least that many.

        The other arguments are those of `Client.lock`.
        """
        if permits is None:
            raise TypeError("permits: expected a whole number, got NoneType")
        lock = arguments.lock(LockSpec.of_permits(self.name, permits, self.limit, at_least=at_least, limit_revision=self.limit_revision))
        asked = spec(
            [lock],
            several=False,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(self._session, asked, first)
