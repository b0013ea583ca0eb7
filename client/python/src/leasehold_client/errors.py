"""Errors of this library. All derive from `LeaseholdError`."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ._failure import Failure, FieldViolation, invalid_field
from .views import Holder

__all__ = [
    "AcquireError",
    "AlreadyCandidate",
    "Busy",
    "CallFailed",
    "ChangeRefused",
    "ConnectError",
    "ConnectErrorKind",
    "CredentialsError",
    "Deadlock",
    "Failure",
    "FieldViolation",
    "ForceReleased",
    "Forked",
    "HoldError",
    "InvalidArgument",
    "LeaseholdError",
    "LimitMismatch",
    "LimitReached",
    "LockLost",
    "LockSuspended",
    "LostReason",
    "MonkeyPatched",
    "PermissionDenied",
    "Refused",
    "SelfDeadlock",
    "SessionClosed",
    "StoreUnavailable",
    "TimedOut",
    "Unauthenticated",
    "Unavailable",
    "Unconfirmed",
    "UpgradeRefused",
]


class LostReason(Enum):
    """Reason for which a lock is no longer held."""

    EXPIRED = "expired"
    """The lease ran out before it was renewed, by this process's own clock or the coordinator's."""
    DELETED = "deleted"
    """The lock was gone from the store before its time."""
    TAKEN = "taken"
    """Another client's lock was found in its place."""
    FORCED = "forced"
    """An operator force-released it."""
    SESSION_ENDED = "session_ended"
    """The stream to the coordinator ended, and every hold of the session with it."""
    SESSION_CLOSED = "session_closed"
    """This process closed the session."""
    RELEASED = "released"
    """This process released it, which is no loss."""
    UNKNOWN = "unknown"
    """The coordinator said that it was no longer held, but not why."""
    PERMISSION_REVOKED = "permission_revoked"
    """The client may not hold it any more."""
    UNAUTHENTICATED = "unauthenticated"
    """The client's identity expired or was removed, and no newer one came in time."""
    RESUMED = "resumed"
    """Another client that knew its owner id resumed it."""
    MAX_HOLD = "max_hold"
    """It was held for as long as it may be."""
    FORKED = "forked"
    """This process is a fork of the one that holds it."""


class LeaseholdError(Exception):
    """Base of all errors of this library. They can be pickled, as pools of processes need it."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns what makes it again, not by its own constructor's arguments, which it does not keep."""
        return _made_again, (type(self), self.args), vars(self)


class InvalidArgument(LeaseholdError, ValueError):
    """An argument is out of its bounds. Nothing was sent, and nothing else is affected. One of a wrong type raises `TypeError`."""

    is_retryable = False
    """Whether the same call may succeed later: no."""

    def __init__(self, field: str, description: str) -> None:
        """Makes the error of an argument, or of a part of one."""
        self.failure = invalid_field(field, description)
        """What a coordinator would have answered."""
        super().__init__(self.failure.message)


class Forked(LeaseholdError):
    """This process is the fork of one that used a client. Connect after the fork only, or start processes by spawn or forkserver."""


class MonkeyPatched(LeaseholdError):
    """gevent or eventlet has replaced the threads of this process, so that a client would freeze it. Use workers with threads."""

    def __init__(self, library: str, patch: str, instead: str) -> None:
        """Makes the error of what this library has replaced."""
        super().__init__(
            f"{library} has replaced the threads of this process ({patch}), and gRPC would freeze it: "
            f"use workers with threads or processes ({instead}), or a process that is not patched"
        )
        self.library = library
        """The library: `gevent` or `eventlet`."""


class CallFailed(LeaseholdError):
    """A call without a session failed."""

    def __init__(self, failure: Failure, endpoint: str = "") -> None:
        """Makes the error of a call to this endpoint."""
        super().__init__(f"the call to {endpoint} failed: {failure}" if endpoint else str(failure))
        self.failure = failure
        """The coordinator's answer, or why there is none."""
        self.endpoint = endpoint
        """The URL of the coordinator that was asked; empty if unknown."""

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.failure.is_retryable


class ConnectErrorKind(Enum):
    """Kind of a failure to open a session."""

    INVALID_ENDPOINT = "invalid_endpoint"
    CREDENTIALS = "credentials"
    TLS = "tls"
    MISMATCH = "mismatch"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    LIMIT_REACHED = "limit_reached"
    REFUSED = "refused"
    ENDED = "ended"


_REFUSALS = {
    "UNAUTHENTICATED": ConnectErrorKind.UNAUTHENTICATED,
    "PERMISSION_DENIED": ConnectErrorKind.PERMISSION_DENIED,
    "RESOURCE_EXHAUSTED": ConnectErrorKind.LIMIT_REACHED,
}


class ConnectError(LeaseholdError):
    """No coordinator could be reached, or none opened a session."""

    def __init__(self, kind: ConnectErrorKind, endpoint: str, message: str, failure: Failure | None = None) -> None:
        """Makes the error of an attempt at this endpoint."""
        super().__init__(message)
        self.kind = kind
        """What went wrong."""
        self.endpoint = endpoint
        """The URL of the coordinator."""
        self.failure = failure
        """The coordinator's answer, or the transport's error, if there is one."""

    @property
    def is_answer(self) -> bool:
        """Whether a coordinator answered."""
        return self.failure is not None and not self.failure.is_transport

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may succeed."""
        if self.kind in (ConnectErrorKind.UNREACHABLE, ConnectErrorKind.TIMED_OUT, ConnectErrorKind.ENDED):
            return True
        return self.failure is not None and self.failure.is_retryable

    @classmethod
    def broke(cls, endpoint: str, failure: Failure) -> ConnectError:
        """Returns the error of a connection or stream that ended with this failure."""
        if failure.is_foreign:
            return cls(ConnectErrorKind.MISMATCH, endpoint, f"the server at {endpoint} is no coordinator: {failure}", failure)
        if not failure.is_transport:
            kind = _REFUSALS.get(failure.code, ConnectErrorKind.REFUSED)
            return cls(kind, endpoint, f"the coordinator at {endpoint} refused to open a session: {failure}", failure)
        if failure.is_mismatch:
            what = f"the server at {endpoint} disagrees with the URL about TLS, or is no coordinator: {failure}"
            return cls(ConnectErrorKind.MISMATCH, endpoint, what, failure)
        if failure.is_tls:
            what = f"failed to encrypt the connection to {endpoint}: {failure}"
            return cls(ConnectErrorKind.TLS, endpoint, what, failure)
        return cls(ConnectErrorKind.UNREACHABLE, endpoint, f"failed to reach {endpoint}: {failure}", failure)

    @classmethod
    def timed_out(cls, endpoint: str, after: int) -> ConnectError:
        """Returns the error of a coordinator that did not answer within so many nanoseconds."""
        what = f"the coordinator at {endpoint} did not answer within {after / 1e9:.3g} s"
        return cls(ConnectErrorKind.TIMED_OUT, endpoint, what)

    @classmethod
    def ended(cls, endpoint: str) -> ConnectError:
        """Returns the error of a stream that ended without a word."""
        what = f"the coordinator at {endpoint} ended the stream before the session was open"
        return cls(ConnectErrorKind.ENDED, endpoint, what)


class CredentialsError(ConnectError):
    """A certificate, key or token can't be used."""

    def __init__(self, message: str) -> None:
        """Makes the error."""
        super().__init__(ConnectErrorKind.CREDENTIALS, "", message)


class AcquireError(LeaseholdError):
    """A lock was not acquired."""

    def __init__(self, name: str, message: str) -> None:
        """Makes the error of an acquire of this lock."""
        super().__init__(message)
        self.name = name
        """The lock's name; several are separated by commas."""

    @property
    def failure(self) -> Failure | None:
        """The coordinator's answer, if it refused the request."""
        return None

    @property
    def is_retryable(self) -> bool:
        """Whether the same acquire may succeed later."""
        return self.failure is not None and self.failure.is_retryable


class _NotFree(AcquireError):
    def __init__(self, name: str, message: str, holder: Holder | None) -> None:
        super().__init__(name, f"lock {name!r} {message}{_by(holder)}")
        self.holder = holder
        """The holder, if known."""

    @property
    def is_retryable(self) -> bool:
        """Whether the same acquire may succeed later: yes."""
        return True


class Busy(_NotFree):
    """Another client holds the lock, or waits for it, and the acquire was not to wait."""

    def __init__(self, name: str, holder: Holder | None) -> None:
        """Makes the error."""
        super().__init__(name, "is busy", holder)


class TimedOut(_NotFree, TimeoutError):
    """The lock did not come free within the wait."""

    def __init__(self, name: str, wait: float, holder: Holder | None) -> None:
        """Makes the error."""
        super().__init__(name, f"did not come free within {wait:g} s", holder)
        self.wait = wait
        """The wait, in seconds."""


class Refused(AcquireError):
    """The coordinator could not serve the acquire. Its subclasses are refusals that call for something of their own."""

    def __init__(self, name: str, failure: Failure) -> None:
        """Makes the error."""
        AcquireError.__init__(self, name, f"failed to acquire lock {name!r}: {failure}")
        self._failure = failure

    @property
    def failure(self) -> Failure:
        """The coordinator's answer."""
        return self._failure


class Unauthenticated(Refused):
    """The coordinator does not know who asks."""


class PermissionDenied(Refused):
    """The coordinator does not allow it."""


class LimitReached(Refused):
    """A limit of the coordinator is reached; `failure.retry_after` says when to ask again."""


class SelfDeadlock(Refused):
    """The actor holds the lock already, or waits for it."""


class UpgradeRefused(Refused):
    """The actor holds the lock in a weaker mode."""


class LimitMismatch(Refused):
    """The semaphore is in use with another limit."""

    @property
    def limit(self) -> int:
        """The limit in force; 0 if the coordinator did not say."""
        limit = self.failure.metadata.get("limit", "")
        return int(limit) if limit.isdecimal() else 0


class Deadlock(Refused):
    """The wait was part of a deadlock. Release what the actor holds, and begin again."""


class ForceReleased(Refused):
    """An operator ended the wait."""


class Unavailable(AcquireError):
    """No coordinator was connected, or none answered within the wait; or its store is down, see `StoreUnavailable`."""

    def __init__(self, name: str, source: ConnectError | None) -> None:
        """Makes the error."""
        why = f": {source}" if source else ""
        super().__init__(name, f"failed to acquire lock {name!r}: no connection to a coordinator{why}")
        self.source = source
        """Why there is no connection, if known."""

    @property
    def is_retryable(self) -> bool:
        """Whether the same acquire may succeed later."""
        return self.source is None or self.source.is_retryable


class StoreUnavailable(Refused, Unavailable):
    """A coordinator answered that its store is down, and the acquire was not to wait, or waited for as long as it may."""

    # There is a connection.
    source = None


class SessionClosed(AcquireError):
    """The client or its session was closed, is being closed, or a fault ended it, which the log has. Make another client."""

    def __init__(self, name: str, what: str = "") -> None:
        """Makes the error. The name is empty if no lock was asked for."""
        said = f"failed to acquire lock {name!r}: the session was closed" if name else "the client was closed"
        super().__init__(name, what or said)

    @classmethod
    def stopping(cls, names: str) -> SessionClosed:
        """Returns the error of a body that is to end, because the client is being closed."""
        return cls(names, f"the client is being closed, and waits for the end of the work under lock {names}")


class AlreadyCandidate(AcquireError):
    """The session campaigns for the election already, or leads it."""

    def __init__(self, name: str) -> None:
        """Makes the error."""
        super().__init__(name, f"this session campaigns for election {name!r} already, or leads it")


class HoldError(LeaseholdError):
    """A hold is not as the caller needs it, or could not be changed."""

    def __init__(self, name: str, message: str) -> None:
        """Makes the error of a hold of this lock."""
        super().__init__(message)
        self.name = name
        """The lock's name."""


class LockLost(HoldError):
    """The lock is lost. That is final: stop the work, and acquire anew if you want the lock again."""

    def __init__(self, name: str, token: int, reason: LostReason) -> None:
        """Makes the error."""
        super().__init__(name, f"lock {name!r} (token {token}) is lost: {reason.value}")
        self.token = token
        """The fencing token of the hold."""
        self.reason = reason
        """Why it was lost."""


class LockSuspended(HoldError):
    """The session's stream broke, and the lock may yet be resumed: it counts as not held, and is not lost."""

    def __init__(self, name: str) -> None:
        """Makes the error."""
        super().__init__(name, f"lock {name!r} is suspended: do not act on it until it is resumed or lost")


class Unconfirmed(HoldError):
    """No coordinator confirmed a release or a change in time. A release goes on in the background."""

    def __init__(self, name: str) -> None:
        """Makes the error."""
        super().__init__(name, f"no coordinator confirmed the request about lock {name!r}")


class ChangeRefused(HoldError):
    """The coordinator could not carry out a release or a change."""

    def __init__(self, name: str, failure: Failure) -> None:
        """Makes the error."""
        super().__init__(name, f"the request about lock {name!r} was refused: {failure}")
        self.failure = failure
        """The coordinator's answer."""


def _made_again(kind: type[LeaseholdError], said: tuple[Any, ...]) -> LeaseholdError:
    error = kind.__new__(kind)
    error.args = said
    return error


_BY_REASON: dict[str, type[Refused]] = {
    "SELF_DEADLOCK": SelfDeadlock,
    "UPGRADE_REFUSED": UpgradeRefused,
    "DEADLOCK": Deadlock,
    "FORCE_RELEASED": ForceReleased,
    "LIMIT_MISMATCH": LimitMismatch,
}
_BY_CODE: dict[str, type[Refused]] = {
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
    "RESOURCE_EXHAUSTED": LimitReached,
    "UNAVAILABLE": StoreUnavailable,
}


def refused(name: str, failure: Failure) -> Refused:
    """Returns the error of an acquire that a coordinator refused."""
    kind = _BY_REASON.get(failure.reason) or _BY_CODE.get(failure.code) or Refused
    return kind(name, failure)


def unconnected(name: str, source: ConnectError | None) -> AcquireError:
    """Returns the error of an acquire that no coordinator answered."""
    if source and source.failure and source.kind is ConnectErrorKind.UNAUTHENTICATED:
        return Unauthenticated(name, source.failure)
    if source and source.failure and source.kind is ConnectErrorKind.PERMISSION_DENIED:
        return PermissionDenied(name, source.failure)
    return Unavailable(name, source)


def _by(holder: Holder | None) -> str:
    if holder is None:
        return ""
    if holder.foreign:
        return ": held by a program that does not use Leasehold"
    if holder.client_name:
        return f": held by {holder.client_name!r}"
    if holder.session_id:
        return f": held by session {holder.session_id}"
    return ": held by a caller without a session"
