"""Connection of a session: dialled, with the stream on it and the requests to send.

Only the connection's own task reads the stream, because a cancelled read cancels the call; only its writer writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from . import _fork
from ._clock import SECOND
from ._endpoints import Candidate
from ._failure import Failure, from_rpc
from ._transport import EOF, Settings, connect
from .errors import ConnectError
from .v1 import session_pb2

if TYPE_CHECKING:
    from ._session_loop import SessionLoop

SESSION = "/leasehold.v1.LockService/Session"
CONGESTED = 1024
"""Number of messages that gRPC has not taken yet from which the session takes no more acquires from callers."""


class Connection:
    """One connection to a coordinator, or an attempt to make one."""

    def __init__(self, settings: Settings, session: SessionLoop, candidate: Candidate) -> None:
        """Makes a connection that is not dialled yet."""
        self.candidate = candidate
        # The machine's number of the stream on it, once the machine knows of it.
        self.number: int | None = None
        # Before the files are read: what changes in between is noticed.
        self.credentials = settings.credentials.version()
        self._settings, self._session = settings, session
        self._generation = _fork.generation()
        self._channel = settings.channel(candidate.endpoint, candidate.target)
        self._call: Any = None
        self._queue: deque[bytes] = deque()
        self._heartbeat: bytes | None = None
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_cut = False
        self.room = asyncio.Event()
        self.room.set()
        self.has_ended = asyncio.Event()

    @property
    def endpoint(self) -> str:
        """The URL that it leads to, for messages."""
        return self.candidate.endpoint.url

    def dial(self, limit: int) -> None:
        """Begins to connect, within so many nanoseconds."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(limit)))

    async def _run(self, limit: int) -> None:
        try:
            try:
                await connect(self._channel, self.candidate, limit)
            except ConnectError as error:
                self._session.failed(self, error)
                return
            self._session.connected(self)
        except BaseException as error:
            self._abort(error)
            raise

    def start(self, limit: int | None) -> None:
        """Asks for the stream, which has to begin within the limit if there is one."""
        session: Any = self._channel.stream_stream(
            SESSION,
            response_deserializer=session_pb2.SessionResponse.FromString,
        )
        self._call = session(metadata=grpc.aio.Metadata(*self._settings.metadata()))
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._read(limit)), loop.create_task(self._write())]

    async def _read(self, limit: int | None) -> None:
        try:
            try:
                if limit is not None and not await self._begins(limit):
                    failure = Failure("DEADLINE_EXCEEDED", message="the stream did not begin in time")
                    self._session.ended(self, failure)
                    return
                while (message := await self._call.read()) is not EOF:
                    # What could not be decoded is none; C core has logged it.
                    if message is not None:
                        self._session.message(self, message)
                self._finished(None)
            except grpc.aio.AioRpcError as error:
                self._finished(from_rpc(error))
        except BaseException as error:
            self._abort(error)
            raise

    async def _begins(self, limit: int) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._call.initial_metadata(), limit / SECOND)
            if not self._call.done():
                self._session.started(self)
            return True
        return False

    def _finished(self, failure: Failure | None) -> None:
        self.has_ended.set()
        self._session.ended(self, failure)

    def _abort(self, error: BaseException) -> None:
        self.has_ended.set()
        if not self._is_cut:
            self._session.aborted(self, error)

    def push(self, request: session_pb2.SessionRequest) -> None:
        """Queues a request. Heartbeats overtake the others. Fails if the request can't be encoded."""
        encoded = request.SerializeToString()
        if request.HasField("heartbeat"):
            # One that could not be sent is worth nothing beside a newer one.
            self._heartbeat = encoded
        else:
            self._queue.append(encoded)
            if len(self._queue) >= CONGESTED:
                self.room.clear()
        self._wake.set()

    async def _write(self) -> None:
        # A failure means that the stream is gone, which the reader says.
        with contextlib.suppress(grpc.aio.AioRpcError, grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError):
            await self._call.wait_for_connection()
            while self._generation == _fork.generation():
                if self._heartbeat is not None:
                    request, self._heartbeat = self._heartbeat, None
                elif self._queue:
                    request = self._queue.popleft()
                    if not self.room.is_set() and len(self._queue) < CONGESTED // 2:
                        self.room.set()
                else:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                await self._send(request)
        self.room.set()

    async def _send(self, request: bytes) -> None:
        # If the stream has ended, `write` makes up a status, which hides the peer's for good: that would take an expired identity or
        # a drain for a broken connection. What is below it only fails.
        inner = getattr(self._call, "_cython_call", None)
        if inner is None:
            await self._call.write(request)
        else:
            await inner.send_serialized_message(request)

    async def leave(self, limit: int) -> None:
        """Sends the queued requests, waits for the end of the stream for so many nanoseconds, and cuts it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.has_ended.wait(), limit / SECOND)
        await self.cut()

    async def cut(self) -> None:
        """Ends the stream and the connection. In a fork, that is the parent's to do."""
        if self._generation != _fork.generation():
            return
        self.release_tasks()
        if self._call is not None:
            self._call.cancel()
        await self._channel.close()
        current = asyncio.current_task()
        others = [task for task in self._tasks if task is not current]
        await asyncio.gather(*others, return_exceptions=True)

    def release_tasks(self) -> None:
        """Cancels the connection's tasks."""
        self._is_cut = True
        self.has_ended.set()
        self.room.set()
        try:
            current = asyncio.current_task()
        except RuntimeError:
            current = None
        for task in self._tasks:
            if task is not current:
                task.cancel()

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel, which the child of a fork must keep from being closed."""
        return self._channel
