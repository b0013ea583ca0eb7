"""Holds: locks that were granted, until they are released or lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from . import _arguments as arguments
from ._clock import SECOND, now
from ._driver import Driver
from ._failure import Failure
from ._lease import LockState, ReleaseRequest
from ._machine import Change, Downgrade, Granted, HoldResult, Reduce, Value
from ._scope import Scope, close_scope, take_scope
from .errors import ChangeRefused, HoldError, LockLost, LockSuspended, LostReason, Unconfirmed

__all__ = ["Hold", "Holds", "LockState", "ReleaseRequest"]

log = logging.getLogger("leasehold_client")


def failed(name: str, token: int, result: HoldResult) -> HoldError:
    """Returns the error of a release or a change that was not carried out."""
    if isinstance(result, LostReason):
        return LockLost(name, token, result)
    if isinstance(result, Failure):
        return ChangeRefused(name, result)
    return Unconfirmed(name)


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
        self._scopes.append(Scope([self]))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases the lock."""
        await close_scope(take_scope(self._scopes), [self], error)
        return None

    def _check_not_lost(self) -> None:
        """Fails if it is lost or released; not while it is suspended."""
        if reason := self.lost_reason:
            raise LockLost(self.name, self.token, reason)

    def __del__(self) -> None:
        """Releases a hold that was forgotten, with a warning."""
        if getattr(self, "_is_told", True) or self._lease.is_forked:
            return
        if self._forget():
            warnings.warn(f"the hold of lock {self.name!r} was dropped without a release", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        """Shows name, token and state."""
        return f"<{type(self).__name__} {self.name!r} token={self.token} {self.state.value}>"


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
        """Begins the body. Raises `LockLost` if one of them is lost or released already."""
        for hold in self._holds:
            hold._check_not_lost()
        self._scopes.append(Scope(self._holds))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Ends the body, then releases the locks."""
        await close_scope(take_scope(self._scopes), self._holds, error)
        return None
