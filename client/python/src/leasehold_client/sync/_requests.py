"""Requests for locks and permits of semaphores, for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from .. import hold, request
from .._body import take
from .._clock import Seconds
from .._machine import AcquireSpec
from .._options import AcquireOptions
from .._requesting import RequestView, decorated
from ..errors import Busy, TimedOut
from ._blocking import blocking
from ._holds import Hold, Holds, OnLost, check_callback
from ._loop import Loop

if TYPE_CHECKING:
    from ._client import Client

H = TypeVar("H", bound=Hold | Holds)
P = ParamSpec("P")
T = TypeVar("T")


class LockRequest(RequestView, Generic[H]):
    """Request for one lock or several, which is made when it is used: `with`, `acquire`, `try_acquire`, `run`, or as a decorator.

    It may be used again, by any thread, and each use is a request of its own. The first use connects the client, unless it is connected.
    """

    def __init__(self, client: Client, inner: request.LockRequest[Any], make: Callable[[Loop, Any], H]) -> None:
        """Makes a request; `make` makes the result of what was granted."""
        self._client, self._inner, self._make = client, inner, make
        self._run = client._run
        self._asked = inner._asked
        self._leaving = threading.Lock()
        self._entered: list[tuple[threading.Thread, H]] = []

    def acquire(self, *, timeout: Seconds | None = None) -> H:
        """Waits for the lock, and returns its hold.

        - `timeout`: longest wait of this acquire, as `wait` of the request, which it replaces.

        Raises an `AcquireError` or a `ConnectError`, as `leasehold_client.LockRequest.acquire`.
        """
        return self._acquire(self._spec(timeout))

    def _acquire(self, spec: AcquireSpec) -> H:
        return self._make(self._client._ready(), self._run(self._inner._acquire(spec)))

    def _begin(self) -> H:
        """Acquires for a body of this thread."""
        return self._acquire(self._spec(for_body=True))

    def try_acquire(self) -> H | None:
        """Returns the hold, or none if the lock is busy. Otherwise as `acquire`."""
        try:
            return self.acquire(timeout=0)
        except Busy:
            return None

    locked = blocking(request.LockRequest.locked)

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Acquires, runs the work with these arguments as a body, releases, and returns the result.

        With `if_busy="skip"`, it returns none without running the work if the lock is not free in time.
        """
        try:
            acquired = self._begin()
        except (Busy, TimedOut):
            if self._asked.skips:
                return None
            raise
        body: Any = acquired
        with body:
            return work(*args, **kwargs)

    def __call__(self, work: Callable[P, T]) -> Callable[P, T]:
        """Decorates a function, so that each call is a `run`. With `if_busy="skip"`, a call that is skipped returns none."""

        def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            return self.run(work, *args, **kwargs)

        return decorated(work, guarded, of_tasks=False)

    def __enter__(self) -> H:
        """Acquires, and begins the body."""
        self._check_runs()
        acquired = self._begin()
        try:
            acquired.__enter__()
        except BaseException:
            acquired.release()
            raise
        self._entered.append((threading.current_thread(), acquired))
        return acquired

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases."""
        with self._leaving:
            entered = take(self._entered, lambda entered: entered[0])
        return entered[1].__exit__(kind, error, traceback) if entered else None


class Semaphore(LockRequest[Hold]):
    """A semaphore. It is a request for one permit of it, and `permits` makes others. All its users must name the same limit."""

    _inner: request.Semaphore

    def __init__(self, client: Client, inner: request.Semaphore, on_lost: OnLost | None) -> None:
        """Makes it of the form for tasks."""
        super().__init__(client, inner, hold_of(on_lost))
        self._on_lost = on_lost
        self.name, self.limit, self.limit_revision = inner.name, inner.limit, inner.limit_revision

    def permits(
        self, permits: int = 1, *, at_least: int | None = None, on_lost: OnLost | None = None, **options: Unpack[AcquireOptions]
    ) -> LockRequest[Hold]:
        """Returns a request for so many permits, or, with `at_least`, for as many as are free, at least that many.

        The other arguments are those of `Client.lock`, and by default those of the semaphore.
        """
        inner = self._inner.permits(permits, at_least=at_least, **options)
        return LockRequest(self._client, inner, hold_of(on_lost or self._on_lost))


def hold_of(on_lost: OnLost | None) -> Callable[[Loop, hold.Hold], Hold]:
    """Returns what makes the hold of a grant."""
    check_callback(on_lost)
    return lambda loop, inner: Hold(loop, inner, on_lost)


def holds_of(on_lost: OnLost | None) -> Callable[[Loop, hold.Holds], Holds]:
    """Returns what makes the holds of a grant of several locks."""
    check_callback(on_lost)
    return lambda loop, inner: Holds([Hold(loop, one, on_lost) for one in inner])
