"""Requests for locks and permits of semaphores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from . import _arguments as arguments
from ._body import take
from ._clock import Seconds
from ._machine import AcquireSpec, LockSpec
from ._options import AcquireOptions, Asked, acquire
from ._requesting import RequestView, decorated, is_busy
from .errors import Busy, TimedOut
from .hold import Hold, Holds

if TYPE_CHECKING:
    from .client import Client

__all__ = ["LockRequest", "LockSpec", "Semaphore"]

H = TypeVar("H", bound=Hold | Holds)
P = ParamSpec("P")
T = TypeVar("T")


def first(holds: list[Hold]) -> Hold:
    """Returns the hold of a request for one lock."""
    return holds[0]


class LockRequest(RequestView, Generic[H]):
    """Request for one lock or several, which is made when it is used: `async with`, `acquire`, `try_acquire`, `run`, or as a decorator.

    It may be used again, and each use is a request of its own. The first use connects the client, unless it is connected. As a context
    manager it acquires, runs the body, and releases; a loss cancels the body and raises `LockLost`.
    """

    def __init__(self, client: Client, asked: Asked, make: Callable[[list[Hold]], H]) -> None:
        """Makes a request of this client; `make` makes the result of the holds."""
        self._client = client
        self._asked = asked
        self._make = make
        # Each task ends what it began.
        self._entered: list[tuple[asyncio.Task[Any] | None, H]] = []

    async def acquire(self, *, timeout: Seconds | None = None) -> H:
        """Waits for the lock, and returns its hold. If the call is cancelled, a grant that crosses it is given back.

        - `timeout`: longest wait of this acquire, as `wait` of the request, which it replaces.

        Raises an `AcquireError`: `Busy` or `TimedOut` if it did not come free in time; `Refused` and its subclasses if the coordinator
        could not serve the request; `Unavailable` if none answered within the wait. Without a wait, a lost connection is no error: the
        request goes on at the next coordinator. Raises `ConnectError` if it is the client's first use, and no coordinator serves it.
        """
        return await self._acquire(self._spec(timeout))

    async def try_acquire(self) -> H | None:
        """Returns the hold, or none if the lock is busy. Otherwise as `acquire`."""
        try:
            return await self._acquire(self._spec(0))
        except Busy:
            return None

    async def _begin(self) -> H:
        """Acquires for a body of this task."""
        return await self._acquire(self._spec(for_body=True))

    async def _acquire(self, spec: AcquireSpec) -> H:
        session = await self._client._ready()
        return self._make(await session._acquire(spec))

    async def locked(self) -> bool:
        """Returns whether an acquire would have to wait now, which may have changed when the answer is here.

        It is a call of operators, which needs the permission `inspect`, and raises `CallFailed`.
        """
        for lock in self._asked.spec.locks:
            if is_busy(lock, await self._client.admin.get_lock(lock.name)):
                return True
        return False

    async def run(self, work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Acquires, runs the work with these arguments as a body, releases, and returns the result.

        With `if_busy="skip"`, it returns none without running the work if the lock is not free in time.
        """
        try:
            hold = await self._begin()
        except (Busy, TimedOut):
            if self._asked.skips:
                return None
            raise
        body: Any = hold
        async with body:
            return await work(*args, **kwargs)

    def __call__(self, work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Decorates a coroutine function, so that each call is a `run`. With `if_busy="skip"`, a call that is skipped returns none."""

        async def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            return await self.run(work, *args, **kwargs)

        return decorated(work, guarded, of_tasks=True)

    async def __aenter__(self) -> H:
        """Acquires, and begins the body."""
        self._check_runs()
        hold = await self._begin()
        try:
            await hold.__aenter__()
        except BaseException:
            await hold.release()
            raise
        self._entered.append((asyncio.current_task(), hold))
        return hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases."""
        entered = take(self._entered, lambda entered: entered[0])
        return await entered[1].__aexit__(kind, error, traceback) if entered else None


class Semaphore(LockRequest[Hold]):
    """A semaphore. It is a request for one permit of it, and `permits` makes others. All its users must name the same limit."""

    def __init__(self, client: Client, name: str, limit: int, limit_revision: int, options: AcquireOptions) -> None:
        """Makes it with these arguments for the request of one permit."""
        self.name = arguments.name(name)
        """The semaphore's name."""
        self.limit = arguments.limit(limit)
        """Its total of permits."""
        self.limit_revision = arguments.revision(limit_revision)
        """The revision of the limit: a greater one replaces the limit in force."""
        self._options = options
        super().__init__(client, self._ask(client, 1, None, options), first)

    def permits(self, permits: int = 1, *, at_least: int | None = None, **options: Unpack[AcquireOptions]) -> LockRequest[Hold]:
        """Returns a request for so many permits, or, with `at_least`, for as many as are free, at least that many.

        The other arguments are those of `Client.lock`, and by default those of the semaphore.
        """
        if permits is None:
            raise TypeError("permits: expected a whole number, got NoneType")
        return LockRequest(self._client, self._ask(self._client, permits, at_least, {**self._options, **options}), first)

    def _ask(self, client: Client, permits: int, at_least: int | None, options: AcquireOptions) -> Asked:
        lock = LockSpec.of_permits(self.name, permits, self.limit, at_least=at_least, limit_revision=self.limit_revision)
        return acquire([arguments.lock(lock)], client._wait, **options)
