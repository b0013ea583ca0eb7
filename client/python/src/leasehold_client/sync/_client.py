"""Client and sessions, for threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from .. import _fork, client, session
from .._clock import Seconds
from .._credentials import PathLike
from .._transport import TraceSource
from ..actor import Actor
from ..client import Tls
from ..errors import SessionClosed
from ..request import LockSpec
from ..session import SessionInfo
from ._admin import Admin
from ._elections import Election
from ._holds import Hold, Holds, OnLost, check_callback
from ._loop import Loop
from ._requests import LockRequest, Semaphore, hold_of

T = TypeVar("T")


class Session:
    """A session of its own, beside the client's: what it holds ends with it alone."""

    def __init__(self, loop: Loop, inner: session.Session) -> None:
        """Makes a session that is not open; use it as a context manager."""
        self._loop, self._inner = loop, inner

    def open(self) -> None:
        """Opens the session. Raises `ConnectError` if no coordinator can be reached or serves it."""
        self._loop.run(self._inner.open())

    @property
    def info(self) -> SessionInfo | None:
        """The description of the session; none while there is no connection."""
        return self._inner.info

    def close(self) -> None:
        """Closes the session: its holds are lost first, then the coordinator hands everything on."""
        with contextlib.suppress(SessionClosed):
            self._loop.run(self._inner.close())

    def __enter__(self) -> Session:
        """Opens the session."""
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Closes the session."""
        self.close()


class Client:
    """Client of Leasehold for threads. It has one session, shared by all threads, and made anew in the background."""

    def __init__(self, inner: client.Client, loop: Loop | None = None) -> None:
        """Makes a client that is not connected; see `connect`."""
        self._inner = inner
        self._is_owner = loop is None
        self._given_loop = loop
        self._is_closed = False
        # By generations of forks: another thread of the parent may have had its lock at the moment of the fork.
        self._opening: dict[int, Any] = {}

    @property
    def _loop(self) -> Loop:
        if self._given_loop is None:
            if self._is_closed:
                raise SessionClosed("")
            raise RuntimeError("the client is not open: use `with`, or call `open()`")
        return self._given_loop

    def _mutex(self) -> Any:
        # A handler of a signal may close the client while its thread opens it.
        return self._opening.setdefault(_fork.generation(), threading.RLock())

    def open(self) -> None:
        """Connects, and opens the session. Does nothing if it is open; threads that call it at the same time open one session.

        Raises `ConnectError` if no coordinator can be reached or serves it, and `SessionClosed` once the client was closed.
        """
        with self._mutex():
            if self._given_loop is None and not self._is_closed:
                loop = Loop()
                try:
                    loop.run(self._inner.open())
                except BaseException:
                    loop.stop()
                    raise
                self._given_loop = loop
                if self._is_closed:
                    self.close()
            if self._is_closed:
                raise SessionClosed("")

    def close(self) -> None:
        """Closes the session, and all connections. Its locks are lost first, then the coordinator hands them on."""
        with self._mutex():
            self._is_closed = True
            loop = self._given_loop
            if loop is None or loop._generation != _fork.generation():
                return
            # With a session that is shared, somebody else may have stopped the loop.
            with contextlib.suppress(SessionClosed):
                loop.run(self._inner.close())
            if self._is_owner:
                loop.stop()

    def __enter__(self) -> Client:
        """Connects."""
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Closes."""
        self.close()

    @property
    def info(self) -> SessionInfo | None:
        """The description of the session; none while there is no connection."""
        return self._inner.info

    def lock(
        self,
        name: str,
        *,
        wait: Seconds | None = None,
        shared: bool = False,
        value: bytes | str = b"",
        lock_delay: Seconds = 0,
        max_hold: Seconds | None = None,
        actor: Actor | None = None,
        reentrant: bool = False,
        on_lost: OnLost | None = None,
    ) -> LockRequest[Hold]:
        """Returns a request for a lock. The arguments are those of `leasehold_client.Client.lock`, and:

        - `on_lost`: called with the hold, in a thread of its own, if the lock is lost.
        - `reentrant`: the default of `actor` is that of the running thread.
        """
        loop = self._loop
        inner = self._inner.lock(
            name,
            wait=wait,
            shared=shared,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(loop, inner, hold_of(loop, on_lost))

    def lock_all(
        self,
        locks: Iterable[str | LockSpec],
        *,
        wait: Seconds | None = None,
        value: bytes | str = b"",
        lock_delay: Seconds = 0,
        max_hold: Seconds | None = None,
        actor: Actor | None = None,
        reentrant: bool = False,
        on_lost: OnLost | None = None,
    ) -> LockRequest[Holds]:
        """Returns a request for several locks, each with a mode of its own, granted all together or not at all."""
        check_callback(on_lost)
        loop = self._loop
        inner = self._inner.lock_all(
            locks,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(loop, inner, lambda holds: Holds([Hold(loop, one, on_lost) for one in holds]))

    def semaphore(self, name: str, limit: int, *, limit_revision: int = 0) -> Semaphore:
        """Returns a semaphore with this total of permits."""
        return Semaphore(self._loop, self._inner.semaphore(name, limit, limit_revision=limit_revision))

    def election(
        self,
        name: str,
        *,
        value: bytes | str = b"",
        wait: Seconds | None = None,
        lock_delay: Seconds = 0,
        on_lost: OnLost | None = None,
    ) -> Election:
        """Returns an election, in which this client campaigns with this value for observers to see."""
        check_callback(on_lost)
        return Election(self._loop, self._inner.election(name, value=value, wait=wait, lock_delay=lock_delay), on_lost)

    @property
    def admin(self) -> Admin:
        """Calls of operators."""
        return Admin(self._loop, self._inner.admin)

    def new_session(self) -> Session:
        """Returns another session with the client's options, which is not open: use it as a context manager."""
        loop = self._loop
        return Session(loop, loop.run(_make(self._inner.new_session)))

    def on(self, session: Session) -> Client:
        """Returns a client whose locks are held through this session. Closing it closes the session."""
        return Client(self._inner.on(session._inner), self._loop)


async def _make(make: Callable[[], T]) -> T:
    return make()


def connect(
    endpoints: str | Iterable[str],
    *,
    client_name: str | None = None,
    ttl: Seconds | None = None,
    disconnect_grace: Seconds = 0,
    metadata: Mapping[str, str] | None = None,
    connect_timeout: Seconds = 5,
    backoff: tuple[Seconds, Seconds] = (0.05, 2),
    tls: Tls | None = None,
    token: str | None = None,
    token_file: PathLike | None = None,
    allow_plaintext_token: bool = False,
    trace_context: TraceSource | None = None,
) -> Client:
    """Returns a client of the coordinators at these URLs. The arguments are those of `leasehold_client.connect`.

    Use it as a context manager: that connects.
    """
    inner = client.connect(
        endpoints,
        client_name=client_name,
        ttl=ttl,
        disconnect_grace=disconnect_grace,
        metadata=metadata,
        connect_timeout=connect_timeout,
        backoff=backoff,
        tls=tls,
        token=token,
        token_file=token_file,
        allow_plaintext_token=allow_plaintext_token,
        trace_context=trace_context,
    )
    return Client(inner)
