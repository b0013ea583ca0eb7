"""Requests for locks and permits of semaphores, for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from .. import hold, request
from .._clock import Seconds
from .._scope import take
from ..actor import Actor
from ._holds import Hold, Holds, OnLost, check_callback
from ._loop import Loop

H = TypeVar("H", bound=Hold | Holds)


class LockRequest(Generic[H]):
    """Request for one lock or several, which is made when it is used: `with`, `acquire` or `try_acquire`."""

    def __init__(self, loop: Loop, inner: request.LockRequest[Any], make: Callable[[Any], H]) -> None:
        """Makes a request."""
        self._loop, self._inner, self._make = loop, inner, make
        self._leaving = threading.Lock()
        self._entered: list[tuple[threading.Thread, H]] = []

    def acquire(self) -> H:
        """Waits for the lock, and returns its hold. Raises an `AcquireError`, as `leasehold_client.LockRequest.acquire`."""
        return self._make(self._loop.run(self._inner.acquire()))

    def try_acquire(self) -> H | None:
        """Returns the hold, or none if the lock is busy. Otherwise as `acquire`."""
        inner = self._loop.run(self._inner.try_acquire())
        return None if inner is None else self._make(inner)

    def __enter__(self) -> H:
        """Acquires, and begins the body."""
        acquired = self.acquire()
        acquired.__enter__()
        self._entered.append((threading.current_thread(), acquired))
        return acquired

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases."""
        with self._leaving:
            entered = take(self._entered, lambda entered: entered[0])
        return entered[1].__exit__(kind, error, traceback) if entered else None


class Semaphore:
    """A semaphore, from which permits are requested. All its users must name the same limit."""

    def __init__(self, loop: Loop, inner: request.Semaphore) -> None:
        """Makes it."""
        self._loop, self._inner = loop, inner

    @property
    def name(self) -> str:
        """The semaphore's name."""
        return self._inner.name

    @property
    def limit(self) -> int:
        """Its total of permits."""
        return self._inner.limit

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
        on_lost: OnLost | None = None,
    ) -> LockRequest[Hold]:
        """Returns a request for so many permits, or, with `at_least`, for as many as are free, at least that many."""
        inner = self._inner.permits(
            permits,
            at_least=at_least,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(self._loop, inner, hold_of(self._loop, on_lost))


def hold_of(loop: Loop, on_lost: OnLost | None) -> Callable[[hold.Hold], Hold]:
    """Returns what makes the hold of a grant."""
    check_callback(on_lost)
    return lambda inner: Hold(loop, inner, on_lost)
