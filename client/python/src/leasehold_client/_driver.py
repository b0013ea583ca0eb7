"""Driver of a session: the requests of its users, and what becomes of it in a fork."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any

from . import _fork
from ._clock import now
from ._machine import AcquireSpec, Change, Granted, HoldResult
from ._machine.output import UNCONFIRMED
from ._session_loop import SessionLoop
from ._transport import Settings
from .errors import AcquireError, LostReason, SessionClosed
from .v1 import session_pb2

log = logging.getLogger("leasehold_client")

_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


def _after_fork() -> None:
    connections = [connection for driver in list(_drivers) for connection in driver.connections()]
    # gRPC must not close them there, nor what it would say at that reach the coordinator, not even as the child exits: they are kept
    # for good, and lead nowhere. So the parent's death also ends them, although the child lives.
    for connection in connections:
        for kept in (connection, connection.channel):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    _fork.cut_sockets({connection.candidate.address for connection in connections})


_fork.in_child(_after_fork)


class Driver(SessionLoop):
    """A session, for those who hold locks through it. It lives in one event loop."""

    def __init__(self, settings: Settings, open: session_pb2.SessionOpen) -> None:
        """Makes a session without a connection. `start` begins to connect."""
        super().__init__(settings, open)
        # What callers wait for. None of them may wait longer than the session lives.
        self._asked: dict[asyncio.Future[Any], Callable[[], None]] = {}
        _drivers.add(self)

    @property
    def is_here(self) -> bool:
        """Whether the event loop that runs here is the session's."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def check_loop(self) -> None:
        """Fails outside of the session's event loop."""
        if not self.is_here:
            raise RuntimeError("the client belongs to another event loop: connect once in each, or use leasehold_client.sync")

    async def start(self) -> None:
        """Opens the session at the first coordinator that serves it. Fails if none does in one round."""
        self.check_fork()
        self.check_loop()
        if self._machine.ending:
            raise SessionClosed("")
        self._settle()
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self._machine.close(now())
            self._settle()
            raise

    async def acquire(self, spec: AcquireSpec) -> list[Granted]:
        """Acquires locks. If the caller is cancelled, whatever was granted is given back."""
        self.check_fork()
        self.check_loop()
        while self._current and not self._current.room.is_set():
            await self._current.room.wait()
        if self.has_ended:
            raise SessionClosed(spec.label)
        answer: asyncio.Future[list[Granted]] = self._loop.create_future()
        self._await(answer, lambda: answer.set_exception(SessionClosed(spec.label)))
        self._last_acquire += 1
        number = self._last_acquire

        def reply(result: list[Granted] | AcquireError) -> None:
            if answer.done():
                # The caller was cancelled, and has yet to say so.
                self._give_back(result if isinstance(result, list) else [])
            elif isinstance(result, list):
                answer.set_result(result)
            else:
                answer.set_exception(result)

        self._machine.acquire(now(), number, spec, reply)
        self._settle()
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._give_back(answer.result())
            self._machine.cancel(now(), number)
            self._settle()
            raise

    def _give_back(self, granted: list[Granted]) -> None:
        for one in granted:
            one.lease.end(now(), LostReason.RELEASED)
            self._machine.release(now(), one.key)

    def release(self, key: int, trace: str, *, waits: bool) -> asyncio.Future[HoldResult] | None:
        """Releases a hold that has ended here already. Returns the outcome, if the caller waits for it."""
        answer = self._hold_answer() if waits else None
        if self.has_ended:
            if answer:
                answer.set_result(UNCONFIRMED)
            return answer
        reply = None if answer is None else functools.partial(_resolve, answer)
        self._machine.release(now(), key, trace, reply)
        self._settle()
        return answer

    async def change(self, key: int, change: Change, trace: str) -> HoldResult:
        """Changes a hold, and returns the outcome."""
        self.check_fork()
        self.check_loop()
        if self.has_ended:
            return UNCONFIRMED
        answer = self._hold_answer()
        self._machine.change(now(), key, change, trace, functools.partial(_resolve, answer))
        self._settle()
        return await answer

    def _await(self, answer: asyncio.Future[Any], over: Callable[[], None]) -> None:
        """Notes that a caller waits, and how it is told if the session ends without an answer."""
        self._asked[answer] = over
        answer.add_done_callback(lambda done: self._asked.pop(done, None))

    def _hold_answer(self) -> asyncio.Future[HoldResult]:
        answer: asyncio.Future[HoldResult] = self._loop.create_future()
        self._await(answer, functools.partial(_resolve, answer, UNCONFIRMED))
        return answer

    def _end(self) -> None:
        super()._end()
        for answer, over in list(self._asked.items()):
            if not answer.done():
                over()

    def may_close(self) -> bool:
        """Returns whether there is something to end here. Fails in another event loop."""
        if self._generation != _fork.generation() or (self.has_ended and not self.is_here):
            return False
        self.check_loop()
        return True

    def refuse_acquires(self) -> None:
        """Fails all acquires, from now on too."""
        if not self.has_ended:
            self._machine.refuse_acquires(now())
            self._settle()

    async def close(self) -> None:
        """Ends the session: its holds are lost first, then the coordinator releases everything."""
        if not self.has_ended:
            self._machine.close(now())
            self._settle()
        await asyncio.shield(self._ended)
        await asyncio.gather(*self._seen_off, *self._background, return_exceptions=True)


def _resolve(answer: asyncio.Future[HoldResult], result: HoldResult) -> None:
    if not answer.done():
        answer.set_result(result)
