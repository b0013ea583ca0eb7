"""Holds: locks that were granted, until they are released or lost."""

from __future__ import annotations

import asyncio
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from ._clock import SECOND, now
from ._driver import Driver
from ._failure import Failure
from ._lease import LockState, ReleaseRequest
from ._machine import Change, Downgrade, Granted, HoldResult, Reduce, Value
from .errors import ChangeRefused, HoldError, LockLost, LockSuspended, LostReason, Unconfirmed

__all__ = ["Hold", "Holds", "LockState", "ReleaseRequest"]

log = logging.getLogger("leasehold")


def failed(name: str, token: int, result: HoldResult) -> HoldError:
    """Returns the error of a release or a change that was not carried out."""
    if isinstance(result, LostReason):
        return LockLost(name, token, result)
    if isinstance(result, Failure):
        return ChangeRefused(name, result)
    return Unconfirmed(name)


def add_context(error: BaseException, lost: LockLost) -> None:
    """Shows a loss beside the body's own error, which goes on as it is."""
    seen = error
    while seen.__context__ is not None and seen.__context__ is not lost:
        seen = seen.__context__
    if seen is not lost:
        seen.__context__ = lost
    error.add_note(str(lost))


class Scope:
    """Body that runs while locks are held. A loss cancels it, as `asyncio.timeout` does."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        """Makes the scope of the running task."""
        self._holds = holds
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lock's body must run in a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._is_open = True
        self._is_stopped = False
        for hold in holds:
            hold._when_lost(self._stop)

    def _stop(self) -> None:
        if self._is_open and not self._is_stopped:
            self._is_stopped = True
            self._task.cancel()

    @property
    def is_mine(self) -> bool:
        """Whether it is that of the running task."""
        return self._task is asyncio.current_task()

    def lost(self) -> LockLost | None:
        """Returns the first of the losses, if there is one."""
        return next((lost for hold in self._holds if (lost := hold.loss)), None)

    async def close(self, error: BaseException | None) -> None:
        """Ends the scope, after the body has ended with this error or with none.

        Raises `LockLost` if a lock was lost before the body ended, unless the body failed with an error of its own.
        """
        came_here: asyncio.CancelledError | None = None
        if error is None:
            try:
                for hold in self._holds:
                    # Not made under the lock from beginning to end, if it turns out to be lost.
                    await hold._leaves_suspension()
            except asyncio.CancelledError as cancelled:
                error = came_here = cancelled
        lost = self.lost()
        self._is_open = False
        if self._is_stopped and self._task.uncancel() <= self._cancelling:
            if isinstance(error, asyncio.CancelledError):
                if lost:
                    raise lost from error
            else:
                await self._take_cancellation()
        if lost and error is None:
            raise lost
        if lost and error and not (isinstance(error, LockLost) and error.name == lost.name):
            add_context(error, lost)
        if came_here:
            raise came_here

    async def _take_cancellation(self) -> None:
        """Takes the cancellation of the scope if it has not reached the body, so that it does not reach what follows."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._task.cancelling() > self._cancelling:
                raise


class Hold:
    """A lock that was granted, until it is released or lost.

    Use it as an asynchronous context manager: it releases the lock at the end, and a loss cancels the body and raises `LockLost`.
    It belongs to the event loop of its client; `state`, `is_held` and `check` may be called by any thread.
    """

    def __init__(self, driver: Driver, granted: Granted) -> None:
        """Makes the hold of a grant."""
        self._driver = driver
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

    # State.

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lease.name

    @property
    def token(self) -> int:
        """The fencing token: pass it to what the lock protects, which must refuse smaller ones."""
        return self._lease.token

    @property
    def permits(self) -> int | None:
        """Permits of a semaphore that were granted; none for other locks."""
        return self._lease.permits

    @property
    def hold_count(self) -> int:
        """Number of times that the actor held the lock at this grant, this one included."""
        return self._lock_count

    @property
    def state(self) -> LockState:
        """Whether it is held, suspended or lost now, by this process's own clock and all that the coordinator said."""
        return self._lease.state(now())

    @property
    def is_held(self) -> bool:
        """Whether it is held now. False while it is suspended."""
        return self.state is LockState.HELD

    @property
    def lost_reason(self) -> LostReason | None:
        """Why it is not held any more; none while it is held or suspended."""
        return self._lease.lost(now())

    @property
    def loss(self) -> LockLost | None:
        """The error of the loss, if it was lost; none once it was released."""
        reason = self.lost_reason
        return LockLost(self.name, self.token, reason) if reason and reason is not LostReason.RELEASED else None

    def check(self) -> None:
        """Reads the clock, and fails unless the lock is held. Call it before every step that must not run without the lock.

        Raises `LockLost` if it was lost or released, and `LockSuspended` while it is suspended.
        """
        state, reason = self._lease.status(now())
        if reason:
            raise LockLost(self.name, self.token, reason)
        if state is LockState.SUSPENDED:
            raise LockSuspended(self.name)

    @property
    def valid_for(self) -> float:
        """Seconds until it is lost unless a heartbeat is answered before; 0 while it is not held."""
        return self.lost_in if self.is_held else 0.0

    @property
    def lost_in(self) -> float:
        """Seconds until it is lost, held or suspended, unless a coordinator answers before; 0 once it is."""
        moment = now()
        deadline = self._lease.deadline(moment)
        return 0.0 if deadline is None else (deadline - moment) / SECOND

    @property
    def ends_in(self) -> float | None:
        """Seconds until it ends because it may be held no longer (`max_hold`); none if there is no bound."""
        ends_at = self._lease.ends_at()
        return None if ends_at is None else max(0.0, (ends_at - now()) / SECOND) if not self.lost_reason else 0.0

    @property
    def release_request(self) -> ReleaseRequest | None:
        """The last request of an operator to release it, if there was one."""
        return self._lease.request

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

    @property
    def lost(self) -> asyncio.Event:
        """Event that is set once it is lost or released. It may come late: `check` reads the clock."""
        if self._lease.lost(now()):
            self._lost_event.set()
        return self._lost_event

    async def wait_lost(self) -> LostReason:
        """Waits until it is lost or released, and returns why. Not while it is only suspended."""
        while (reason := self.lost_reason) is None:
            await self._changed.wait()
        return reason

    async def changed(self, state: LockState | None = None) -> LockState:
        """Waits until the state differs from this one, by default the present one; returns at once if it is lost."""
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
        carried out is repeated in the background, and otherwise the lock ends with its lease.
        """
        self._driver.check_fork()
        release = self._begin_release()
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
        self._is_told = True
        was_lost = self._lease.end(now(), LostReason.RELEASED)
        # A lost one is told too, for the session to forget it.
        trace = self._driver.settings.trace()
        self._release = self._driver.release(self._key, trace, waits=was_lost is None)
        return self._release

    async def _release_quietly(self) -> None:
        try:
            await self.release()
        except HoldError as error:
            log.debug("the release after the body failed: %s", error)

    async def set_value(self, value: bytes | str) -> None:
        """Changes the value attached to the hold, at most 4 KiB. Raises `HoldError` if that was not confirmed."""
        await self._change(Value(value.encode() if isinstance(value, str) else value))

    async def downgrade(self) -> None:
        """Turns an exclusive hold into a shared one, in one step. Raises `HoldError` if that was not confirmed."""
        await self._change(Downgrade())

    async def keep(self, permits: int) -> None:
        """Gives permits of a semaphore back, and keeps so many. Raises `HoldError` if that was not confirmed."""
        if not isinstance(permits, int):
            raise TypeError("permits are a whole number")
        if permits < 1:
            raise ValueError("a hold keeps at least one permit; release it instead")
        await self._change(Reduce(permits))

    async def _change(self, change: Change) -> None:
        result = await self._driver.change(self._key, change, self._driver.settings.trace())
        if result is not None:
            raise failed(self.name, self.token, result)

    # The body.

    async def __aenter__(self) -> Hold:
        """Begins the body."""
        self._scopes.append(Scope([self]))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases the lock."""
        await close_scope(take_scope(self._scopes), [self], error)
        return None

    def __del__(self) -> None:
        """Releases a hold that was forgotten, with a warning."""
        if getattr(self, "_is_told", True) or self._lease.is_forked:
            return
        self._is_told = True
        if self._lease.end(now(), LostReason.RELEASED) is None:
            warnings.warn(f"the hold of lock {self.name!r} was dropped without a release", ResourceWarning, stacklevel=2)
        driver, key = self._driver, self._key
        if not driver.loop.is_closed():
            driver.loop.call_soon_threadsafe(lambda: driver.release(key, "", waits=False))

    def __repr__(self) -> str:
        """Shows name, token and state."""
        return f"<{type(self).__name__} {self.name!r} token={self.token} {self.state.value}>"


def take_scope(scopes: list[Scope]) -> Scope:
    """Removes the last scope of the running task."""
    index = max(index for index, scope in enumerate(scopes) if scope.is_mine)
    return scopes.pop(index)


async def close_scope(scope: Scope, holds: Sequence[Hold], error: BaseException | None) -> None:
    """Ends a scope, then releases its holds, whatever happened. A cancellation does not keep any of them."""
    try:
        await scope.close(error)
    finally:
        # All are told before anything is awaited.
        for hold in holds:
            hold._begin_release()
        for hold in holds:
            await hold._release_quietly()


class Holds(Sequence[Hold]):
    """Holds of several locks that were granted together, in the order of their names. Each can be released, or lost, alone.

    As a context manager, it releases all of them at the end, and the loss of one cancels the body.
    """

    def __init__(self, holds: list[Hold]) -> None:
        """Makes it of the holds."""
        self._holds = holds
        self._scopes: list[Scope] = []

    def __getitem__(self, index: Any) -> Any:
        """Returns a hold by its place."""
        return self._holds[index]

    def __len__(self) -> int:
        """Returns the number of the holds."""
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        """Returns the holds in order."""
        return iter(self._holds)

    def get(self, name: str) -> Hold | None:
        """Returns the hold of the lock of this name, if it is one of them."""
        return next((hold for hold in self._holds if hold.name == name), None)

    @property
    def state(self) -> LockState:
        """Held if all are, lost if one is, otherwise suspended."""
        states = {hold.state for hold in self._holds}
        return next(state for state in (LockState.LOST, LockState.SUSPENDED, LockState.HELD) if state in states)

    @property
    def is_held(self) -> bool:
        """Whether all of them are held."""
        return self.state is LockState.HELD

    def check(self) -> None:
        """Fails unless all of them are held; see `Hold.check`."""
        for hold in self._holds:
            hold.check()

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
        """Begins the body."""
        self._scopes.append(Scope(self._holds))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases the locks."""
        await close_scope(take_scope(self._scopes), self._holds, error)
        return None
