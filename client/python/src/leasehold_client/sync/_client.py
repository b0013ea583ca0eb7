"""Client and sessions, for threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, Unpack

from .. import _arguments as arguments
from .. import _fork, client, session
from .._body import here
from .._clock import Seconds
from .._options import AcquireOptions
from ..detached import DetachedArguments
from ..errors import SessionClosed
from ..request import LockSpec
from ._admin import Admin
from ._blocking import Connects, blocking
from ._detached import DetachedLock, DetachedRequest
from ._elections import Election
from ._holds import Hold, Holds, OnLost, check_callback
from ._loop import Loop
from ._requests import LockRequest, Semaphore, hold_of, holds_of

T = TypeVar("T")


class Session(Connects):
    """A session of its own, beside the client's: what it holds ends with it alone."""

    def __init__(self, loop: Loop, inner: session.Session) -> None:
        """Makes a session that is not open; use it as a context manager."""
        self._loop, self._inner, self._run = loop, inner, loop.run

    open = blocking(session.Session.open)
    draining = blocking(session.Session.draining)

    @property
    def drains_in(self) -> float | None:
        """Seconds until the coordinator goes away, once it has said that it will. The session moves by itself."""
        seconds: float | None = self._inner.drains_in
        return seconds

    def close(self, *, timeout: Seconds | None = None) -> None:
        """Closes the session, once the work under its locks has ended; see `Client.close`."""
        with contextlib.suppress(SessionClosed):
            self._run(self._inner._close(timeout, here()))


class Client(Connects):
    """Client of Leasehold for threads. It has one session, shared by all threads, and made anew in the background.

    Use it as a context manager, which connects and closes it. One that is made elsewhere, such as in a module, connects when it is first
    used, in the process in which that is.
    """

    def __init__(self, inner: client.Client, loop: Loop | None = None) -> None:
        """Makes a client that is not connected; see `connect`."""
        self._inner = inner
        self._is_owner = loop is None
        self._loop = loop
        self._is_closed = False
        # By generations of forks: another thread of the parent may have had its lock at the moment of the fork.
        self._opening: dict[int, Any] = {}

    def _ready(self) -> Loop:
        """Returns the loop in which the session is, after it has connected if this is its first use."""
        if self._is_closed:
            raise SessionClosed("")
        if self._loop is None:
            self.open()
        assert self._loop
        return self._loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine there, and waits for it."""
        try:
            loop = self._ready()
        except BaseException:
            work.close()
            raise
        return loop.run(work)

    def _mutex(self) -> Any:
        # A handler of a signal may close the client while its thread opens it.
        return self._opening.setdefault(_fork.generation(), threading.RLock())

    def open(self) -> None:
        """Connects, and opens the session. Does nothing if it is open; threads that call it at the same time open one session.

        Raises `ConnectError` if no coordinator can be reached or serves it, and `SessionClosed` once the client was closed.
        """
        if self._is_closed:
            raise SessionClosed("")
        with self._mutex():
            if self._loop is None and not self._is_closed:
                loop = Loop()
                try:
                    loop.run(self._inner.open())
                except BaseException:
                    loop.stop()
                    raise
                self._loop = loop
                if self._is_closed:
                    self.close()
            if self._is_closed:
                raise SessionClosed("")

    def close(self, *, timeout: Seconds | None = None) -> None:
        """Closes its sessions once the work under their locks has ended, and all connections. From the call on, acquires fail.

        Each body (a block, a decorated function, `run`, a term) is told to stop: its `check()` raises `SessionClosed`, its event `lost` is
        set, and `on_lost` is called. Its locks are renewed until it has ended. Other holds are lost at the end, and the coordinator hands
        them on. The bodies of the thread that calls this are not waited for. A second call waits for the same end.

        - `timeout`: longest wait for the bodies, after which a warning names their locks; 0 does not wait. Default: the client's
          `close_timeout`.
        """
        if timeout is not None:
            arguments.nanos(timeout, "timeout")
        self._is_closed = True
        with self._mutex():
            loop = self._loop
        if loop is None or loop._generation != _fork.generation():
            return
        # With a session that is shared, somebody else may have stopped the loop.
        with contextlib.suppress(SessionClosed):
            loop.run(self._inner._close(timeout, here()))
        if self._is_owner:
            loop.stop()

    def lock(
        self, name: str, *, shared: bool = False, on_lost: OnLost | None = None, **options: Unpack[AcquireOptions]
    ) -> LockRequest[Hold]:
        """Returns a request for a lock. The arguments are those of `leasehold_client.Client.lock`, and:

        - `on_lost`: called with the hold, in a thread of its own, if the lock is lost.
        """
        return LockRequest(self, self._inner.lock(name, shared=shared, **options), hold_of(on_lost))

    def lock_all(
        self, locks: Iterable[str | LockSpec], *, on_lost: OnLost | None = None, **options: Unpack[AcquireOptions]
    ) -> LockRequest[Holds]:
        """Returns a request for several locks, each with a mode of its own, granted all together or not at all."""
        return LockRequest(self, self._inner.lock_all(locks, **options), holds_of(on_lost))

    def semaphore(
        self, name: str, limit: int, *, limit_revision: int = 0, on_lost: OnLost | None = None, **options: Unpack[AcquireOptions]
    ) -> Semaphore:
        """Returns a semaphore with this total of permits, which is itself a request for one of them."""
        return Semaphore(self, self._inner.semaphore(name, limit, limit_revision=limit_revision, **options), on_lost)

    def detached_lock(self, lock: str | LockSpec, **options: Unpack[DetachedArguments]) -> DetachedRequest:
        """Returns a request for a lock that no session holds. The arguments are those of `leasehold_client.Client.detached_lock`."""
        return DetachedRequest(self, self._inner.detached_lock(lock, **options))

    def attach_detached_lock(self, name: str, token: int, owner_id: bytes, *, ttl: Seconds | None = None) -> DetachedLock:
        """Returns a detached lock of another process, by its token and owner id. How long it lasts is known once it is renewed."""
        return DetachedLock(self, self._inner.attach_detached_lock(name, token, owner_id, ttl=ttl))

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
        return Election(self, self._inner.election(name, value=value, wait=wait, lock_delay=lock_delay), on_lost)

    @property
    def admin(self) -> Admin:
        """Calls of operators."""
        return Admin(self._run, self._inner.admin)

    def new_session(self) -> Session:
        """Returns another session with the client's options, which is not open: use it as a context manager."""
        loop = self._ready()
        return Session(loop, loop.run(_make(self._inner.new_session)))

    def on(self, session: Session) -> Client:
        """Returns a client whose locks are held through this session. Closing it closes the session."""
        return Client(self._inner.on(session._inner), self._ready())


async def _make(make: Callable[[], T]) -> T:
    return make()


def connect(endpoints: str | Iterable[str], **options: Unpack[client.ConnectOptions]) -> Client:
    """Returns a client of the coordinators at these URLs. The arguments are those of `leasehold_client.connect`.

    Use it as a context manager, which connects. Otherwise it connects when it is first used.
    """
    return Client(client.connect(endpoints, **options))
