"""Calls without a session: single calls, and streams of events that are opened again whenever they end.

All calls go to one coordinator, until that can't be reached or its connection breaks; then to the next address, in an order of the
client's own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from . import _fork
from ._clock import SECOND, now
from ._endpoints import Candidate, addresses
from ._failure import Failure, from_rpc
from ._route import Pauses
from ._transport import EOF, Settings, connect
from .errors import CallFailed, ConnectError, Forked, SessionClosed

log = logging.getLogger("leasehold_client")

CALL_TIMEOUT = 10 * SECOND
"""Time limit of one call, over all addresses, in nanoseconds."""
MOST_FAILED = 8
"""Most channels kept that could not connect."""

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Answer(Generic[M]):
    """Answer to a call."""

    reply: M
    sent_at: int
    # An earlier request may have been carried out.
    is_repeat: bool


class Calls:
    """Channels for calls, which connect when they are first used, and again when needed."""

    def __init__(self, settings: Settings) -> None:
        """Draws the order of coordinators, so that many clients spread over all, and those of one that goes away over all others."""
        self.settings = settings
        self._endpoints = random.sample(settings.endpoints, len(settings.endpoints))
        self._generation = _fork.generation()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        # Looked up when they are first used, and again after a round of failures.
        self._candidates: list[Candidate] = []
        self._untried = 0
        self._certificates = -1
        self._channels: dict[Candidate, grpc.aio.Channel] = {}
        self._former: list[grpc.aio.Channel] = []
        self._failed: deque[grpc.aio.Channel] = deque()
        self.feeds: weakref.WeakSet[Feed[Any]] = weakref.WeakSet()

    def check(self) -> None:
        """Fails once the client is closed, in another event loop than before, and in the child of a fork."""
        if self._generation != _fork.generation():
            raise Forked("the client was made before this process was forked")
        if self._is_closed:
            raise SessionClosed("")
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise RuntimeError("the client belongs to another event loop: connect once in each, or use leasehold_client.sync")

    async def known(self, limit: int) -> list[Candidate]:
        """Returns all addresses, the one in use first. Looks them up within the limit, unless they are known. Raises `ConnectError`."""
        if not self._candidates:
            found = await asyncio.gather(*(addresses(endpoint, limit) for endpoint in self._endpoints), return_exceptions=True)
            candidates: list[Candidate] = []
            for one in found:
                if isinstance(one, list):
                    candidates += random.sample(one, len(one))
                elif not isinstance(one, ConnectError):
                    raise one
            if not candidates:
                raise next(one for one in found if isinstance(one, ConnectError))
            self._candidates, self._untried = candidates, len(candidates)
        return list(self._candidates)

    def _channel(self, candidate: Candidate) -> grpc.aio.Channel:
        """Returns the channel to an address.

        Channels are made anew when the certificates have been replaced, since what is still open shows the former one. Streams on
        the former channels go on.
        """
        certificates, _ = self.settings.credentials.certificates()
        if certificates != self._certificates:
            self._former += self._channels.values()
            self._channels, self._certificates = {}, certificates
        if candidate not in self._channels:
            # A dead connection looks like a stream without events: it is probed.
            self._channels[candidate] = self.settings.channel(candidate.endpoint, candidate.target, probed=True)
        return self._channels[candidate]

    async def connected(self, candidate: Candidate, limit: int) -> grpc.aio.Channel:
        """Returns a channel that is connected. Raises `ConnectError`: then nothing was sent."""
        self.check()
        channel = self._channel(candidate)
        try:
            await connect(channel, candidate, limit)
        except ConnectError:
            # It would go on to fail for a while, although the coordinator is back. Other calls may be about to fail on it too.
            if self._channels.get(candidate) is channel:
                del self._channels[candidate]
                self._failed.append(channel)
                if len(self._failed) > MOST_FAILED:
                    await self._failed.popleft().close()
            raise
        return channel

    def move_on(self, candidate: Candidate, failure: Failure) -> None:
        """Sends later calls to the next address, because the connection to this one failed."""
        if self._candidates and self._candidates[0] == candidate:
            if len(self._candidates) > 1:
                log.debug("calls go to the next coordinator: %s", failure)
            self._candidates.append(self._candidates.pop(0))
            self._untried -= 1
            if self._untried == 0:
                self._candidates = []

    async def call(self, method: str, request: Message, answer: type[M], *, repeats: bool) -> M:
        """Makes a call, and returns the answer; see `ask`."""
        return (await self.ask(method, lambda: request, answer, repeats=repeats)).reply

    async def ask(self, method: str, make: Callable[[], Message], answer: type[M], *, repeats: bool, extra: int = 0) -> Answer[M]:
        """Makes a call, at the next address if the connection to one fails, until all were tried or its time is over.

        A call that must not be carried out twice is repeated only if it can't have been sent. `extra` is the time in nanoseconds that it
        may take besides, because it waits. Raises `CallFailed`.
        """
        self.check()
        until, is_repeat = now() + CALL_TIMEOUT + extra, False
        try:
            candidates = await self.known(self.settings.connect_timeout)
        except ConnectError as error:
            raise CallFailed(_unsent(error), error.endpoint) from None
        for left in range(len(candidates), 0, -1):
            candidate = candidates[-left]
            # Something is left for the others.
            limit = (until - now()) // left
            try:
                channel = await self.connected(candidate, min(limit, self.settings.connect_timeout))
                request = make()
                call: Any = channel.unary_unary(
                    method, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
                )
                metadata = grpc.aio.Metadata(*self.settings.metadata(self.settings.trace()))
                sent_at = now()
                limit = extra + (until - extra - sent_at) // left if repeats else until - sent_at
                reply: M = await call(request, timeout=max(0, limit) / SECOND, metadata=metadata)
                return Answer(reply, sent_at, is_repeat)
            except ConnectError as error:
                failure, is_unsent = _unsent(error), True
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
                is_unsent = failure.is_draining
                is_repeat |= not is_unsent
            except (asyncio.CancelledError, grpc.aio.UsageError):
                # The channel may have been closed.
                self.check()
                raise
            is_cut_off = failure.is_transport or failure.is_draining or (failure.code == "DEADLINE_EXCEEDED" and not failure.reason)
            if is_cut_off:
                self.move_on(candidate, failure)
            if not is_cut_off or left == 1 or now() >= until or not (repeats or is_unsent):
                raise CallFailed(failure, candidate.endpoint.url)
        raise AssertionError("a client has at least one endpoint")

    async def close(self) -> None:
        """Closes the channels."""
        self._is_closed = True
        if self._generation != _fork.generation():
            return
        for feed in list(self.feeds):
            feed.fail(SessionClosed(""))
        await asyncio.gather(*(channel.close() for channel in [*self._channels.values(), *self._former, *self._failed]))


def _unsent(error: ConnectError) -> Failure:
    """Returns the failure of a call for which there was no connection, in the words that name the endpoint and what to do."""
    code = error.failure.code if error.failure else "UNAVAILABLE"
    return Failure(code, message=str(error), is_transport=True)


_PERMANENT = frozenset(
    {
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "OUT_OF_RANGE",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "UNIMPLEMENTED",
    }
)


class Feed(Generic[M]):
    """Stream of messages that outlives its connections, and the coordinator that serves it.

    An internal task reads, so that a caller may give up a wait without ending the stream. It reads on only when the caller has
    taken the message before: what is not read waits at the coordinator.
    """

    def __init__(self, calls: Calls, method: str, request: Message, answer: type[M], broken: Callable[[], None]) -> None:
        """Makes a feed, which asks for nothing before it is read. `broken` is called when messages may be missed from now on."""
        self._calls, self._method, self._request, self._answer, self._broken = calls, method, request, answer, broken
        self._pauses = Pauses(calls.settings.backoff_min, calls.settings.backoff_max)
        self._queue: asyncio.Queue[M | Exception | None] = asyncio.Queue(1)
        self._task: asyncio.Task[None] | None = None
        self._call: Any = None
        self._is_over = False
        self.interruption: CallFailed | None = None

    async def next(self) -> M | None:
        """Returns the next message; none at the end. Raises `CallFailed` if a coordinator refused the stream for good."""
        self._calls.check()
        if self._is_over:
            return None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._calls.feeds.add(self)
        message = await self._queue.get()
        if message is None or isinstance(message, Exception):
            self._is_over = True
            # Others may wait too.
            self._queue.put_nowait(message)
            if message is not None:
                raise message
            return None
        return message

    async def close(self) -> None:
        """Ends the stream."""
        if self._task and not self._is_over:
            self._calls.check()
        self._end(None)
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)

    def fail(self, error: Exception) -> None:
        """Ends the stream with an error for whoever waits."""
        self._end(error)

    def _end(self, last: Exception | None) -> None:
        self._is_over = True
        if self._task:
            self._task.cancel()
        if not self._queue.full():
            # A reader that waits is told.
            self._queue.put_nowait(last)

    async def _run(self) -> None:
        try:
            await self._read()
        except Exception as error:
            await self._queue.put(error)

    async def _read(self) -> None:
        while True:
            was_told, candidate, url = False, None, ""
            settings = self._calls.settings
            try:
                candidate = (await self._calls.known(settings.connect_timeout))[0]
                url = candidate.endpoint.url
                channel = await self._calls.connected(candidate, settings.connect_timeout)
                stream = channel.unary_stream(
                    self._method,
                    request_serializer=type(self._request).SerializeToString,
                    response_deserializer=self._answer.FromString,
                )
                self._call = stream(self._request, metadata=grpc.aio.Metadata(*settings.metadata(settings.trace())))
                while (message := await self._call.read()) is not EOF:
                    if not was_told:
                        self._pauses.opened(now())
                    was_told, self.interruption = True, None
                    await self._queue.put(message)
                failure = Failure("UNAVAILABLE", message="the coordinator ended the stream", is_transport=True)
            except ConnectError as error:
                failure, url = _unsent(error), error.endpoint
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
            finally:
                if self._call is not None:
                    self._call.cancel()
            refused = CallFailed(failure, url)
            # A client that received messages was known, and may be again with a token that was replaced meanwhile.
            may_be_known = failure.code == "UNAUTHENTICATED" and was_told
            if failure.code in _PERMANENT and not may_be_known and not failure.is_transport:
                raise refused
            log.debug("the stream of events broke: %s", failure)
            self._broken()
            self.interruption = refused
            if candidate:
                self._calls.move_on(candidate, failure)
            await asyncio.sleep(self._pauses.pause_as_asked(now(), failure.retry_after) / SECOND)
