"""Parts of requests that are the same for tasks and threads."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from . import _arguments as arguments
from ._body import around
from ._clock import Seconds
from ._machine import AcquireSpec, LockSpec
from ._options import Asked
from .actor import Actor
from .views import LockMode, LockView

F = TypeVar("F", bound=Callable[..., Any])


class RequestView:
    """What was asked for."""

    _asked: Asked

    def _spec(self, timeout: Seconds | None = None, *, for_body: bool = False) -> AcquireSpec:
        """Returns the request with another wait, if there is to be one, and with the actor of the flow that is here."""
        spec = self._asked.spec
        if timeout is not None:
            spec = replace(spec, wait=arguments.wait_nanos(timeout, "timeout"))
        if spec.actor:
            return spec
        # Another flow may release what has no body.
        actor = Actor.current() if for_body or spec.reentrant or around() else Actor()
        return replace(spec, actor=actor.number)

    def _check_runs(self) -> None:
        """Fails if a block is to be skipped."""
        if self._asked.skips:
            what = "a block can't be skipped: decorate a function, or use run() or try_acquire()"
            raise TypeError(f'if_busy="skip": {what}')

    def __repr__(self) -> str:
        """Shows the names."""
        return f"<{type(self).__name__} {self._asked.spec.label!r}>"


def decorated(work: F, call: Callable[..., Any], *, of_tasks: bool) -> F:
    """Returns a function that calls another under a lock. Fails if it could not wait for its end."""
    if not callable(work):
        raise TypeError(f"expected a function, got {type(work).__name__}")
    if inspect.isgeneratorfunction(work) or inspect.isasyncgenfunction(work):
        raise TypeError(f"{work.__qualname__}: a generator would run after the lock was released: use a block within it")
    if inspect.iscoroutinefunction(work) is not of_tasks:
        what = "leasehold_client.sync for functions" if of_tasks else "the client of asyncio for coroutine functions"
        raise TypeError(f"{getattr(work, '__qualname__', work)}: use {what}")
    guarded: Any = functools.wraps(work)(call)
    return cast(F, guarded)


def is_busy(lock: LockSpec, view: LockView) -> bool:
    """Returns whether an acquire of this lock would have to wait now."""
    if lock.mode is LockMode.SHARED:
        return view.waiter_count > 0 or (view.holder_count > 0 and view.mode is not LockMode.SHARED)
    if lock.mode is LockMode.SEMAPHORE and view.mode is LockMode.SEMAPHORE:
        needed = lock.at_least or lock.permits or 1
        return view.waiter_count > 0 or view.permits_taken + needed > (view.limit or arguments.MOST_PERMITS)
    return view.holder_count > 0 or view.waiter_count > 0
