"""Elections: campaigns, terms, and observers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from . import _arguments as arguments
from ._blocks import Ends
from ._body import close_scope, take_body
from ._calls import Calls, Feed
from ._clock import SECOND, Seconds, now
from ._machine import AcquireSpec, HoldResult, LockSpec
from ._route import Pauses
from .actor import Actor
from .errors import AcquireError, AlreadyCandidate, Busy, LockLost, LostReason, TimedOut
from .hold import Hold
from .v1 import election_pb2
from .views import Leader, LeaderChange

if TYPE_CHECKING:
    from .client import Client

__all__ = ["Election", "Leadership", "Observer", "Term"]

log = logging.getLogger("leasehold_client")
T = TypeVar("T")
L = TypeVar("L", bound="Leadership")


class Leadership(Hold):
    """Leadership of an election, until it is resigned or lost. It is the hold of the lock of the election's name."""

    _resigned: Callable[[], None] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead now."""
        return self.is_held

    async def proclaim(self, value: bytes | str) -> None:
        """Changes the value that observers see. Raises `HoldError` if that was not confirmed."""
        await self.set_value(value)

    async def resign(self) -> bool:
        """Lets the next candidate lead. As `release`."""
        return await self.release()

    def _begin_release(self) -> asyncio.Future[HoldResult] | None:
        if self._resigned:
            self._resigned()
            self._resigned = None
        return super()._begin_release()


class Term(Leadership):
    """One term of those that `async for` over an election yields.

    As a context manager, it resigns when the body has ended. A loss cancels the body and ends the block without an error, so that the
    loop campaigns again. An error of the body's own goes on.
    """

    _was_lost: LockLost | None = None

    def _check_not_lost(self) -> None:
        # A body that begins too late is cancelled, and the loop goes on.
        if self.lost_reason is LostReason.RELEASED:
            super()._check_not_lost()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        """Ends the body, then resigns."""
        try:
            await close_scope(take_body(self._scopes), [self], error)
        except LockLost as lost:
            if not self._is_own(lost):
                raise
            log.info("campaigning again: %s", lost)
            self._was_lost = lost
            return True
        if isinstance(error, LockLost) and self._is_own(error):
            log.info("campaigning again: %s", error)
            self._was_lost = error
            return True
        return False

    def _is_own(self, lost: LockLost) -> bool:
        return (lost.name, lost.token) == (self.name, self.token)


class Election:
    """An election: one of several candidates leads, all can observe it, and the next one leads as soon as it ends.

    `async for term in election` yields a term whenever this process is elected, and campaigns again after each.
    """

    def __init__(self, client: Client, name: str, value: bytes | str, wait: Seconds | None, lock_delay: Seconds) -> None:
        """Makes an election, for which nothing is asked yet."""
        self._client = client
        self.name = arguments.name(name)
        """The election's name."""
        self._spec = AcquireSpec(
            (LockSpec(self.name),),
            wait=arguments.wait_nanos(wait),
            value=arguments.value_bytes(value),
            lock_delay=arguments.nanos(lock_delay, "lock_delay"),
        )

    def __repr__(self) -> str:
        """Shows the name."""
        return f"<{type(self).__name__} {self.name!r}>"

    async def campaign(self, value: bytes | str | None = None) -> Leadership:
        """Waits to be elected. A cancelled campaign is withdrawn; if it was elected meanwhile, it resigns.

        Raises `AlreadyCandidate` if this session campaigns already, or leads; otherwise as `LockRequest.acquire`.
        """
        return await self._campaign(Leadership, value)

    async def _campaign(self, kind: type[L], value: bytes | str | None) -> L:
        spec = replace(self._spec, actor=Actor().number)
        if value is not None:
            spec = replace(spec, value=arguments.value_bytes(value))
        session = await self._client._ready()
        candidacies = session._candidacies
        candidacy = candidacies.get(self.name)
        if candidacy is not None and not (candidacy and candidacy[0].lost_reason):
            raise AlreadyCandidate(self.name)
        mine: list[Hold] = []
        candidacies[self.name] = mine

        def over() -> None:
            # After a loss the session may have begun another one.
            if candidacies.get(self.name) is mine:
                del candidacies[self.name]

        try:
            granted = await session._grant(spec)
        except BaseException:
            over()
            raise
        leadership = kind(session, granted[0], spec.actor)
        leadership._resigned = over
        mine.append(leadership)
        return leadership

    def __aiter__(self) -> Terms:
        """Returns the terms for which this process is elected."""
        return Terms(self)

    async def run(self, work: Callable[[Term], Awaitable[T]]) -> T:
        """Runs the work while this process leads, until it is done, then resigns and returns its result.

        If the leadership is lost, the work is cancelled, and begins anew after the next election. Work that was not done under the
        leadership from beginning to end does not count. Raises what the work raises, or as `campaign`.
        """
        async for term in self:
            results: list[T] = []
            async with term:
                results.append(await work(term))
            if results and term._was_lost is None:
                return results[0]
        raise AssertionError("terms do not end")

    async def leader(self) -> Leader | None:
        """Returns the present leader; none while there is none. Raises `CallFailed`."""
        request = election_pb2.LeaderRequest(election=self.name)
        answer = await self._client._all_calls().call(
            "/leasehold.v1.ElectionService/Leader", request, election_pb2.LeaderResponse, repeats=True
        )
        return Leader._from(answer.leader) if answer.HasField("leader") else None

    def observe(self) -> Observer:
        """Returns an observer, which yields the present leader and then every change."""
        return Observer(self._client._all_calls(), self.name)


class Terms:
    """Terms for which this process is elected, without an end."""

    def __init__(self, election: Election) -> None:
        """Makes it without a term."""
        self._election = election
        settings = election._client._settings
        self._pauses = Pauses(settings.backoff_min, settings.backoff_max)
        self._term: Term | None = None

    def __aiter__(self) -> Terms:
        """Returns itself."""
        return self

    async def __anext__(self) -> Term:
        """Resigns the term before, and waits to be elected.

        A campaign is repeated after a failure that may pass, with growing pauses. Another leader is an answer, not a failure: if there
        is a `wait`, `TimedOut` is raised.
        """
        if self._term:
            await self._term._release_quietly()
            self._term = None
        is_first = True
        while True:
            try:
                self._term = await self._election._campaign(Term, None)
            except AcquireError as error:
                if isinstance(error, Busy | TimedOut) or not error.is_retryable:
                    raise
                level = logging.WARNING if is_first else logging.DEBUG
                log.log(level, "a campaign failed; repeating it until it succeeds: %s", error)
                is_first = False
                asked = error.failure.retry_after if error.failure else None
                await asyncio.sleep(self._pauses.pause_as_asked(now(), asked) / SECOND)
            else:
                self._pauses.opened(now())
                return self._term


class View:
    """State of an observer: its last change, and what the next one must say."""

    def __init__(self) -> None:
        """Makes it without a change."""
        self._is_first = True
        self._last: Leader | None = None
        self._newest = 0
        self._skipped = False

    def interrupted(self) -> None:
        """Notes that changes may be missed from now on."""
        # A change before the first is not missed.
        self._skipped = not self._is_first

    def told(self, told: election_pb2.ObserveResponse) -> LeaderChange | None:
        """Returns the change that a message makes, if it makes one."""
        self._skipped |= told.skipped
        leader = Leader._from(told.leader) if told.HasField("leader") else None
        token = leader.fencing_token if leader else 0
        # A coordinator that is behind the one before it: it will catch up.
        is_past = 0 < token < self._newest
        if is_past or (not self._is_first and _key(leader) == _key(self._last)):
            return None
        self._newest = max(self._newest, token)
        self._last, self._is_first = leader, False
        change = LeaderChange(leader, self._skipped)
        self._skipped = False
        return change


def _key(leader: Leader | None) -> tuple[int, bytes] | None:
    # A leader that was resumed has another session, perhaps at another coordinator, which is no change.
    return None if leader is None else (leader.fencing_token, leader.value)


class Observer(Ends):
    """Leaders of an election: first the present one, then every change, including to no leader.

    It never yields the same term with the same value twice in a row, and never a leader with a smaller token than an earlier one. If the
    connection breaks, it asks again for as long as it takes; the next change says that it may have skipped some. A wait for the next
    change may be cancelled without missing it. Raises `CallFailed` if a coordinator refuses it.
    """

    def __init__(self, calls: Calls, name: str) -> None:
        """Makes an observer, which asks for nothing before it is read."""
        self._view = View()
        method, request = "/leasehold.v1.ElectionService/Observe", election_pb2.ObserveRequest(election=name)
        self._feed = Feed(calls, method, request, election_pb2.ObserveResponse, self._view.interrupted)

    async def __anext__(self) -> LeaderChange:
        """Waits for the next change."""
        while (told := await self._feed.next()) is not None:
            change = self._view.told(told)
            if change:
                return change
        raise StopAsyncIteration

    @property
    def interruption(self) -> Exception | None:
        """Reason for which no change comes at present, while the observer tries to reach a coordinator."""
        return self._feed.interruption

    async def aclose(self) -> None:
        """Ends the observer."""
        await self._feed.close()
