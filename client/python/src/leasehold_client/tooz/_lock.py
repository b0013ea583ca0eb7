"""Locks of tooz over locks of Leasehold."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import tooz
from tooz import locking, utils

from .. import sync
from .._body import Body, take_body
from ..actor import Actor
from ..errors import TimedOut
from ._errors import translated

if TYPE_CHECKING:
    from ._driver import LeaseholdDriver


def release(hold: sync.Hold) -> bool:
    """Releases a hold. Returns false if it was lost."""
    # Nothing is to be asked for what is lost, perhaps with a client that is closed.
    if hold.lost_reason:
        return False
    with translated():
        return hold.release()


class LeaseholdLock(locking.Lock):
    """A lock of tooz. Any thread may use it.

    It can be acquired several times in shared mode; each release gives one of them back. An acquire in exclusive mode excludes all
    others, those of the same object too. Within a `with` block, a thread that waits without a bound for the lock of that block gets a
    `ToozError` at once.
    """

    def __init__(self, driver: LeaseholdDriver, name: bytes) -> None:
        """Makes a lock that is not acquired."""
        super().__init__(name)
        self._driver = driver
        self._key = driver._key("lock", name)
        self._mutex = threading.Lock()
        self._holds: list[sync.Hold] = []
        self._entered: list[Body] = []
        # What the running thread has acquired last.
        self._here = threading.local()

    def acquire(self, blocking: bool | float = True, shared: bool = False, timeout: float | None = None) -> bool:
        """Acquires it, and returns whether it did. `blocking` may be the longest wait in seconds."""
        does_wait, wait = utils.convert_blocking(blocking, timeout)
        # As with other drivers, a flow may wait for itself, and share with itself; but not wait for ever.
        actor = None if does_wait and wait is None and not shared else Actor()
        request = self._driver._connected.lock(self._key, wait=wait, shared=shared, actor=actor)
        with translated():
            try:
                hold = request.acquire() if does_wait else request.try_acquire()
            except TimedOut:
                return False
        if hold is None:
            return False
        self._here.hold = hold
        with self._mutex:
            self._holds = [one for one in self._holds if not one.lost_reason]
            self._holds.append(hold)
            self._driver._acquired.add(self)
        return True

    def __enter__(self, *args: Any, **kwargs: Any) -> Self:
        """Acquires it for a block, whose end `stop` waits for. Raises `LockAcquireFailed` if it is not free in time."""
        self._here.hold = None
        super().__enter__(*args, **kwargs)
        # A subclass may acquire in another way.
        if hold := self._here.hold:
            try:
                with translated():
                    body = Body(hold._inner._bodies, [hold])
            except tooz.ToozError:
                self.release()
                raise
            with self._mutex:
                self._entered.append(body)
        return self

    def __exit__(self, *_: Any) -> None:
        """Gives it back, and ends the block."""
        try:
            self.release()
        finally:
            with self._mutex:
                body = take_body(self._entered)
            if body:
                body.end()

    def release(self) -> bool:
        """Gives it back. Returns false if it is not acquired, or was lost."""
        with self._mutex:
            if not self._holds:
                return False
            hold = self._holds.pop()
            if not self._holds:
                self._driver._acquired.discard(self)
        return release(hold)

    def break_(self) -> bool:
        """Takes it from all its holders. Returns whether there were any."""
        with translated():
            return self._driver._connected.admin.force_release(self._key)

    def heartbeat(self) -> bool:
        """Returns whether it is held, as `is_still_owner`. Locks are renewed in the background: nothing has to be called for that."""
        return self.is_still_owner()

    def is_still_owner(self) -> bool:
        """Returns whether it is acquired and not lost, by this process's own clock. False once the coordinator is being stopped."""
        return self._driver._client is not None and self._held() is not None

    @property
    def acquired(self) -> bool:
        """Whether it is acquired and not lost."""
        return self.is_still_owner()

    @property
    def token(self) -> int | None:
        """The fencing token: pass it to what the lock protects, which must refuse smaller ones. None if it is not held."""
        hold = self._held()
        return hold.token if hold else None

    def _held(self) -> sync.Hold | None:
        with self._mutex:
            return next((one for one in reversed(self._holds) if one.is_held), None)
