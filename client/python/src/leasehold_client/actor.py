"""Actors: the sequential flows of a client, the unit of reentrancy and of deadlock detection."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from typing import Any

from ._body import around, here

__all__ = ["Actor"]

_numbers = itertools.count(1)
_of_flows: weakref.WeakKeyDictionary[asyncio.Task[Any] | threading.Thread, Actor] = weakref.WeakKeyDictionary()


class Actor:
    """A sequential flow for which locks are requested. Never share one between flows that run side by side.

    Without one, a request within a body (a block, a decorated function, `run`) is of the body's flow: the task or the thread that runs
    the body. So a coordinator refuses at once what the flow would wait for itself to release, as `SelfDeadlock`, and ends waits of flows
    for one another as `Deadlock`. A task or a thread that is begun within a body is a flow of its own, which waits for the body's end: the
    body must not wait for it then.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        """Makes an actor that no other flow of this process has."""
        self.number: int = next(_numbers)

    def __repr__(self) -> str:
        """Shows the number."""
        return f"Actor({self.number})"

    @staticmethod
    def current() -> Actor:
        """Returns the actor of the running task, or of the thread outside of tasks: that of the body that it is in, or else its own."""
        bodies = around()
        if bodies:
            actor = object.__new__(Actor)
            actor.number = bodies[-1].actor
            return actor
        return _of_flows.setdefault(here(), Actor())
