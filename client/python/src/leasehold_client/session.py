"""Sessions, through which a client holds locks for as long as their streams live."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from . import _arguments as arguments
from ._blocks import Opens
from ._body import Bodies, Owner, here
from ._client_name import client_name
from ._clock import SECOND, Seconds, now, wire
from ._driver import Driver
from ._machine import AcquireSpec, Granted, SessionInfo
from ._transport import Settings
from .hold import Hold
from .v1 import session_pb2

__all__ = ["Session", "SessionInfo"]

log = logging.getLogger("leasehold_client")


@dataclass(frozen=True)
class SessionOptions:
    """What a session is opened with."""

    client_name: str | None = None
    # Times are nanoseconds.
    ttl: int | None = None
    disconnect_grace: int = 0
    close_timeout: int = 10 * SECOND
    metadata: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> session_pb2.SessionOpen:
        """Returns the message that opens the session."""
        # Not before it is opened: the process may have been forked since the client was made.
        name = client_name() if self.client_name is None else self.client_name
        open = session_pb2.SessionOpen(client_name=name, metadata=dict(self.metadata))
        open.disconnect_grace.CopyFrom(wire(self.disconnect_grace))
        if self.ttl is not None:
            open.ttl.CopyFrom(wire(self.ttl))
        return open


class Session(Opens):
    """A session. It reconnects by itself, and moves to another coordinator with all that it holds and waits for.

    When its coordinator drains or falls silent, it moves and its locks stay held. When its stream breaks, every lock of it is lost at
    once, or suspended if it has a `disconnect_grace`; acquires that were waiting go on waiting. Locks are never re-taken by themselves.
    """

    def __init__(self, settings: Settings, options: SessionOptions) -> None:
        """Makes a session that is not open; `open` opens it."""
        self._driver = Driver(settings, options.open())
        self._bodies, self._close_timeout = Bodies(), options.close_timeout
        self._closing: asyncio.Task[None] | None = None
        # The leadership of each candidacy, once it is elected.
        self._candidacies: dict[str, list[Hold]] = {}

    async def open(self) -> None:
        """Opens the session. Raises `ConnectError` if no coordinator can be reached or serves it."""
        await self._driver.start()

    @property
    def info(self) -> SessionInfo | None:
        """The description of the session; none while there is no connection."""
        return self._driver.info

    @property
    def drains_in(self) -> float | None:
        """Seconds until the coordinator goes away, once it has said that it will. The session moves by itself."""
        until = self._driver.draining_at
        return None if until is None else max(0, until - now()) / SECOND

    async def draining(self) -> float:
        """Waits until the coordinator is about to go away, and returns the seconds left; 0 if the session has ended."""
        while not self._driver.has_ended:
            await self._driver.draining.wait()
            left = self.drains_in
            if left is not None:
                return left
        return 0.0

    async def _grant(self, spec: AcquireSpec) -> list[Granted]:
        self._driver.check_fork()
        # Here, where the caller's context is the current one.
        return await self._driver.acquire(replace(spec, trace=self._driver.settings.trace()))

    async def _acquire(self, spec: AcquireSpec) -> list[Hold]:
        return [Hold(self, granted, spec.actor) for granted in await self._grant(spec)]

    async def close(self, *, timeout: Seconds | None = None) -> None:
        """Closes the session, once the work under its locks has ended; see `Client.close`.

        Then its holds are lost, and the coordinator hands everything on. Returns when that is confirmed, or after two seconds.
        """
        await self._close(timeout, here())

    async def _close(self, timeout: Seconds | None, by: Owner) -> None:
        limit = self._close_timeout if timeout is None else arguments.nanos(timeout, "timeout")
        if not self._driver.may_close():
            return
        self._bodies.leave_out(by)
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end(limit))
        await asyncio.shield(self._closing)

    async def _end(self, limit: int) -> None:
        self._driver.refuse_acquires()
        working = await self._bodies.stop(limit)
        if working:
            log.warning("closing a session although the work under lock %s did not end within %g s", working, limit / SECOND)
        await self._driver.close()

    def __repr__(self) -> str:
        """Shows its id, and its coordinator."""
        return f"<{type(self).__name__} {self.info.session_id} at {self.info.coordinator}>" if self.info else "<Session not connected>"
