"""Lock with the interface of redis-py's, for programs that move from there.

    redis.lock("x", timeout=30, lock_class=leasehold_client.redis.lock_class(client))

It needs the extra `leasehold-client[redis]`.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from types import SimpleNamespace, TracebackType
from typing import Any, ClassVar, Literal, Self

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock as RedisLock

from . import sync
from ._arguments import nanos
from ._body import Body
from ._clock import SECOND, now
from .actor import Actor
from .errors import Busy, CallFailed, LeaseholdError, TimedOut, Unavailable, Unconfirmed

__all__ = ["Lock", "lock_class"]


class _Held:
    """A hold that ends at a deadline, as a key of Redis does."""

    def __init__(self, hold: sync.Hold, length: int | None) -> None:
        """Makes it of a hold that is to last so many nanoseconds from now, or has no deadline."""
        self.hold = hold
        self._mutex = threading.Lock()
        self._deadline = None if length is None else now() + length
        self._timer: threading.Timer | None = None
        self._set_timer()

    @property
    def is_held(self) -> bool:
        """Whether it is held now, by the clock, and its block is not to end because the client is being closed."""
        return self.hold.is_held and not self._is_over and not self.hold._is_stopped

    @property
    def _is_over(self) -> bool:
        return self._deadline is not None and now() >= self._deadline

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._deadline is not None:
            self._timer = threading.Timer(max(0, self._deadline - now()) / SECOND, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        with self._mutex:
            if not self._is_over:
                # It was extended meanwhile, or the timer's clock is ahead.
                self._set_timer()
                return
        if self.hold.lost_reason:
            return
        # It counts as lost already; the client goes on by itself with a release that nobody confirmed.
        with contextlib.suppress(LeaseholdError):
            self.hold.release()

    def extend(self, length: int, *, replaces: bool) -> bool:
        """Moves the deadline. Returns false if it is not held any more."""
        with self._mutex:
            if not self.is_held:
                return False
            self._deadline = length + (now() if replaces or self._deadline is None else self._deadline)
            self._set_timer()
            return True

    def release(self) -> bool:
        """Releases it. Returns false if it was lost or over before."""
        with self._mutex:
            if self._timer:
                self._timer.cancel()
            is_over = self._is_over
        return self.hold.release() and not is_over


class _ThreadState(threading.local):
    """State of a lock in the running thread."""

    token: bytes | None = None
    held: _Held | None = None
    body: Body | None = None


class Lock(RedisLock):
    """Form of `redis.lock.Lock` over a lock of Leasehold. Make classes of it by `lock_class`.

    What differs from redis-py:

    - Waiters are served in order, and `sleep` has no effect.
    - Without a `timeout`, the lock ends with the process. With one, it ends by then, as in redis-py: this process releases it.
    - `owned` reads this process's clock, and asks nobody. `locked` uses a call of operators.
    - A client that is closed has `owned` be false, and waits for the end of `with` blocks, at most for its `close_timeout`.
    - A thread that waits without a bound, within a `with` block, for the lock of that block gets `LockError` at once.
    - `hold` has what redis-py has not: the fencing token, `check()`, and `lost`.

    Where no coordinator can be reached, `redis.exceptions.ConnectionError` is raised.
    """

    client: ClassVar[sync.Client]
    """The client that holds the locks of this class."""

    def __init__(
        self,
        redis: Any,
        name: str | bytes,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        """Makes a lock that is not acquired. The arguments are those of `redis.lock.Lock`; `redis` is not used, and may be none."""
        name = name.decode() if isinstance(name, bytes) else name
        super().__init__(redis, name, timeout, sleep, blocking, blocking_timeout, thread_local, raise_on_release_error)
        self.local = _ThreadState() if self.thread_local else SimpleNamespace(token=None, held=None, body=None)

    def register_scripts(self) -> None:
        """Does nothing: no script is needed."""

    @property
    def hold(self) -> sync.Hold | None:
        """The hold of Leasehold; none while it is not acquired."""
        held: _Held | None = self.local.held
        return held.hold if held else None

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquires it, and returns whether it did. The token is shown to operators as the value of the hold."""
        if blocking is None:
            blocking = self.blocking
        if blocking_timeout is None:
            blocking_timeout = self.blocking_timeout
        value = token.encode() if isinstance(token, str) else token or uuid.uuid4().hex.encode()
        length = nanos(self.timeout, "timeout") if self.timeout else None
        wait = blocking_timeout if blocking else 0
        # As in redis-py, a flow may wait for itself; but not for ever.
        actor = None if wait is None else Actor()
        with self._translated():
            try:
                hold = self.client.lock(self.name, wait=wait, value=value, actor=actor).acquire()
            except (Busy, TimedOut):
                return False
        self.local.token, self.local.held = value, _Held(hold, length)
        return True

    def __enter__(self) -> Self:
        """Acquires it for a block, whose end a close of the client waits for. Raises `LockError` if it did not come free in time."""
        super().__enter__()
        hold = self.hold
        assert hold
        try:
            with self._translated():
                self.local.body = Body(hold._inner._bodies, [hold])
        except LockError:
            self.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Releases it, and ends the block."""
        body, self.local.body = self.local.body, None
        try:
            super().__exit__(kind, error, traceback)
        finally:
            if body:
                body.end()

    def locked(self) -> bool:
        """Returns whether anybody holds it."""
        with self._translated():
            return self.client.admin.get_lock(self.name).holder_count > 0

    def owned(self) -> bool:
        """Returns whether this lock is held, with a thread-local token by the running thread."""
        held: _Held | None = self.local.held
        return held is not None and held.is_held

    def do_release(self, expected_token: str | bytes) -> None:
        """Releases it. Raises `LockNotOwnedError` if it was lost or over before."""
        held: _Held | None = self.local.held
        self.local.held = None
        with self._translated():
            if held is None or not held.release():
                raise LockNotOwnedError("Cannot release a lock that's no longer owned", lock_name=self.name)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        """Moves the deadline. Raises `LockNotOwnedError` if it is not held any more."""
        held: _Held | None = self.local.held
        if held is None or not held.extend(nanos(additional_time, "additional_time"), replaces=replace_ttl):
            raise LockNotOwnedError("Cannot extend a lock that's no longer owned", lock_name=self.name)
        return True

    def do_reacquire(self) -> Literal[True]:
        """Sets the deadline to `timeout` from now. Raises `LockNotOwnedError` if it is not held any more."""
        held: _Held | None = self.local.held
        if held is None or not held.extend(nanos(self.timeout or 0, "timeout"), replaces=True):
            raise LockNotOwnedError("Cannot reacquire a lock that's no longer owned", lock_name=self.name)
        return True

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raises errors of this library as those of redis-py."""
        try:
            yield
        except LeaseholdError as error:
            is_cut_off = isinstance(error, Unavailable | Unconfirmed) or (isinstance(error, CallFailed) and error.failure.is_transport)
            if is_cut_off:
                raise RedisConnectionError(str(error)) from error
            raise LockError(str(error), lock_name=self.name) from error


def lock_class(client: sync.Client) -> type[Lock]:
    """Returns a class for `redis.lock(…, lock_class=…)`, whose locks are held through this client."""
    return type("Lock", (Lock,), {"client": client})
