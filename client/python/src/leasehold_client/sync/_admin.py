"""Administration, for threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .. import admin as admin_
from ..views import LockEvent, LockView
from ._blocking import blocking
from ._elections import Feed

T = TypeVar("T")


class Watcher(Feed[LockView | LockEvent | admin_.Ready | admin_.Gap]):
    """Changes of locks; see `leasehold_client.Watcher`."""


class Admin:
    """Calls of operators. Every method raises `CallFailed`."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], inner: admin_.Admin) -> None:
        """Makes it of what runs its calls."""
        self._run, self._inner = run, inner

    get_lock = blocking(admin_.Admin.get_lock)
    list_sessions = blocking(admin_.Admin.list_sessions)
    force_release = blocking(admin_.Admin.force_release)
    request_release = blocking(admin_.Admin.request_release)
    end_session = blocking(admin_.Admin.end_session)
    check_token = blocking(admin_.Admin.check_token)
    status = blocking(admin_.Admin.status)

    def list_locks(self, prefix: str = "") -> list[LockView]:
        """Returns the locks whose names begin with the prefix, without their waiters: a scan, unordered."""

        async def collect() -> list[LockView]:
            return [lock async for lock in self._inner.list_locks(prefix)]

        locks: list[LockView] = self._run(collect())
        return locks

    def watch(self, prefix: str = "") -> Watcher:
        """Returns a watcher of the locks whose names begin with the prefix."""
        return Watcher(self._run, self._inner.watch(prefix))
