"""Actors: the sequential flows of a client, the unit of reentrancy and of deadlock detection."""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from typing import Any

__all__ = ["Actor"]

_numbers = itertools.count(1)
_of_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], Actor] = weakref.WeakKeyDictionary()
_of_threads = threading.local()


class Actor:
    """A sequential flow for which locks are requested. Never share one between flows that run side by side."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        """Makes an actor that no other flow of this process has."""
        self.number: int = next(_numbers)

    def __repr__(self) -> str:
        """Shows the number."""
        return f"Actor({self.number})"

    @staticmethod
    def current() -> Actor:
        """Returns the actor of the running task, or of the thread outside of tasks: the same one at every call."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            return _of_tasks.setdefault(task, Actor())
        actor: Actor | None = getattr(_of_threads, "actor", None)
        if actor is None:
            actor = _of_threads.actor = Actor()
        return actor
