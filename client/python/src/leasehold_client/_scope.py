"""Bodies that run while locks are held: a loss cancels them, and whoever leaves them releases the locks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import LockLost

if TYPE_CHECKING:
    from .hold import Hold

T = TypeVar("T")


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
        self.task = task
        self._cancelling = task.cancelling()
        self._is_open = True
        self._is_stopped = False
        for hold in holds:
            hold._when_lost(self._stop)

    def _stop(self) -> None:
        if self._is_open and not self._is_stopped:
            self._is_stopped = True
            self.task.cancel()

    @property
    def is_mine(self) -> bool:
        """Whether it is that of the running task."""
        return self.task is asyncio.current_task()

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
        # Another task than the body's was not cancelled.
        if self.is_mine and self._is_stopped and self.task.uncancel() <= self._cancelling:
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
            if self.task.cancelling() > self._cancelling:
                raise


def take(scopes: list[T], owner: Callable[[T], asyncio.Task[Any] | threading.Thread | None]) -> T | None:
    """Removes the last scope that was entered by the one who leaves now.

    A fixture, a generator or an exit stack may be left by another task or thread than the one that entered it: then it is the last one
    of somebody who has ended, or the last of all.
    """
    here = (threading.current_thread(), _current_task())

    def rank(index: int) -> tuple[int, int]:
        entered_by = owner(scopes[index])
        if entered_by in here:
            return 2, index
        is_over = entered_by.done() if isinstance(entered_by, asyncio.Task) else entered_by is None or not entered_by.is_alive()
        return int(is_over), index

    return scopes.pop(max(range(len(scopes)), key=rank)) if scopes else None


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def take_scope(scopes: list[Scope]) -> Scope | None:
    """Removes the scope that ends now."""
    return take(scopes, lambda scope: scope.task)


async def close_scope(scope: Scope | None, holds: Sequence[Hold], error: BaseException | None) -> None:
    """Ends a scope, then releases its holds, whatever happened. A cancellation does not keep any of them."""
    try:
        if scope:
            await scope.close(error)
    finally:
        # All are told before anything is awaited.
        for hold in holds:
            hold._begin_release()
        for hold in holds:
            await hold._release_quietly()
