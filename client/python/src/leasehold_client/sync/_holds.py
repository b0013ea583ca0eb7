"""Holds, for threads."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from .. import hold
from .._body import Body, finish, take_body
from .._view import HoldsView, HoldView
from ..errors import Forked, SessionClosed
from ..hold import LockState
from ._blocking import blocking
from ._loop import Loop

log = logging.getLogger("leasehold_client")


OnLost = Callable[["Hold"], object]
"""Callback of a loss. It runs in a thread of its own."""


def check_callback(on_lost: OnLost | None) -> None:
    """Fails unless a callback can be called."""
    if on_lost is not None and not callable(on_lost):
        raise TypeError(f"on_lost: expected a function, got {type(on_lost).__name__}")


class Hold(HoldView):
    """A lock that was granted, until it is released or lost. Any thread may use it.

    As a context manager, it releases the lock at the end, and raises `LockLost` if it was lost before the body ended, unless the body
    failed with an error of its own.
    """

    def __init__(self, loop: Loop, inner: hold.Hold, on_lost: OnLost | None = None) -> None:
        """Makes the hold of a grant."""
        self._loop, self._inner, self._on_lost = loop, inner, on_lost
        self._lease, self._lock_count, self._run = inner._lease, inner._lock_count, loop.run
        self._actor = inner._actor
        self._entered: list[Body] = []
        self._telling = threading.Lock()
        self.lost = threading.Event()
        """Event that is set once it is lost or released, or its body is to end. It may come late: `check` reads the clock."""
        # Weak, since the session has the lease: a hold that is forgotten is to be released, with a warning.
        listener = weakref.WeakMethod(self._changed)
        inner._lease.listen(lambda: (changed := listener()) and changed())
        self._changed()

    def _changed(self) -> None:
        if self.lost_reason:
            self._told(has_failed=self.loss is not None)

    def _stop(self) -> None:
        super()._stop()
        self._told(has_failed=True)

    def _told(self, *, has_failed: bool) -> None:
        with self._telling:
            is_first = not self.lost.is_set()
            self.lost.set()
        if is_first and self._on_lost and has_failed:
            threading.Thread(target=self._tell, args=(self._on_lost,), name="leasehold-lost", daemon=True).start()

    def _tell(self, on_lost: OnLost) -> None:
        try:
            on_lost(self)
        except Exception:
            log.exception("a callback of the loss of lock %r failed", self.name)

    def changed(self, state: LockState | None = None) -> LockState:
        """Waits until the state differs from this one, by default the present one; returns at once if it is lost."""
        if self.state is LockState.LOST:
            return LockState.LOST
        return self._run(self._inner.changed(state or self.state))

    def settled(self) -> None:
        """Waits until a suspended lock is held again; at once if it is. Raises `LockLost` if it is lost."""
        if self.state is LockState.SUSPENDED:
            self._run(self._inner.settled())
        self.check()

    def release(self) -> bool:
        """Gives the lock back. From the call on, it counts as not held.

        Call it as often as you like: every call has the outcome of the first. Returns false if the lock was lost before. Raises
        `Unconfirmed` if no coordinator confirmed it within ten seconds, or `ChangeRefused`.
        """
        try:
            return self._run(self._inner.release())
        except SessionClosed:
            # It was lost with the session, at the latest.
            return False

    set_value = blocking(hold.Hold.set_value)
    downgrade = blocking(hold.Hold.downgrade)
    keep = blocking(hold.Hold.keep)
    wait_lost = blocking(hold.Hold.wait_lost)
    wait_release_requested = blocking(hold.Hold.wait_release_requested)

    def __enter__(self) -> Self:
        """Begins the body. Raises `LockLost` if it is lost or released already."""
        self._check_not_lost()
        self._entered.append(Body(self._inner._bodies, [self]))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases the lock."""
        leave(take_body(self._entered), [self], error)
        return None


def leave(body: Body | None, holds: Sequence[Hold], error: BaseException | None) -> None:
    """Ends a body with this error or with none, and releases its holds."""
    try:
        if error is None:
            for one in holds:
                # Not made under the lock from beginning to end, if it turns out to be lost.
                if one.state is LockState.SUSPENDED:
                    one.changed(LockState.SUSPENDED)
        lost = next((loss for one in holds if (loss := one.loss)), None)
    finally:
        try:
            # All at once, so that no interrupt leaves some of them behind.
            holds[0]._run(_release(body, [one._inner for one in holds]))
        except (SessionClosed, Forked) as failed:
            log.debug("the release after the body failed: %s", failed)
        finally:
            if body:
                body.end()
    finish(lost, error)


async def _release(body: Body | None, holds: Sequence[hold.Hold]) -> None:
    for one in holds:
        one._begin_release()
    if body:
        body._bodies.end(body)
    for one in holds:
        await one._release_quietly()


class Holds(HoldsView[Hold]):
    """Holds of several locks that were granted together, in the order of their names. Each can be released, or lost, alone."""

    def __init__(self, holds: list[Hold]) -> None:
        """Makes it of the holds."""
        super().__init__(holds)
        self._entered: list[Body] = []

    def release(self) -> bool:
        """Releases all of them. Returns false if one was lost before. Raises the first error after all were tried."""
        try:
            return self._holds[0]._run(hold.Holds([one._inner for one in self._holds]).release())
        except SessionClosed:
            return False

    def __enter__(self) -> Self:
        """Begins the body. Raises `LockLost` if one of them is lost or released already."""
        for one in self._holds:
            one._check_not_lost()
        self._entered.append(Body(self._holds[0]._inner._bodies, self._holds))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases the locks."""
        leave(take_body(self._entered), self._holds, error)
        return None
