"""Locks without a session, by single calls: holds that outlive the process, until their TTL has passed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from google.protobuf.message import Message

from . import _arguments as arguments
from ._calls import Answer, Calls, M
from ._client_name import client_name as default_name
from ._clock import SECOND, Seconds, from_wire, now, wire
from ._failure import protocol
from ._machine import LockSpec
from .errors import (
    AcquireError,
    Busy,
    CallFailed,
    ChangeRefused,
    ConnectError,
    HoldError,
    InvalidArgument,
    LockLost,
    LostReason,
    PermissionDenied,
    TimedOut,
    Unavailable,
    Unconfirmed,
    refused,
)
from .v1 import lock_pb2, types_pb2
from .views import Holder

__all__ = ["DetachedLock", "DetachedRequest"]

_SERVICE = "/leasehold.v1.LockService/"


class DetachedArguments(TypedDict, total=False):
    """Arguments of a detached lock."""

    ttl: Seconds | None
    """How long it lasts, 1 s to 1 h unless the coordinator is configured otherwise. Default: the coordinator's, 10 s."""
    wait: Seconds
    """Longest wait, at most 24 h. Default: 0."""
    value: bytes | str
    """Attached to the hold for others to see, at most 4 KiB. Default: empty."""
    lock_delay: Seconds
    """How long the lock stays closed if the TTL passes before a release. Default: 0."""
    client_name: str | None
    """Name of the holder, for operators, at most 256 bytes. Default: the client's."""
    request_key: str | None
    """16 to 128 bytes, random and secret: whoever asks with the same key takes over what an earlier request came to, for as long as that
    lasts. Default: another one for each acquire."""


@dataclass(frozen=True)
class DetachedOptions:
    """Checked arguments of a detached lock. Times are nanoseconds."""

    lock: LockSpec
    ttl: int | None
    wait: int
    value: bytes
    lock_delay: int
    client_name: str
    request_key: str | None

    @classmethod
    def of(
        cls,
        lock: str | LockSpec,
        named: str | None,
        *,
        ttl: Seconds | None = None,
        wait: Seconds = 0,
        value: bytes | str = b"",
        lock_delay: Seconds = 0,
        client_name: str | None = None,
        request_key: str | None = None,
    ) -> DetachedOptions:
        """Checks them. `named` is the client's own name."""
        return cls(
            arguments.lock(lock if isinstance(lock, LockSpec) else LockSpec(arguments.name(lock))),
            None if ttl is None else arguments.nanos(ttl, "ttl"),
            arguments.nanos(wait, "wait", longest=arguments.LONGEST_WAIT),
            arguments.value_bytes(value),
            arguments.nanos(lock_delay, "lock_delay"),
            (named or default_name()) if client_name is None else arguments.text(client_name, "client_name", arguments.LONGEST_TEXT),
            None if request_key is None else arguments.text(request_key, "request_key", 128, shortest=16),
        )


class DetachedRequestView:
    """What was asked for."""

    _options: DetachedOptions

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._options.lock.name

    def __repr__(self) -> str:
        """Shows the name."""
        return f"<{type(self).__name__} {self.name!r}>"


class DetachedRequest(DetachedRequestView):
    """Request for a lock that no session holds: nobody renews it but `DetachedLock.renew`. It may be used again."""

    def __init__(self, calls: Callable[[], Calls], options: DetachedOptions) -> None:
        """Makes it of a client's calls."""
        self._calls, self._options = calls, options

    async def acquire(self, *, timeout: Seconds | None = None) -> DetachedLock:
        """Acquires the lock. If the call is cancelled, a grant that crosses it is held until its TTL has passed.

        If a coordinator can't be reached, or its connection breaks before the answer, the client asks at every other address under the same
        key, and takes over what an earlier request came to.

        - `timeout`: longest wait of this acquire, at most 24 h, instead of `wait`.

        Raises an `AcquireError`, as `LockRequest.acquire`.
        """
        wait = self._options.wait if timeout is None else arguments.nanos(timeout, "timeout", longest=arguments.LONGEST_WAIT)
        key = self._options.request_key
        try:
            answer = await self._ask(key or str(uuid.uuid4()), wait)
        except PermissionDenied:
            if key:
                raise
            # Where the permissions bound holds, a coordinator takes no key: a repeated request would extend the hold.
            answer = await self._ask("", wait)
        reply = answer.reply
        holder = Holder._from(reply.holder) if reply.HasField("holder") else None
        match reply.outcome:
            case types_pb2.ACQUIRE_OUTCOME_GRANTED:
                lock = DetachedLock(self._calls, self.name, reply.fencing_token, reply.owner_id, self._options.ttl)
                lock._view.permits = (reply.permits or self._options.lock.permits) if self._options.lock.limit else None
                lock._view.held_until = answer.sent_at + from_wire(reply.ttl)
                # It waited: the TTL counts from the grant, which may have come just now, or a while ago.
                if lock.valid_for * 2 * SECOND < from_wire(reply.ttl):
                    try:
                        await lock.renew()
                    except HoldError:
                        pass
                return lock
            case types_pb2.ACQUIRE_OUTCOME_BUSY | types_pb2.ACQUIRE_OUTCOME_TIMED_OUT:
                # A request that is repeated at the end of its wait does not wait.
                raise TimedOut(self.name, wait / SECOND, holder) if wait else Busy(self.name, holder)
        raise refused(self.name, protocol(f"the coordinator answered outcome {reply.outcome}"))

    async def try_acquire(self) -> DetachedLock | None:
        """Returns the lock, or none if it is not free. Otherwise as `acquire`."""
        try:
            return await self.acquire(timeout=0)
        except Busy:
            return None

    async def _ask(self, key: str, wait: int) -> Answer[lock_pb2.AcquireResponse]:
        end = now() + wait

        def request() -> lock_pb2.AcquireRequest:
            options = self._options
            asked = lock_pb2.AcquireRequest(name=self.name, value=options.value, client_name=options.client_name, request_key=key)
            asked.wait.CopyFrom(wire(max(0, end - now())))
            asked.lock_delay.CopyFrom(wire(options.lock_delay))
            if options.ttl is not None:
                asked.ttl.CopyFrom(wire(options.ttl))
            options.lock._fill(asked)
            return asked

        try:
            return await self._calls().ask(_SERVICE + "Acquire", request, lock_pb2.AcquireResponse, repeats=bool(key), extra=wait)
        except CallFailed as error:
            raise _not_acquired(self.name, error) from None


def _not_acquired(name: str, error: CallFailed) -> AcquireError:
    if error.failure.is_transport:
        return Unavailable(name, ConnectError.broke(error.endpoint, error.failure))
    return refused(name, error.failure)


@dataclass
class _Granted:
    name: str
    token: int
    owner_id: bytes
    permits: int | None = None
    held_until: int = 0


class DetachedView:
    """State of a detached lock, by this process's own clock."""

    _view: _Granted

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._view.name

    @property
    def token(self) -> int:
        """The fencing token: pass it to what the lock protects, which must refuse smaller ones."""
        return self._view.token

    @property
    def owner_id(self) -> bytes:
        """The right to renew and to release it, for another process. Secret: keep it out of logs."""
        return self._view.owner_id

    @property
    def permits(self) -> int | None:
        """Permits of a semaphore that were granted; none for other locks, and for one that was attached."""
        return self._view.permits

    @property
    def valid_for(self) -> float:
        """Seconds until another client may have it; 0 once that has passed, and for one that was attached before it is renewed."""
        return max(0, self._view.held_until - now()) / SECOND

    @property
    def is_held(self) -> bool:
        """Whether it is held, by this process's own clock. What an operator did shows at the next renewal."""
        return self.valid_for > 0

    def __repr__(self) -> str:
        """Shows name and token."""
        return f"<{type(self).__name__} {self.name!r} token={self.token}>"


class DetachedLock(DetachedView):
    """Lock that no session holds. It outlives this process, until its TTL has passed, and only `renew` makes it last for longer."""

    def __init__(self, calls: Callable[[], Calls], name: str, token: int, owner_id: bytes, ttl: int | None) -> None:
        """Makes it of a grant, or of what another process says of it."""
        self._calls, self._ttl = calls, ttl
        arguments.instance(owner_id, bytes, "owner_id")
        if len(owner_id) != 16:
            raise InvalidArgument("owner_id", f"must have 16 bytes, not {len(owner_id)}")
        self._view = _Granted(arguments.name(name), arguments.whole(token, "token", 1, 2**63 - 1), owner_id)

    async def renew(self, *, ttl: Seconds | None = None) -> None:
        """Has it last for a full TTL from now on.

        - `ttl`: another TTL than that of the request, for this and later renewals.

        Raises `LockLost` if it was lost, and another `HoldError` if no coordinator could renew it: then it lasts for as long as before, and
        perhaps for longer.
        """
        if ttl is not None:
            self._ttl = arguments.nanos(ttl, "ttl")
        request = lock_pb2.RenewRequest(name=self.name, owner_id=self.owner_id)
        if self._ttl is not None:
            request.ttl.CopyFrom(wire(self._ttl))
        answer = await self._ask("Renew", request, lock_pb2.RenewResponse)
        if not answer.reply.renewed:
            self._view.held_until = 0
            raise LockLost(self.name, self.token, LostReason.UNKNOWN)
        self._view.held_until = answer.sent_at + from_wire(answer.reply.ttl)

    async def release(self) -> bool:
        """Gives it back. Returns false if there was nothing to release.

        Raises a `HoldError` if no coordinator could release it: call it again, or the lock ends with its TTL.
        """
        request = lock_pb2.ReleaseRequest(name=self.name, owner_id=self.owner_id)
        answer = await self._ask("Release", request, lock_pb2.ReleaseResponse)
        self._view.held_until = 0
        # A repeated one finds nothing if the first was carried out.
        return answer.reply.released or answer.is_repeat

    async def _ask(self, method: str, request: Message, reply: type[M]) -> Answer[M]:
        try:
            return await self._calls().ask(_SERVICE + method, lambda: request, reply, repeats=True)
        except CallFailed as error:
            failed = Unconfirmed(self.name) if error.failure.is_transport else ChangeRefused(self.name, error.failure)
            raise failed from error
