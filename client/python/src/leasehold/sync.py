"""Client for threads, as safe as that for asyncio: its sessions live in an event loop of their own thread.

    with leasehold.sync.connect("http://127.0.0.1:7420") as client:
        with client.lock("orders/42") as lock:
            for row in rows:
                lock.check()  # raises LockLost
                write(row, lock.token)

A thread can't be interrupted, so that the body looks itself: `check()` reads the clock, `lost` is an event, `on_lost=` a callback. Every
method may be called by any thread.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import _fork, client, election, hold, request, session
from . import admin as _admin
from ._clock import Seconds
from ._credentials import PathLike
from ._transport import TraceSource
from .actor import Actor
from .client import Tls
from .errors import CallFailed, Forked, HoldError, LockLost, LostReason
from .hold import LockState, ReleaseRequest, add_context
from .request import LockSpec
from .session import SessionInfo
from .views import CoordinatorView, EndedSession, Leader, LeaderChange, LockEvent, LockView, SessionView

__all__ = [
    "Admin",
    "Client",
    "Election",
    "Hold",
    "Holds",
    "Leadership",
    "LockRequest",
    "Observer",
    "Semaphore",
    "Session",
    "Term",
    "Watcher",
    "connect",
]

log = logging.getLogger("leasehold")

T = TypeVar("T")
OnLost = Callable[["Hold"], object]
"""Callback of a loss. It runs in a thread of its own."""


class _Loop:
    """Event loop in a thread of its own."""

    def __init__(self) -> None:
        self._generation = _fork.generation()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="leasehold", daemon=True)
        self._thread.start()
        # The interpreter must not end under a thread that uses gRPC.
        atexit.register(self.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine there, and waits for it. If the wait is interrupted, it is cancelled, and what it was granted given back."""
        if self._generation != _fork.generation():
            work.close()
            raise Forked("the client was made before this process was forked")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself: callbacks of the client's own thread must not call it")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise
        except BaseException:
            if not future.done():
                # The wait was interrupted, for example by Ctrl-C.
                future.cancel()
            raise

    def stop(self) -> None:
        """Ends the loop and its thread."""
        if self._generation == _fork.generation() and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            atexit.unregister(self.stop)


class Hold:
    """A lock that was granted, until it is released or lost. Any thread may use it.

    As a context manager, it releases the lock at the end, and raises `LockLost` if it was lost before the body ended, unless the body
    failed with an error of its own.
    """

    def __init__(self, loop: _Loop, inner: hold.Hold, on_lost: OnLost | None = None) -> None:
        """Makes the hold of a grant."""
        self._loop, self._inner, self._on_lost = loop, inner, on_lost
        self._telling = threading.Lock()
        self.lost = threading.Event()
        """Event that is set once it is lost or released. It may come late: `check` reads the clock."""
        inner._lease.listen(self._changed)
        self._changed()

    def _changed(self) -> None:
        if self._inner.lost_reason:
            with self._telling:
                is_first = not self.lost.is_set()
                self.lost.set()
            if is_first and self._on_lost and self._inner.loss:
                threading.Thread(target=self._tell, args=(self._on_lost,), name="leasehold-lost", daemon=True).start()

    def _tell(self, on_lost: OnLost) -> None:
        try:
            on_lost(self)
        except Exception:
            log.exception("a callback of the loss of lock %r failed", self.name)

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._inner.name

    @property
    def token(self) -> int:
        """The fencing token: pass it to what the lock protects, which must refuse smaller ones."""
        return self._inner.token

    @property
    def permits(self) -> int | None:
        """Permits of a semaphore that were granted; none for other locks."""
        return self._inner.permits

    @property
    def hold_count(self) -> int:
        """Number of times that the actor held the lock at this grant, this one included."""
        return self._inner.hold_count

    @property
    def state(self) -> LockState:
        """Whether it is held, suspended or lost now, by this process's own clock and all that the coordinator said."""
        return self._inner.state

    @property
    def is_held(self) -> bool:
        """Whether it is held now. False while it is suspended."""
        return self._inner.is_held

    @property
    def lost_reason(self) -> LostReason | None:
        """Why it is not held any more; none while it is held or suspended."""
        return self._inner.lost_reason

    @property
    def valid_for(self) -> float:
        """Seconds until it is lost unless a heartbeat is answered before; 0 while it is not held."""
        return self._inner.valid_for

    @property
    def lost_in(self) -> float:
        """Seconds until it is lost, held or suspended, unless a coordinator answers before; 0 once it is."""
        return self._inner.lost_in

    @property
    def ends_in(self) -> float | None:
        """Seconds until it ends because it may be held no longer (`max_hold`); none if there is no bound."""
        return self._inner.ends_in

    @property
    def release_request(self) -> ReleaseRequest | None:
        """The last request of an operator to release it, if there was one."""
        return self._inner.release_request

    def check(self) -> None:
        """Reads the clock, and fails unless the lock is held. Call it before every step that must not run without the lock.

        Raises `LockLost` if it was lost or released, and `LockSuspended` while it is suspended.
        """
        self._inner.check()

    def changed(self, state: LockState | None = None) -> LockState:
        """Waits until the state differs from this one, by default the present one; returns at once if it is lost."""
        return self._loop.run(self._inner.changed(state or self.state))

    def settled(self) -> None:
        """Waits until a suspended lock is held again; at once if it is. Raises `LockLost` if it is lost."""
        if self.state is LockState.SUSPENDED:
            self._loop.run(self._inner.settled())
        self.check()

    def release(self) -> bool:
        """Gives the lock back. From the call on, it counts as not held.

        Call it as often as you like: every call has the outcome of the first. Returns false if the lock was lost before. Raises
        `Unconfirmed` if no coordinator confirmed it within ten seconds, or `ChangeRefused`.
        """
        return self._loop.run(self._inner.release())

    def set_value(self, value: bytes | str) -> None:
        """Changes the value attached to the hold, at most 4 KiB. Raises `HoldError` if that was not confirmed."""
        self._loop.run(self._inner.set_value(value))

    def downgrade(self) -> None:
        """Turns an exclusive hold into a shared one, in one step. Raises `HoldError` if that was not confirmed."""
        self._loop.run(self._inner.downgrade())

    def keep(self, permits: int) -> None:
        """Gives permits of a semaphore back, and keeps so many. Raises `HoldError` if that was not confirmed."""
        self._loop.run(self._inner.keep(permits))

    def __enter__(self) -> Hold:
        """Begins the body."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases the lock."""
        _close([self], error)
        return None

    def __repr__(self) -> str:
        """Shows name, token and state."""
        return f"<{type(self).__name__} {self.name!r} token={self.token} {self.state.value}>"


def _close(holds: Sequence[Hold], error: BaseException | None) -> None:
    """Ends a body with this error or with none, and releases its holds."""
    try:
        if error is None:
            for one in holds:
                # Not made under the lock from beginning to end, if it turns out to be lost.
                if one.state is LockState.SUSPENDED:
                    one.changed(LockState.SUSPENDED)
        lost = next((loss for one in holds if (loss := one._inner.loss)), None)
    finally:
        for one in holds:
            try:
                one.release()
            except (HoldError, Forked) as failed:
                log.debug("the release after the body failed: %s", failed)
    if lost and error is None:
        raise lost
    if lost and error and not (isinstance(error, LockLost) and error.name == lost.name):
        add_context(error, lost)


class Holds(Sequence[Hold]):
    """Holds of several locks that were granted together, in the order of their names. Each can be released, or lost, alone."""

    def __init__(self, holds: list[Hold]) -> None:
        """Makes it of the holds."""
        self._holds = holds

    def __getitem__(self, index: Any) -> Any:
        """Returns a hold by its place."""
        return self._holds[index]

    def __len__(self) -> int:
        """Returns the number of the holds."""
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        """Returns the holds in order."""
        return iter(self._holds)

    def get(self, name: str) -> Hold | None:
        """Returns the hold of the lock of this name, if it is one of them."""
        return next((one for one in self._holds if one.name == name), None)

    @property
    def state(self) -> LockState:
        """Held if all are, lost if one is, otherwise suspended."""
        states = {one.state for one in self._holds}
        return next(state for state in (LockState.LOST, LockState.SUSPENDED, LockState.HELD) if state in states)

    def check(self) -> None:
        """Fails unless all of them are held; see `Hold.check`."""
        for one in self._holds:
            one.check()

    def release(self) -> bool:
        """Releases all of them. Returns false if one was lost before. Raises the first error after all were tried."""
        return self._holds[0]._loop.run(hold.Holds([one._inner for one in self._holds]).release())

    def __enter__(self) -> Holds:
        """Begins the body."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases the locks."""
        _close(self._holds, error)
        return None


H = TypeVar("H", bound=Hold | Holds)


class LockRequest(Generic[H]):
    """Request for one lock or several, which is made when it is used: `with`, `acquire` or `try_acquire`."""

    def __init__(self, loop: _Loop, inner: request.LockRequest[Any], make: Callable[[Any], H]) -> None:
        """Makes a request."""
        self._loop, self._inner, self._make = loop, inner, make
        self._entered = threading.local()

    def acquire(self) -> H:
        """Waits for the lock, and returns its hold. Raises an `AcquireError`, as `leasehold.LockRequest.acquire`."""
        return self._make(self._loop.run(self._inner.acquire()))

    def try_acquire(self) -> H | None:
        """Returns the hold, or none if the lock is busy. Otherwise as `acquire`."""
        inner = self._loop.run(self._inner.try_acquire())
        return None if inner is None else self._make(inner)

    def __enter__(self) -> H:
        """Acquires, and begins the body."""
        acquired = self.acquire()
        # Each thread ends what it began.
        stack: list[H] = self._entered.__dict__.setdefault("stack", [])
        stack.append(acquired)
        return acquired

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool | None:
        """Ends the body, then releases."""
        stack: list[H] = self._entered.stack
        return stack.pop().__exit__(kind, error, traceback)


class Semaphore:
    """A semaphore, from which permits are requested. All its users must name the same limit."""

    def __init__(self, loop: _Loop, inner: request.Semaphore) -> None:
        """Makes it."""
        self._loop, self._inner = loop, inner

    @property
    def name(self) -> str:
        """The semaphore's name."""
        return self._inner.name

    @property
    def limit(self) -> int:
        """Its total of permits."""
        return self._inner.limit

    def permits(
        self,
        permits: int = 1,
        *,
        at_least: int | None = None,
        wait: Seconds | None = None,
        value: bytes | str = b"",
        lock_delay: Seconds = 0,
        max_hold: Seconds | None = None,
        actor: Actor | None = None,
        reentrant: bool = False,
        on_lost: OnLost | None = None,
    ) -> LockRequest[Hold]:
        """Returns a request for so many permits, or, with `at_least`, for as many as are free, at least that many."""
        inner = self._inner.permits(
            permits,
            at_least=at_least,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        return LockRequest(self._loop, inner, _hold(self._loop, on_lost))


def _hold(loop: _Loop, on_lost: OnLost | None) -> Callable[[hold.Hold], Hold]:
    return lambda inner: Hold(loop, inner, on_lost)


class Leadership(Hold):
    """Leadership of an election, until it is resigned or lost."""

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead now."""
        return self.is_held

    def proclaim(self, value: bytes | str) -> None:
        """Changes the value that observers see. Raises `HoldError` if that was not confirmed."""
        self.set_value(value)

    def resign(self) -> bool:
        """Lets the next candidate lead. As `release`."""
        return self.release()


class Term(Leadership):
    """One term of those that a loop over an election yields. A loss ends its block without an error: the loop campaigns again.

    The block must look itself: `check()` raises `LockLost`, which the end of the block takes. An error of its own goes on.
    """

    _was_lost: LockLost | None = None

    def __enter__(self) -> Term:
        """Begins the body."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        """Ends the body, then resigns."""
        try:
            _close([self], error)
        except LockLost as lost:
            if (lost.name, lost.token) != (self.name, self.token):
                raise
            self._was_lost = lost
        if isinstance(error, LockLost) and (error.name, error.token) == (self.name, self.token):
            self._was_lost = error
        if self._was_lost:
            log.info("campaigning again: %s", self._was_lost)
        return self._was_lost is not None and (error is None or error is self._was_lost)


class Election:
    """An election. `for term in election` yields a term whenever this process is elected, and campaigns again after each."""

    def __init__(self, loop: _Loop, inner: election.Election, on_lost: OnLost | None) -> None:
        """Makes it."""
        self._loop, self._inner, self._on_lost = loop, inner, on_lost
        self._telling = threading.Lock()

    @property
    def name(self) -> str:
        """The election's name."""
        return self._inner.name

    def campaign(self, value: bytes | str | None = None) -> Leadership:
        """Waits to be elected. Raises `AlreadyCandidate` if this session campaigns already, or leads."""
        return Leadership(self._loop, self._loop.run(self._inner.campaign(value)), self._on_lost)

    def __iter__(self) -> Iterator[Term]:
        """Yields the terms for which this process is elected, without an end."""
        terms = self._inner.__aiter__()
        while True:
            yield Term(self._loop, self._loop.run(terms.__anext__()), self._on_lost)

    def run(self, work: Callable[[Term], T]) -> T:
        """Runs the work while this process leads, until it is done, then resigns and returns its result.

        The work must call `check()`. If the leadership was lost before it ended, it begins anew after the next election.
        """
        for term in self:
            results: list[T] = []
            with term:
                results.append(work(term))
            if results and term._was_lost is None:
                return results[0]
        raise AssertionError("terms do not end")

    def leader(self) -> Leader | None:
        """Returns the present leader; none while there is none. Raises `CallFailed`."""
        return self._loop.run(self._inner.leader())

    def observe(self) -> Observer:
        """Returns an observer, which yields the present leader and then every change."""
        return Observer(self._loop, self._inner.observe())


class _Feed(Generic[T]):
    """Iterator over an asynchronous one."""

    def __init__(self, loop: _Loop, inner: Any) -> None:
        """Makes it."""
        self._loop, self._inner = loop, inner

    def __iter__(self) -> Iterator[T]:
        """Returns itself."""
        return self

    def __next__(self) -> T:
        """Waits for the next change. Raises `CallFailed` if a coordinator refuses it."""
        change: list[T] = self._loop.run(_next(self._inner))
        if not change:
            raise StopIteration
        return change[0]

    def close(self) -> None:
        """Ends it, and a wait of another thread."""
        self._loop.run(self._inner.aclose())

    def __enter__(self) -> _Feed[T]:
        """Returns itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Ends it."""
        self.close()


class Observer(_Feed[LeaderChange]):
    """Leaders of an election: first the present one, then every change, including to no leader."""

    @property
    def interruption(self) -> CallFailed | None:
        """Why no change comes at present, while the observer tries to reach a coordinator."""
        failed: CallFailed | None = self._inner.interruption
        return failed


class Watcher(_Feed[LockView | LockEvent | _admin.Ready | _admin.Gap]):
    """Changes of locks; see `leasehold.Watcher`."""


class Admin:
    """Calls of operators. Every method raises `CallFailed`."""

    def __init__(self, loop: _Loop, inner: _admin.Admin) -> None:
        """Makes it."""
        self._loop, self._inner = loop, inner

    def get_lock(self, name: str) -> LockView:
        """Returns one lock. A free name is shown as free."""
        return self._loop.run(self._inner.get_lock(name))

    def list_locks(self, prefix: str = "") -> list[LockView]:
        """Returns the locks whose names begin with the prefix, without their waiters: a scan, unordered."""
        return self._loop.run(_all(self._inner.list_locks(prefix)))

    def list_sessions(self) -> list[SessionView]:
        """Returns the sessions of the coordinator that answers."""
        return self._loop.run(self._inner.list_sessions())

    def force_release(self, name: str, *, token: int | None = None, waiter: int | None = None) -> bool:
        """Takes a lock from its holders, or from the one with this token; or ends the wait of the waiter of this number."""
        return self._loop.run(self._inner.force_release(name, token=token, waiter=waiter))

    def request_release(self, name: str, *, token: int = 0, reason: str = "", within: Seconds | None = None) -> int:
        """Asks the holders of a lock, or the one with this token, to release it. Returns how many were asked."""
        return self._loop.run(self._inner.request_release(name, token=token, reason=reason, within=within))

    def end_session(self, session_id: str) -> EndedSession:
        """Ends a session with all that it has, at whichever coordinator it is."""
        return self._loop.run(self._inner.end_session(session_id))

    def check_token(self, name: str, token: int) -> bool:
        """Returns whether a fencing token is still the newest of its name."""
        return self._loop.run(self._inner.check_token(name, token))

    def status(self) -> CoordinatorView:
        """Returns the status of the coordinator that answers."""
        return self._loop.run(self._inner.status())

    def watch(self, prefix: str = "") -> Watcher:
        """Returns a watcher of the locks whose names begin with the prefix."""
        return Watcher(self._loop, self._inner.watch(prefix))


async def _next(items: AsyncIterator[T]) -> list[T]:
    async for item in items:
        return [item]
    return []


async def _all(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


class Session:
    """A session of its own, beside the client's: what it holds ends with it alone."""

    def __init__(self, loop: _Loop, inner: session.Session) -> None:
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

    def __init__(self, inner: client.Client, loop: _Loop | None = None) -> None:
        """Makes a client that is not connected; see `connect`."""
        self._inner = inner
        self._is_owner = loop is None
        self._given_loop = loop

    @property
    def _loop(self) -> _Loop:
        if self._given_loop is None:
            raise RuntimeError("the client is not open: use `with`, or call `open()`")
        return self._given_loop

    def open(self) -> None:
        """Connects, and opens the session. Raises `ConnectError` if no coordinator can be reached or serves it."""
        if self._given_loop is not None:
            return
        loop = _Loop()
        try:
            loop.run(self._inner.open())
        except BaseException:
            loop.stop()
            raise
        self._given_loop = loop

    def close(self) -> None:
        """Closes the session, and all connections. Its locks are lost first, then the coordinator hands them on."""
        if self._given_loop is None or self._given_loop._generation != _fork.generation():
            return
        if self._given_loop._thread.is_alive():
            self._given_loop.run(self._inner.close())
            if self._is_owner:
                self._given_loop.stop()

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
        """Returns a request for a lock. The arguments are those of `leasehold.Client.lock`, and:

        - `on_lost`: called with the hold, in a thread of its own, if the lock is lost.
        - `reentrant`: the default of `actor` is that of the running thread.
        """
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
        return LockRequest(self._loop, inner, _hold(self._loop, on_lost))

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
        inner = self._inner.lock_all(
            locks,
            wait=wait,
            value=value,
            lock_delay=lock_delay,
            max_hold=max_hold,
            actor=actor,
            reentrant=reentrant,
        )
        loop = self._loop
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
    client_name: str = "",
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
    """Returns a client of the coordinators at these URLs. The arguments are those of `leasehold.connect`.

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
