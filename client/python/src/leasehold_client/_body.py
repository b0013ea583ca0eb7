"""Bodies: what runs while locks are held. A loss or the end of the client tells them to stop, and whoever leaves them releases the locks.

A body also tells the flow that it is in: what a task or a thread asks for within a body is asked for by the body's actor, so that a
coordinator knows when a flow asks for what it holds itself.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ._clock import SECOND
from ._fork import generation
from .errors import LockLost, SessionClosed

if TYPE_CHECKING:
    from ._view import HoldView
    from .hold import Hold

T = TypeVar("T")
Owner = asyncio.Task[Any] | threading.Thread | None

# Weak, since a block that is forgotten is to be left.
_entered: ContextVar[tuple[weakref.ref[Body], ...]] = ContextVar("leasehold_client_bodies", default=())


def here() -> asyncio.Task[Any] | threading.Thread:
    """Returns the running task, or the thread outside of tasks."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task or threading.current_thread()


def is_over(owner: Owner) -> bool:
    """Returns whether a task or a thread has ended."""
    return owner.done() if isinstance(owner, asyncio.Task) else owner is None or not owner.is_alive()


def around() -> list[Body]:
    """Returns the bodies in which this is called, from the outermost on. A task that one of them began is a flow of its own."""
    bodies, mine = (one() for one in _entered.get()), here()
    return [body for body in bodies if body and not body.has_ended and body.owner is mine]


class Bodies:
    """The bodies of a session that run now. Any thread may begin and end one.

    No lock of a thread is taken for that: a handler of a signal, or a fork, may be in the middle of it.
    """

    def __init__(self) -> None:
        """Makes it without a body."""
        self._generation = generation()
        self._running: dict[int, weakref.ref[Body]] = {}
        self._left_out: list[Owner] = []
        self._changed: Callable[[], object] = lambda: None
        self.is_closing = False

    def begin(self, body: Body) -> None:
        """Adds a body. Raises `SessionClosed` if bodies are told to stop already."""
        key = id(body)

        def forget(_: object) -> None:
            self._running.pop(key, None)
            self._changed()

        self._running[key] = weakref.ref(body, forget)
        if self.is_closing:
            self.end(body)
            raise SessionClosed.stopping(body.names)

    def end(self, body: Body) -> None:
        """Removes a body."""
        self._running.pop(id(body), None)
        self._changed()

    def _left(self) -> list[Body]:
        bodies = [body for one in list(self._running.values()) if (body := one())]
        return [body for body in bodies if body.owner not in self._left_out and not is_over(body.owner)]

    def leave_out(self, owner: Owner) -> None:
        """Does not wait for bodies of this task or thread, which waits for their end itself."""
        self._left_out.append(owner)
        self._changed()

    async def stop(self, limit: int) -> str:
        """Tells all bodies to stop, and waits for so many nanoseconds. Returns the names of the locks of those that run on."""
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def tell() -> None:
            if self._generation == generation() and not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        self._changed = tell
        self.is_closing = True
        for body in self._left():
            body.stop()
        try:
            async with asyncio.timeout(limit / SECOND):
                while self._left():
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            pass
        return ", ".join(body.names for body in self._left())


class Body:
    """Body of the running task or thread."""

    def __init__(self, bodies: Bodies, holds: Sequence[HoldView]) -> None:
        """Begins it. Raises `SessionClosed` if the session is being closed."""
        self._bodies, self._holds = bodies, holds
        self.owner = here()
        self.names = ", ".join(repr(hold.name) for hold in holds)
        self.actor = holds[0]._actor
        self.has_ended = False
        bodies.begin(self)
        _entered.set((*(one for one in _entered.get() if (body := one()) and not body.has_ended), weakref.ref(self)))

    def stop(self) -> None:
        """Tells it to stop, because the client is being closed."""
        for hold in self._holds:
            hold._stop()

    def end(self) -> None:
        """Ends it."""
        self.has_ended = True
        self._bodies.end(self)
        _entered.set(tuple(one for one in _entered.get() if (body := one()) and not body.has_ended))

    def lost(self) -> LockLost | None:
        """Returns the first of the losses, if there is one."""
        return next((lost for hold in self._holds if (lost := hold.loss)), None)


def add_context(error: BaseException, lost: LockLost) -> None:
    """Shows a loss beside the body's own error, which goes on as it is."""
    seen = error
    while seen.__context__ is not None and seen.__context__ is not lost:
        seen = seen.__context__
    if seen is not lost:
        seen.__context__ = lost
    error.add_note(str(lost))


def finish(lost: LockLost | None, error: BaseException | None) -> None:
    """Raises a loss, unless the body failed with an error of its own, which shows it."""
    if lost and error is None:
        raise lost
    if lost and error and not (isinstance(error, LockLost) and error.name == lost.name):
        add_context(error, lost)


class Scope(Body):
    """Body of a task. A loss cancels it, as `asyncio.timeout` does."""

    def __init__(self, bodies: Bodies, holds: Sequence[Hold]) -> None:
        """Makes the scope of the running task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lock's body must run in a task")
        super().__init__(bodies, holds)
        self._waits = holds
        self.task = task
        self._cancelling = task.cancelling()
        self._is_open = True
        self._is_cancelled = False
        for hold in holds:
            hold._when_lost(self._cancel)

    def stop(self) -> None:
        """Tells it to stop, because the client is being closed."""
        super().stop()
        self._cancel()

    def _cancel(self) -> None:
        if self._is_open and not self._is_cancelled:
            self._is_cancelled = True
            self.task.cancel()

    async def close(self, error: BaseException | None) -> None:
        """Ends the scope, after the body has ended with this error or with none.

        Raises `LockLost` if a lock was lost before the body ended, and `SessionClosed` if the body stopped because the client is being
        closed, unless the body failed with an error of its own.
        """
        came_here: asyncio.CancelledError | None = None
        if error is None:
            try:
                for hold in self._waits:
                    # Not made under the lock from beginning to end, if it turns out to be lost.
                    await hold._leaves_suspension()
            except asyncio.CancelledError as cancelled:
                error = came_here = cancelled
        lost = self.lost()
        self._is_open = False
        # Another task than the body's was not cancelled.
        if self.task is here() and self._is_cancelled and self.task.uncancel() <= self._cancelling:
            if isinstance(error, asyncio.CancelledError):
                if lost or self._holds[0]._is_stopped:
                    raise lost or SessionClosed.stopping(self.names) from error
            else:
                await self._take_cancellation()
        finish(lost, error)
        if came_here:
            raise came_here

    async def _take_cancellation(self) -> None:
        """Takes the cancellation of the scope if it has not reached the body, so that it does not reach what follows."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self.task.cancelling() > self._cancelling:
                raise


def take(bodies: list[T], owner: Callable[[T], Owner]) -> T | None:
    """Removes the last body that was entered by the one who leaves now.

    A fixture, a generator or an exit stack may be left by another task or thread than the one that entered it: then it is the last one
    of somebody who has ended, or the last of all.
    """
    mine = (threading.current_thread(), here())

    def rank(index: int) -> tuple[int, int]:
        entered_by = owner(bodies[index])
        return (2 if entered_by in mine else int(is_over(entered_by))), index

    return bodies.pop(max(range(len(bodies)), key=rank)) if bodies else None


B = TypeVar("B", bound=Body)


def take_body(bodies: list[B]) -> B | None:
    """Removes the body that ends now."""
    return take(bodies, lambda body: body.owner)


async def close_scope(scope: Scope | None, holds: Sequence[Hold], error: BaseException | None) -> None:
    """Ends a scope, then releases its holds, whatever happened. A cancellation does not keep any of them."""
    try:
        if scope:
            await scope.close(error)
    finally:
        # All are told before anything is awaited.
        for hold in holds:
            hold._begin_release()
        if scope:
            scope.end()
        for hold in holds:
            await hold._release_quietly()
