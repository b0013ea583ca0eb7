"""Calls without a session: single calls, and streams of events that are opened again whenever they end.

All calls go to one coordinator, until that can't be reached or its connection breaks; then to the next.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from . import _fork
from ._clock import SECOND, now
from ._failure import Failure, from_rpc
from ._route import Pauses
from ._transport import EOF, Settings
from .errors import CallFailed, Forked

log = logging.getLogger("leasehold")

CALL_TIMEOUT = 10
"""Time limit of one call in seconds."""

M = TypeVar("M", bound=Message)


class Calls:
    """Channels for calls, which connect when they are first used, and again when needed."""

    def __init__(self, settings: Settings) -> None:
        """Begins at a random coordinator, so that many clients spread over all."""
        self.settings = settings
        self._generation = _fork.generation()
        self._moved = random.randrange(len(settings.endpoints))
        self._certificates = -1
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._former: list[grpc.aio.Channel] = []

    @property
    def moved(self) -> int:
        """Number of times that the calls have moved on."""
        return self._moved

    def url(self, moved: int) -> str:
        """Returns the endpoint that is in use after so many moves."""
        return self.settings.endpoints[moved % len(self.settings.endpoints)].url

    def channel(self, moved: int) -> grpc.aio.Channel:
        """Returns the channel to the coordinator in use.

        Channels are made anew when the certificates have been replaced, since what is still open shows the former one. Streams on
        the former channels go on.
        """
        if self._generation != _fork.generation():
            raise Forked("the client was made before this process was forked")
        certificates, _ = self.settings.credentials.certificates()
        if certificates != self._certificates:
            self._former += self._channels.values()
            self._channels, self._certificates = {}, certificates
        index = moved % len(self.settings.endpoints)
        if index not in self._channels:
            # A dead connection looks like a stream without events: it is probed.
            self._channels[index] = self.settings.channel(self.settings.endpoints[index], probed=True)
        return self._channels[index]

    def move_on(self, moved: int, failure: Failure) -> None:
        """Sends later calls to the next coordinator, because the connection of one failed that began after so many moves."""
        if self._moved == moved:
            self._moved += 1
            if len(self.settings.endpoints) > 1:
                log.debug("calls go to the next coordinator: %s", failure)

    async def call(self, method: str, request: Message, answer: type[M], *, repeats: bool) -> M:
        """Makes a call, at the next coordinator if the connection to one fails.

        A call that must not be carried out twice is repeated only if it can't have been sent. Raises `CallFailed`.
        """
        for left in reversed(range(len(self.settings.endpoints))):
            moved = self._moved
            call = self.channel(moved).unary_unary(
                method, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
            )
            metadata = grpc.aio.Metadata(*self.settings.metadata(self.settings.trace()))
            try:
                return await call(request, timeout=CALL_TIMEOUT, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
            if failure.is_transport or failure.is_draining:
                self.move_on(moved, failure)
                is_unsent = failure.is_draining or failure.message.startswith("failed to connect")
                if left and (repeats or is_unsent):
                    continue
            raise CallFailed(failure, self.url(moved))
        raise AssertionError("a client has at least one endpoint")

    async def close(self) -> None:
        """Closes the channels."""
        if self._generation == _fork.generation():
            await asyncio.gather(*(channel.close() for channel in [*self._channels.values(), *self._former]))


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
        self._queue: asyncio.Queue[M | CallFailed | None] = asyncio.Queue(1)
        self._task: asyncio.Task[None] | None = None
        self._call: Any = None
        self._is_over = False
        self.interruption: CallFailed | None = None

    async def next(self) -> M | None:
        """Returns the next message; none at the end. Raises `CallFailed` if a coordinator refused the stream for good."""
        if self._is_over:
            return None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        message = await self._queue.get()
        if message is None or isinstance(message, CallFailed):
            self._is_over = True
            if message is not None:
                raise message
            return None
        return message

    async def close(self) -> None:
        """Ends the stream."""
        self._is_over = True
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if not self._queue.full():
            # A reader that waits is told.
            self._queue.put_nowait(None)

    async def _run(self) -> None:
        while True:
            moved, was_told = self._calls.moved, False
            try:
                channel = self._calls.channel(moved)
                stream = channel.unary_stream(
                    self._method,
                    request_serializer=type(self._request).SerializeToString,
                    response_deserializer=self._answer.FromString,
                )
                settings = self._calls.settings
                self._call = stream(self._request, metadata=grpc.aio.Metadata(*settings.metadata(settings.trace())))
                while (message := await self._call.read()) is not EOF:
                    if not was_told:
                        self._pauses.opened(now())
                    was_told, self.interruption = True, None
                    await self._queue.put(message)
                failure = Failure("UNAVAILABLE", message="the coordinator ended the stream", is_transport=True)
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
            finally:
                if self._call is not None:
                    self._call.cancel()
            refused = CallFailed(failure, self._calls.url(moved))
            # A client that received messages was known, and may be again with a token that was replaced meanwhile.
            may_be_known = failure.code == "UNAUTHENTICATED" and was_told
            if failure.code in _PERMANENT and not may_be_known:
                await self._queue.put(refused)
                return
            log.debug("the stream of events broke: %s", failure)
            self._broken()
            self.interruption = refused
            self._calls.move_on(moved, failure)
            await asyncio.sleep(self._pauses.pause_as_asked(now(), failure.retry_after) / SECOND)
