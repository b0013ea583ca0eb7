"""Administration, for threads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from .. import admin as admin_
from .._clock import Seconds
from ..views import CoordinatorView, EndedSession, LockEvent, LockView, SessionView
from ._elections import Feed
from ._loop import Loop

T = TypeVar("T")


class Watcher(Feed[LockView | LockEvent | admin_.Ready | admin_.Gap]):
    """Changes of locks; see `leasehold_client.Watcher`."""


class Admin:
    """Calls of operators. Every method raises `CallFailed`."""

    def __init__(self, loop: Loop, inner: admin_.Admin) -> None:
        """Makes it."""
        self._loop, self._inner = loop, inner

    def get_lock(self, name: str) -> LockView:
        """Returns one lock. A free name is shown as free."""
        return self._loop.run(self._inner.get_lock(name))

    def list_locks(self, prefix: str = "") -> list[LockView]:
        """Returns the locks whose names begin with the prefix, without their waiters: a scan, unordered."""
        return self._loop.run(_all(self._inner.list_locks(prefix)))

    def list_sessions(self) -> list[SessionView]:
        """Returns the sessions of the coordinator that answers."""
        return self._loop.run(self._inner.list_sessions())

    def force_release(self, name: str, *, token: int | None = None, waiter: int | None = None) -> bool:
        """Takes a lock from its holders, or from the one with this token; or ends the wait of the waiter of this number."""
        return self._loop.run(self._inner.force_release(name, token=token, waiter=waiter))

    def request_release(self, name: str, *, token: int = 0, reason: str = "", within: Seconds | None = None) -> int:
        """Asks the holders of a lock, or the one with this token, to release it. Returns how many were asked."""
        return self._loop.run(self._inner.request_release(name, token=token, reason=reason, within=within))

    def end_session(self, session_id: str) -> EndedSession:
        """Ends a session with all that it has, at whichever coordinator it is."""
        return self._loop.run(self._inner.end_session(session_id))

    def check_token(self, name: str, token: int) -> bool:
        """Returns whether a fencing token is still the newest of its name."""
        return self._loop.run(self._inner.check_token(name, token))

    def status(self) -> CoordinatorView:
        """Returns the status of the coordinator that answers."""
        return self._loop.run(self._inner.status())

    def watch(self, prefix: str = "") -> Watcher:
        """Returns a watcher of the locks whose names begin with the prefix."""
        return Watcher(self._loop, self._inner.watch(prefix))


async def _all(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]
