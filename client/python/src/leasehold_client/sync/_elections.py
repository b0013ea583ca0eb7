"""Elections: campaigns, terms, and observers, for threads."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .. import election
from ..errors import CallFailed, LockLost, LostReason, SessionClosed
from ..views import LeaderChange
from ._blocking import Closes, blocking
from ._holds import Hold, OnLost

if TYPE_CHECKING:
    from ._client import Client

log = logging.getLogger("leasehold_client")

T = TypeVar("T")


class Leadership(Hold):
    """Leadership of an election, until it is resigned or lost."""

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead now."""
        return self.is_held

    proclaim = blocking(election.Leadership.proclaim)

    def resign(self) -> bool:
        """Lets the next candidate lead. As `release`."""
        return self.release()


class Term(Leadership):
    """One term of those that a loop over an election yields. A loss ends its block without an error: the loop campaigns again.

    The block must look itself: `check()` raises `LockLost`, which the end of the block takes. An error of its own goes on.
    """

    _was_lost: LockLost | None = None

    def _check_not_lost(self) -> None:
        # The body looks, and the loop goes on.
        if self.lost_reason is LostReason.RELEASED:
            super()._check_not_lost()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        """Ends the body, then resigns."""
        try:
            super().__exit__(kind, error, traceback)
        except LockLost as lost:
            if (lost.name, lost.token) != (self.name, self.token):
                raise
            self._was_lost = lost
        if isinstance(error, LockLost) and (error.name, error.token) == (self.name, self.token):
            self._was_lost = error
        if self._was_lost:
            log.info("campaigning again: %s", self._was_lost)
        return self._was_lost is not None and (error is None or error is self._was_lost)


class Election:
    """An election. `for term in election` yields a term whenever this process is elected, and campaigns again after each."""

    def __init__(self, client: Client, inner: election.Election, on_lost: OnLost | None) -> None:
        """Makes it of the form for tasks."""
        self._client, self._inner, self._on_lost = client, inner, on_lost
        self._run, self.name = client._run, inner.name

    def __repr__(self) -> str:
        """Shows the name."""
        return repr(self._inner)

    def campaign(self, value: bytes | str | None = None) -> Leadership:
        """Waits to be elected. Raises `AlreadyCandidate` if this session campaigns already, or leads."""
        return Leadership(self._client._ready(), self._run(self._inner.campaign(value)), self._on_lost)

    def __iter__(self) -> Iterator[Term]:
        """Yields the terms for which this process is elected, without an end."""
        terms = self._inner.__aiter__()
        while True:
            yield Term(self._client._ready(), self._run(terms.__anext__()), self._on_lost)

    def run(self, work: Callable[[Term], T]) -> T:
        """Runs the work while this process leads, until it is done, then resigns and returns its result.

        The work must call `check()`. If the leadership was lost before it ended, it begins anew after the next election.
        """
        for term in self:
            results: list[T] = []
            with term:
                results.append(work(term))
            if results and term._was_lost is None:
                return results[0]
        raise AssertionError("terms do not end")

    leader = blocking(election.Election.leader)

    def observe(self) -> Observer:
        """Returns an observer, which yields the present leader and then every change."""
        return Observer(self._run, self._inner.observe())


class Feed(Closes, Generic[T]):
    """Iterator over an asynchronous one, to be closed."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], inner: Any) -> None:
        """Makes it of what runs its waits."""
        self._run, self._inner = run, inner

    def __iter__(self) -> Iterator[T]:
        """Returns itself."""
        return self

    def __next__(self) -> T:
        """Waits for the next change. Raises `CallFailed` if a coordinator refuses it."""
        change: list[T] = self._run(_next(self._inner))
        if not change:
            raise StopIteration
        return change[0]

    def close(self) -> None:
        """Ends it, and a wait of another thread."""
        with contextlib.suppress(SessionClosed):
            self._run(self._inner.aclose())

    def open(self) -> None:
        """Does nothing: it asks when it is first read."""


class Observer(Feed[LeaderChange]):
    """Leaders of an election: first the present one, then every change, including to no leader."""

    @property
    def interruption(self) -> CallFailed | None:
        """Reason for which no change comes at present, while the observer tries to reach a coordinator."""
        failed: CallFailed | None = self._inner.interruption
        return failed


async def _next(items: AsyncIterator[T]) -> list[T]:
    async for item in items:
        return [item]
    return []
