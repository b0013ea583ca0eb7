"""Forms for threads of what is written for tasks, so that nothing of it is written twice."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from .._machine import SessionInfo

P = ParamSpec("P")
T = TypeVar("T")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Returns the method that calls this one of the inner form, and waits for it. It has its name and its documentation."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        done: T = self._run(method(self._inner, *args, **kwargs))
        return done

    functools.update_wrapper(call, method)
    return call


class Closes:
    """Something to be opened and closed as a block."""

    _inner: Any
    open: Any
    close: Any

    def __repr__(self) -> str:
        """Shows it as the inner form does."""
        return repr(self._inner)

    def __enter__(self) -> Self:
        """Opens it."""
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Closes it."""
        self.close()


class Connects(Closes):
    """What has a session."""

    @property
    def info(self) -> SessionInfo | None:
        """The description of the session; none while there is no connection."""
        info: SessionInfo | None = self._inner.info
        return info
