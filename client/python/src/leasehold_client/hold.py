"""Holds: locks that were granted, until they are released or lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from . import _arguments as arguments
from ._body import Scope, close_scope, take_body
from ._clock import now
from ._failure import Failure
from ._lease import LockState, ReleaseRequest
from ._machine import Change, Downgrade, Granted, HoldResult, Reduce, Value
from ._view import HoldsView, HoldView
from .errors import ChangeRefused, HoldError, LockLost, LostReason, Unconfirmed

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Hold", "Holds", "LockState", "ReleaseRequest"]

log = logging.getLogger("leasehold_client")


def failed(name: str, token: int, result: HoldResult) -> HoldError:
    """Returns the error of a release or a change that was not carried out."""
    if isinstance(result, LostReason):
        return LockLost(name, token, result)
    if isinstance(result, Failure):
        return ChangeRefused(name, result)
    return Unconfirmed(name)


class Hold(HoldView):
    """A lock that was granted, until it is released or lost.

    Use it as an asynchronous context manager: it releases the lock at the end, and a loss cancels the body and raises `LockLost`.
    It belongs to the event loop of its client; `state`, `is_held` and `check` may be called by any thread.
    """

    def __init__(self, session: Session, granted: Granted, actor: int) -> None:
        """Makes the hold of a grant."""
        self._driver, self._bodies = session._driver, session._bodies
        self._actor = actor
        self._key = granted.key
        self._lease = granted.lease
        self._lock_count = granted.hold_count
        self._lost_event = asyncio.Event()
        self._when_lost_callbacks: list[Callable[[], None]] = []
        self._changed = asyncio.Event()
        self._release: asyncio.Future[HoldResult] | None = None
        self._is_told = False
        self._scopes: list[Scope] = []
        # Weak, since the session has the lease: a hold that is forgotten is to be released.
        listener = weakref.WeakMethod(self._on_change)
        self._lease.listen(lambda: (on_change := listener()) and on_change())

    # Changes of the state.

    def _on_change(self) -> None:
        """Handles a change, in whichever thread it was found."""
        loop = self._driver.loop
        try:
            is_here = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_here = False
        if is_here:
            self._changes()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._changes)

    def _changes(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if self._lease.lost(now()) and not self._lost_event.is_set():
            self._lost_event.set()
            callbacks, self._when_lost_callbacks = self._when_lost_callbacks, []
            if self.loss:
                for callback in callbacks:
                    callback()

    def _when_lost(self, callback: Callable[[], None]) -> None:
        """Has a callback called in the event loop when it is lost, at once if it is. Not when it is released."""
        if self.loss:
            callback()
        else:
            self._when_lost_callbacks.append(callback)

    def _stop(self) -> None:
        super()._stop()
        self._lost_event.set()

    @property
    def lost(self) -> asyncio.Event:
        """Event that is set once it is lost or released, or its body is to end. It may come late: `check` reads the clock."""
        if self._lease.lost(now()):
            self._lost_event.set()
        return self._lost_event

    async def wait_lost(self) -> LostReason:
        """Waits until it is lost or released, and returns why. Not while it is only suspended."""
        self._driver.check_loop()
        while (reason := self.lost_reason) is None:
            await self._changed.wait()
        return reason

    async def changed(self, state: LockState | None = None) -> LockState:
        """Waits until the state differs from this one, by default the present one; returns at once if it is lost."""
        arguments.instance(state, (LockState, type(None)), "state")
        self._driver.check_loop()
        before = state or self.state
        while (present := self.state) is before and present is not LockState.LOST:
            await self._changed.wait()
        return present

    async def _leaves_suspension(self) -> None:
        await self.changed(LockState.SUSPENDED)

    async def settled(self) -> None:
        """Waits until a suspended lock is held again; at once if it is. Raises `LockLost` if it is lost."""
        await self._leaves_suspension()
        self.check()

    async def wait_release_requested(self) -> ReleaseRequest | None:
        """Waits until an operator asks for its release, at once if one did; returns none once it is lost or released."""
        self._driver.check_loop()
        while self.lost_reason is None:
            if self.release_request:
                return self.release_request
            await self._changed.wait()
        return None

    # Requests.

    async def release(self) -> bool:
        """Gives the lock back. From the call on, it counts as not held.

        Call it as often as you like: every call has the outcome of the first. A cancelled call does not stop it. Returns false if the
        lock was lost before. Raises `Unconfirmed` if no coordinator confirmed it within ten seconds, or `ChangeRefused`; what was not
        carried out is repeated in the background, and otherwise the lock ends with its lease. In another event loop it raises
        `RuntimeError`, and the lock is given back all the same.
        """
        self._driver.check_fork()
        release = self._begin_release()
        self._driver.check_loop()
        if release is None:
            return False
        result = await asyncio.shield(release)
        if result is None:
            return True
        if isinstance(result, LostReason):
            return False
        raise failed(self.name, self.token, result)

    def _begin_release(self) -> asyncio.Future[HoldResult] | None:
        """Ends the hold here first, then tells the session: this process must not believe in it once it may be handed on."""
        if self._is_told or self._lease.is_forked:
            return self._release
        if not self._driver.is_here:
            # Given back where it belongs.
            self._forget()
            return None
        self._is_told = True
        was_lost = self._lease.end(now(), LostReason.RELEASED)
        # A lost one is told too, for the session to forget it.
        trace = self._driver.settings.trace()
        self._release = self._driver.release(self._key, trace, waits=was_lost is None)
        return self._release

    def _forget(self) -> bool:
        """Releases it from outside of the event loop, without an answer. Returns whether it was held until now."""
        if self._is_told or self._lease.is_forked:
            return False
        self._is_told = True
        was_lost = self._lease.end(now(), LostReason.RELEASED)
        driver, key = self._driver, self._key
        # The loop may end at this moment, and everything with it.
        with contextlib.suppress(RuntimeError):
            driver.loop.call_soon_threadsafe(lambda: driver.release(key, "", waits=False))
        return was_lost is None

    async def _release_quietly(self) -> None:
        try:
            await self.release()
        except HoldError as error:
            log.debug("the release after the body failed: %s", error)

    async def set_value(self, value: bytes | str) -> None:
        """Changes the value attached to the hold, at most 4 KiB. Raises `HoldError` if that was not confirmed."""
        await self._change(Value(arguments.value_bytes(value)))

    async def downgrade(self) -> None:
        """Turns an exclusive hold into a shared one, in one step. Raises `HoldError` if that was not confirmed."""
        await self._change(Downgrade())

    async def keep(self, permits: int) -> None:
        """Gives permits of a semaphore back, and keeps so many. Raises `HoldError` if that was not confirmed."""
        await self._change(Reduce(arguments.whole(permits, "permits", 1, arguments.MOST_PERMITS)))

    async def _change(self, change: Change) -> None:
        self._check_not_lost()
        result = await self._driver.change(self._key, change, self._driver.settings.trace())
        if result is not None:
            raise failed(self.name, self.token, result)

    # The body.

    async def __aenter__(self) -> Hold:
        """Begins the body. Raises `LockLost` if it is lost or released already."""
        self._check_not_lost()
        self._scopes.append(Scope(self._bodies, [self]))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases the lock."""
        await close_scope(take_body(self._scopes), [self], error)
        return None

    def __del__(self) -> None:
        """Releases a hold that was forgotten, with a warning."""
        if getattr(self, "_is_told", True) or self._lease.is_forked:
            return
        if self._forget():
            warnings.warn(f"the hold of lock {self.name!r} was dropped without a release", ResourceWarning, stacklevel=2)


class Holds(HoldsView[Hold]):
    """Holds of several locks that were granted together, in the order of their names. Each can be released, or lost, alone.

    As a context manager, it releases all of them at the end, and the loss of one cancels the body.
    """

    def __init__(self, holds: list[Hold]) -> None:
        """Makes it of the holds."""
        super().__init__(holds)
        self._scopes: list[Scope] = []

    async def release(self) -> bool:
        """Releases all of them. Returns false if one was lost before. Raises the first error after all were tried."""
        for hold in self._holds:
            hold._begin_release()
        outcomes = await asyncio.gather(*(hold.release() for hold in self._holds), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return all(outcomes)

    async def __aenter__(self) -> Holds:
        """Begins the body. Raises `LockLost` if one of them is lost or released already."""
        for hold in self._holds:
            hold._check_not_lost()
        self._scopes.append(Scope(self._holds[0]._bodies, self._holds))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases the locks."""
        await close_scope(take_body(self._scopes), self._holds, error)
        return None
