"""Client: the way to a set of coordinators, and its session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType

from . import _arguments as arguments
from ._calls import Calls
from ._clock import Seconds
from ._credentials import Credentials, PathLike, Tls
from ._endpoints import parse
from ._machine import LockSpec
from ._transport import Settings, TraceSource
from .actor import Actor
from .admin import Admin
from .election import Election
from .errors import InvalidArgument, SessionClosed
from .hold import Hold, Holds
from .request import LockRequest, Semaphore, first, spec
from .session import Session, SessionInfo, SessionOptions
from .views import LockMode

__all__ = ["Client", "Tls", "connect"]


class Client:
    """Client of Leasehold. It has one session, which is made once, shared by all its locks, and made anew in the background.

    Use it as an asynchronous context manager. It belongs to the event loop in which it is opened.
    """

    def __init__(self, settings: Settings, options: SessionOptions) -> None:
        """Makes a client that is not connected; see `connect`."""
        self._settings, self._options = settings, options
        self._calls: Calls | None = None
        self._session: Session | None = None
        # One call opens it, and others wait for that.
        self._opening = asyncio.Lock()
        self._opening_in: asyncio.AbstractEventLoop | None = None
        self._opened: Session | None = None
        self._is_closed = False

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
        if self._is_closed:
            raise SessionClosed("")

    async def __aenter__(self) -> Client:
        """Connects."""
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Closes."""
        await self.close()

    async def close(self) -> None:
        """Closes the session, and all connections. Its locks are lost first, then the coordinator hands them on."""
        self._is_closed = True
        session = self._session or self._opened
        if session:
            await session.close()
        if self._calls:
            await self._calls.close()

    @property
    def session(self) -> Session:
        """The session that the client's locks are held through."""
        if self._session is None:
            if self._is_closed:
                raise SessionClosed("")
            raise RuntimeError("the client is not open: use `async with`, or await `open()`")
        return self._session

    @property
    def info(self) -> SessionInfo | None:
        """The description of the session; none while there is no connection."""
        return self.session.info

    def _all_calls(self) -> Calls:
        if self._calls is None:
            self._calls = Calls(self._settings)
        return self._calls

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
    ) -> LockRequest[Hold]:
        """Returns a request for a lock.

        - `wait`: longest wait; 0 does not wait. Default: for as long as it takes, over reconnects too.
        - `shared`: hold it together with other shared holders.
        - `value`: attached to the hold for others to see, at most 4 KiB.
        - `lock_delay`: how long the lock stays closed if the hold ends without a release.
        - `max_hold`: longest time for which it may be held.
        - `actor`: the flow that asks, for deadlock detection and reentrancy.
        - `reentrant`: the actor may hold it already. Default of `actor` then: that of the running task.

        Raises `InvalidArgument` if an argument is out of its bounds, and `TypeError` if it has a wrong type.
        """
        arguments.instance(shared, bool, "shared")
        lock = LockSpec(arguments.name(name), LockMode.SHARED if shared else LockMode.EXCLUSIVE)
        asked = spec(
            [lock],
            several=False,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(self.session, asked, first)

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
    ) -> LockRequest[Holds]:
        """Returns a request for several locks, each with a mode of its own, granted all together or not at all.

        The other arguments are those of `lock`. Such requests never deadlock with one another, whatever the order of the names.
        """
        asked = spec(
            arguments.locks(locks),
            several=True,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(self.session, asked, Holds)

    def semaphore(self, name: str, limit: int, *, limit_revision: int = 0) -> Semaphore:
        """Returns a semaphore with this total of permits."""
        return Semaphore(self.session, arguments.name(name), arguments.limit(limit), arguments.revision(limit_revision))

    def election(self, name: str, *, value: bytes | str = b"", wait: Seconds | None = None, lock_delay: Seconds = 0) -> Election:
        """Returns an election, in which this client campaigns with this value for observers to see."""
        return Election(self.session, self._all_calls(), name, value, wait, lock_delay)

    @property
    def admin(self) -> Admin:
        """Calls of operators."""
        return Admin(self._all_calls())

    def new_session(self) -> Session:
        """Returns another session with the client's options, which is not open: use it as an asynchronous context manager.

        What it holds ends with it alone. `on` makes locks on it.
        """
        return Session(self._settings, self._options)

    def on(self, session: Session) -> Client:
        """Returns a client whose locks are held through this session. Closing it closes the session."""
        arguments.instance(session, Session, "session")
        client = Client(self._settings, self._options)
        client._session = session
        return client


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
    """Returns a client of the coordinators at these URLs, given as a list or separated by commas.

    Use it as an asynchronous context manager: that connects.

    - `client_name`: name for operators. Default: the program, host and process, such as `billing@web-1/4711`.
    - `ttl`: how long locks last without a heartbeat. Default: the coordinator's, 10 s.
    - `disconnect_grace`: how long the coordinator keeps the locks for a resume after the connection broke. Default: 0.
    - `metadata`: free text for operators.
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
        arguments.metadata(metadata),
    )
    return Client(settings, options)
