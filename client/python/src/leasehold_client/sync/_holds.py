"""Holds, for threads."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from .. import hold
from .._scope import add_context
from ..errors import Forked, HoldError, LockLost, LostReason, SessionClosed
from ..hold import LockState, ReleaseRequest
from ._loop import Loop

log = logging.getLogger("leasehold_client")


OnLost = Callable[["Hold"], object]
"""Callback of a loss. It runs in a thread of its own."""


def check_callback(on_lost: OnLost | None) -> None:
    """Fails unless a callback can be called."""
    if on_lost is not None and not callable(on_lost):
        raise TypeError(f"on_lost: expected a function, got {type(on_lost).__name__}")


class Hold:
    """A lock that was granted, until it is released or lost. Any thread may use it.

    As a context manager, it releases the lock at the end, and raises `LockLost` if it was lost before the body ended, unless the body
    failed with an error of its own.
    """

    def __init__(self, loop: Loop, inner: hold.Hold, on_lost: OnLost | None = None) -> None:
        """Makes the hold of a grant."""
        self._loop, self._inner, self._on_lost = loop, inner, on_lost
        self._telling = threading.Lock()
        self.lost = threading.Event()
        """Event that is set once it is lost or released. It may come late: `check` reads the clock."""
        # Weak, since the session has the lease: a hold that is forgotten is to be released, with a warning.
        listener = weakref.WeakMethod(self._changed)
        inner._lease.listen(lambda: (changed := listener()) and changed())
        self._changed()

    def _changed(self) -> None:
        if self._inner.lost_reason:
            with self._telling:
                is_first = not self.lost.is_set()
                self.lost.set()
            if is_first and self._on_lost and self._inner.loss:
                threading.Thread(target=self._tell, args=(self._on_lost,), name="leasehold-lost", daemon=True).start()

    def _tell(self, on_lost: OnLost) -> None:
        try:
            on_lost(self)
        except Exception:
            log.exception("a callback of the loss of lock %r failed", self.name)

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._inner.name

    @property
    def token(self) -> int:
        """The fencing token: pass it to what the lock protects, which must refuse smaller ones."""
        return self._inner.token

    @property
    def permits(self) -> int | None:
        """Permits of a semaphore that were granted; none for other locks."""
        return self._inner.permits

    @property
    def hold_count(self) -> int:
        """Number of times that the actor held the lock at this grant, this one included."""
        return self._inner.hold_count

    @property
    def state(self) -> LockState:
        """Whether it is held, suspended or lost now, by this process's own clock and all that the coordinator said."""
        return self._inner.state

    @property
    def is_held(self) -> bool:
        """Whether it is held now. False while it is suspended."""
        return self._inner.is_held

    @property
    def lost_reason(self) -> LostReason | None:
        """Why it is not held any more; none while it is held or suspended."""
        return self._inner.lost_reason

    @property
    def valid_for(self) -> float:
        """Seconds until it is lost unless a heartbeat is answered before; 0 while it is not held."""
        return self._inner.valid_for

    @property
    def lost_in(self) -> float:
        """Seconds until it is lost, held or suspended, unless a coordinator answers before; 0 once it is."""
        return self._inner.lost_in

    @property
    def ends_in(self) -> float | None:
        """Seconds until it ends because it may be held no longer (`max_hold`); none if there is no bound."""
        return self._inner.ends_in

    @property
    def release_request(self) -> ReleaseRequest | None:
        """The last request of an operator to release it, if there was one."""
        return self._inner.release_request

    def check(self) -> None:
        """Reads the clock, and fails unless the lock is held. Call it before every step that must not run without the lock.

        Raises `LockLost` if it was lost or released, and `LockSuspended` while it is suspended.
        """
        self._inner.check()

    def changed(self, state: LockState | None = None) -> LockState:
        """Waits until the state differs from this one, by default the present one; returns at once if it is lost."""
        if self.state is LockState.LOST:
            return LockState.LOST
        return self._loop.run(self._inner.changed(state or self.state))

    def settled(self) -> None:
        """Waits until a suspended lock is held again; at once if it is. Raises `LockLost` if it is lost."""
        if self.state is LockState.SUSPENDED:
            self._loop.run(self._inner.settled())
        self.check()

    def release(self) -> bool:
        """Gives the lock back. From the call on, it counts as not held.

        Call it as often as you like: every call has the outcome of the first. Returns false if the lock was lost before. Raises
        `Unconfirmed` if no coordinator confirmed it within ten seconds, or `ChangeRefused`.
        """
        try:
            return self._loop.run(self._inner.release())
        except SessionClosed:
            # It was lost with the session, at the latest.
            return False

    def set_value(self, value: bytes | str) -> None:
        """Changes the value attached to the hold, at most 4 KiB. Raises `HoldError` if that was not confirmed."""
        self._loop.run(self._inner.set_value(value))

    def downgrade(self) -> None:
        """Turns an exclusive hold into a shared one, in one step. Raises `HoldError` if that was not confirmed."""
        self._loop.run(self._inner.downgrade())

    def keep(self, permits: int) -> None:
        """Gives permits of a semaphore back, and keeps so many. Raises `HoldError` if that was not confirmed."""
        self._loop.run(self._inner.keep(permits))

    def __enter__(self) -> Hold:
        """Begins the body. Raises `LockLost` if it is lost or released already."""
        self._inner._check_not_lost()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases the lock."""
        close([self], error)
        return None

    def __repr__(self) -> str:
        """Shows name, token and state."""
        return f"<{type(self).__name__} {self.name!r} token={self.token} {self.state.value}>"


def close(holds: Sequence[Hold], error: BaseException | None) -> None:
    """Ends a body with this error or with none, and releases its holds."""
    try:
        if error is None:
            for one in holds:
                # Not made under the lock from beginning to end, if it turns out to be lost.
                if one.state is LockState.SUSPENDED:
                    one.changed(LockState.SUSPENDED)
        lost = next((loss for one in holds if (loss := one._inner.loss)), None)
    finally:
        for one in holds:
            try:
                one.release()
            except (HoldError, Forked) as failed:
                log.debug("the release after the body failed: %s", failed)
    if lost and error is None:
        raise lost
    if lost and error and not (isinstance(error, LockLost) and error.name == lost.name):
        add_context(error, lost)


class Holds(Sequence[Hold]):
    """Holds of several locks that were granted together, in the order of their names. Each can be released, or lost, alone."""

    def __init__(self, holds: list[Hold]) -> None:
        """Makes it of the holds."""
        self._holds = holds

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
        return next((one for one in self._holds if one.name == name), None)

    @property
    def state(self) -> LockState:
        """Held if all are, lost if one is, otherwise suspended."""
        states = {one.state for one in self._holds}
        return next(state for state in (LockState.LOST, LockState.SUSPENDED, LockState.HELD) if state in states)

    def check(self) -> None:
        """Fails unless all of them are held; see `Hold.check`."""
        for one in self._holds:
            one.check()

    def release(self) -> bool:
        """Releases all of them. Returns false if one was lost before. Raises the first error after all were tried."""
        try:
            return self._holds[0]._loop.run(hold.Holds([one._inner for one in self._holds]).release())
        except SessionClosed:
            return False

    def __enter__(self) -> Holds:
        """Begins the body. Raises `LockLost` if one of them is lost or released already."""
        for one in self._holds:
            one._inner._check_not_lost()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases the locks."""
        close(self._holds, error)
        return None
