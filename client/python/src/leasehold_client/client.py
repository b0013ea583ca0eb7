"""Client: the way to a set of coordinators, and its session."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack

from . import _arguments as arguments
from ._blocks import Opens
from ._body import Owner, here
from ._calls import Calls
from ._clock import Seconds
from ._credentials import Credentials, PathLike, Tls
from ._endpoints import parse
from ._machine import LockSpec
from ._options import AcquireOptions, acquire
from ._transport import Settings, TraceSource
from .admin import Admin
from .detached import DetachedArguments, DetachedLock, DetachedOptions, DetachedRequest
from .election import Election
from .errors import InvalidArgument, SessionClosed
from .hold import Hold, Holds
from .request import LockRequest, Semaphore, first
from .session import Session, SessionInfo, SessionOptions
from .views import LockMode

__all__ = ["Client", "ConnectOptions", "Tls", "connect"]


class Client(Opens):
    """Client of Leasehold. It has one session, which is made once, shared by all its locks, and made anew in the background.

    Use it as an asynchronous context manager, which connects and closes it. One that is made elsewhere, such as in a module, connects when
    it is first used. It belongs to the event loop in which that is.
    """

    def __init__(self, settings: Settings, options: SessionOptions, wait: int | None = None) -> None:
        """Makes a client that is not connected; see `connect`."""
        self._settings, self._options, self._wait = settings, options, wait
        self._calls: Calls | None = None
        self._session: Session | None = None
        # One call opens it, and others wait for that.
        self._opening = asyncio.Lock()
        self._opening_in: asyncio.AbstractEventLoop | None = None
        self._opened: Session | None = None
        self._others: weakref.WeakSet[Session] = weakref.WeakSet()
        self._is_closed = self._has_ended = False

    async def open(self) -> None:
        """Connects, and opens the session. Does nothing if it is open; calls at the same time open one session.

        Raises `ConnectError` if no coordinator can be reached or serves it, and `SessionClosed` once the client was closed.
        """
        loop = asyncio.get_running_loop()
        if self._opening_in not in (None, loop):
            raise RuntimeError("another event loop opens the client: connect once in each, or use leasehold_client.sync")
        self._opening_in = loop
        try:
            async with self._opening:
                if self._session is None and not self._is_closed:
                    session = self._opened = Session(self._settings, self._options)
                    await session.open()
                    self._session = session
        finally:
            if not self._opening.locked():
                self._opening_in = None
        self._check_open()

    def _check_open(self) -> None:
        """Fails once it is closed."""
        if self._is_closed:
            raise SessionClosed("")

    async def _ready(self) -> Session:
        """Returns the session, after it has connected if this is its first use."""
        if self._session is None:
            await self.open()
        return self.session

    async def close(self, *, timeout: Seconds | None = None) -> None:
        """Closes its sessions once the work under their locks has ended, and all connections. From the call on, acquires fail.

        Each body (a block, a decorated function, `run`, a term) is told to stop: it is cancelled, and raises `SessionClosed` if it stops
        because of that. Its locks are renewed until it has ended. Other holds are lost at the end, and the coordinator hands them on. The
        body that calls this is not waited for. A second call waits for the same end.

        - `timeout`: longest wait for the bodies, after which a warning names their locks; 0 does not wait. Default: the client's
          `close_timeout`.
        """
        await self._close(timeout, here())

    async def _close(self, timeout: Seconds | None, by: Owner) -> None:
        if timeout is not None:
            arguments.nanos(timeout, "timeout")
        self._is_closed = True
        session = self._session or self._opened
        sessions = {session, *self._others} - {None}
        await asyncio.gather(*(one._close(timeout, by) for one in sessions if one))
        self._has_ended = True
        if self._calls:
            await self._calls.close()

    @property
    def session(self) -> Session:
        """The session that the client's locks are held through. Raises `RuntimeError` before the client has connected."""
        if self._session is None:
            self._check_open()
            raise RuntimeError("the client has not connected yet: use it, or await `open()`")
        return self._session

    @property
    def info(self) -> SessionInfo | None:
        """The description of the session; none while there is no connection."""
        return self._session.info if self._session else None

    def _all_calls(self) -> Calls:
        if self._calls is None:
            if self._has_ended:
                raise SessionClosed("")
            self._calls = Calls(self._settings)
        return self._calls

    def lock(self, name: str, *, shared: bool = False, **options: Unpack[AcquireOptions]) -> LockRequest[Hold]:
        """Returns a request for a lock.

        - `shared`: hold it together with other shared holders.
        - `wait`, `value`, `lock_delay`, `max_hold`, `actor`, `reentrant`, `if_busy`: see `AcquireOptions`.

        Raises `InvalidArgument` if an argument is out of its bounds, and `TypeError` if it has a wrong type.
        """
        arguments.instance(shared, bool, "shared")
        self._check_open()
        lock = LockSpec(arguments.name(name), LockMode.SHARED if shared else LockMode.EXCLUSIVE)
        return LockRequest(self, acquire([lock], self._wait, **options), first)

    def lock_all(self, locks: Iterable[str | LockSpec], **options: Unpack[AcquireOptions]) -> LockRequest[Holds]:
        """Returns a request for several locks, each with a mode of its own, granted all together or not at all.

        The other arguments are those of `lock`. Such requests never deadlock with one another, whatever the order of the names.
        """
        self._check_open()
        return LockRequest(self, acquire(arguments.locks(locks), self._wait, several=True, **options), Holds)

    def semaphore(self, name: str, limit: int, *, limit_revision: int = 0, **options: Unpack[AcquireOptions]) -> Semaphore:
        """Returns a semaphore with this total of permits, which is itself a request for one of them.

        - `limit_revision`: a greater one replaces the limit in force.

        The other arguments are those of `lock`, for each request of permits.
        """
        self._check_open()
        return Semaphore(self, name, limit, limit_revision, options)

    def detached_lock(self, lock: str | LockSpec, **options: Unpack[DetachedArguments]) -> DetachedRequest:
        """Returns a request for a lock that no session holds: it lasts until its TTL has passed, also if the process ends, unless renewed.

        - `lock`: the name of an exclusive lock, or a `LockSpec` for a shared hold or permits.
        - `ttl`, `wait`, `value`, `lock_delay`, `client_name`, `request_key`: see `detached.DetachedArguments`.
        """
        return DetachedRequest(self._all_calls, DetachedOptions.of(lock, self._options.client_name, **options))

    def attach_detached_lock(self, name: str, token: int, owner_id: bytes, *, ttl: Seconds | None = None) -> DetachedLock:
        """Returns a detached lock of another process, by its token and owner id. How long it lasts is known once it is renewed."""
        return DetachedLock(self._all_calls, name, token, owner_id, None if ttl is None else arguments.nanos(ttl, "ttl"))

    def election(self, name: str, *, value: bytes | str = b"", wait: Seconds | None = None, lock_delay: Seconds = 0) -> Election:
        """Returns an election, in which this client campaigns with this value for observers to see.

        - `wait`: longest wait for each campaign. Default: as long as it takes, whatever the `wait` of the client.
        """
        self._check_open()
        return Election(self, name, value, wait, lock_delay)

    @property
    def admin(self) -> Admin:
        """Calls of operators."""
        return Admin(self._all_calls)

    def new_session(self) -> Session:
        """Returns another session with the client's options, which is not open: use it as an asynchronous context manager.

        What it holds ends with it alone, or with the client. `on` makes locks on it.
        """
        session = Session(self._settings, self._options)
        self._others.add(session)
        return session

    def on(self, session: Session) -> Client:
        """Returns a client whose locks are held through this session. Closing it closes the session."""
        arguments.instance(session, Session, "session")
        client = Client(self._settings, self._options, self._wait)
        client._session = session
        return client

    def __repr__(self) -> str:
        """Shows the coordinators' URLs, and whether it is connected."""
        state = "closed" if self._is_closed else "connected" if self.info else "not connected"
        return f"<{type(self).__name__} {self._settings.urls} {state}>"


class ConnectOptions(TypedDict, total=False):
    """Arguments of `connect`."""

    client_name: str | None
    ttl: Seconds | None
    disconnect_grace: Seconds
    close_timeout: Seconds
    wait: Seconds | None
    metadata: Mapping[str, str] | None
    connect_timeout: Seconds
    backoff: tuple[Seconds, Seconds]
    tls: Tls | None
    token: str | None
    token_file: PathLike | None
    allow_plaintext_token: bool
    trace_context: TraceSource | None


def connect(
    endpoints: str | Iterable[str],
    *,
    client_name: str | None = None,
    ttl: Seconds | None = None,
    disconnect_grace: Seconds = 0,
    close_timeout: Seconds = 10,
    wait: Seconds | None = None,
    metadata: Mapping[str, str] | None = None,
    connect_timeout: Seconds = 5,
    backoff: tuple[Seconds, Seconds] = (0.05, 2),
    tls: Tls | None = None,
    token: str | None = None,
    token_file: PathLike | None = None,
    allow_plaintext_token: bool = False,
    trace_context: TraceSource | None = None,
) -> Client:
    """Returns a client of the coordinators at these URLs, given as a list or separated by commas.

    Use it as an asynchronous context manager, which connects. Otherwise it connects when it is first used.

    - `client_name`: name for operators. Default: the program, host and process, such as `billing@web-1/4711`.
    - `ttl`: how long locks last without a heartbeat. Default: the coordinator's, 10 s.
    - `disconnect_grace`: how long the coordinator keeps the locks for a resume after the connection broke. Default: 0.
    - `close_timeout`: how long `close` waits for the work under locks. Default: 10 s.
    - `wait`: longest wait of each acquire that names none itself, at most 24 h. Default: as long as it takes. Elections have their own.
    - `metadata`: free text for operators, at most 16 entries.
    - `connect_timeout`: time limit for a connection and for the session to open on it.
    - `backoff`: shortest and longest pause between attempts to reconnect.
    - `tls`, `token`, `token_file`, `allow_plaintext_token`: credentials. Files may be replaced at any time.
    - `trace_context`: function that returns the present `traceparent`, such as `leasehold_client.opentelemetry.trace_context`.

    Raises `ConnectError` if an endpoint is no URL, or a credential can't be used; `InvalidArgument`, or `TypeError`, if another
    argument can't be.
    """
    parsed = parse(endpoints)
    arguments.instance(backoff, (tuple, list), "backoff")
    if len(backoff) != 2:
        raise InvalidArgument("backoff", "must be the shortest and the longest pause")
    if trace_context is not None and not callable(trace_context):
        raise TypeError(f"trace_context: expected a function, got {type(trace_context).__name__}")
    settings = Settings(
        parsed,
        Credentials(parsed, tls, token, token_file, allow_plaintext_token),
        arguments.nanos(connect_timeout, "connect_timeout"),
        arguments.nanos(backoff[0], "backoff"),
        arguments.nanos(backoff[1], "backoff"),
        trace_context,
    )
    options = SessionOptions(
        None if client_name is None else arguments.text(client_name, "client_name", arguments.LONGEST_TEXT),
        None if ttl is None else arguments.nanos(ttl, "ttl"),
        arguments.nanos(disconnect_grace, "disconnect_grace"),
        arguments.nanos(close_timeout, "close_timeout"),
        arguments.metadata(metadata),
    )
    return Client(settings, options, arguments.wait_nanos(wait))
