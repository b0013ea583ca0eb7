"""Client of Leasehold, a lock coordinator with streaming leases.

`connect` returns a client for asyncio; `leasehold_client.sync` has the same for threads.

    async with leasehold_client.connect("http://127.0.0.1:7420") as client:
        async with client.lock("orders/42", wait=5) as lock:  # a loss cancels the body and raises LockLost
            await work(lock.token)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _fork as _fork  # before gRPC
from ._version import VERSION
from .actor import Actor
from .admin import Admin, Gap, Ready, Watcher
from .client import Client, Tls, connect
from .detached import DetachedLock, DetachedRequest
from .election import Election, Leadership, Observer, Term
from .errors import (
    AcquireError,
    AlreadyCandidate,
    Busy,
    CallFailed,
    ChangeRefused,
    ConnectError,
    ConnectErrorKind,
    CredentialsError,
    Deadlock,
    Failure,
    FieldViolation,
    ForceReleased,
    Forked,
    HoldError,
    InvalidArgument,
    LeaseholdError,
    LimitMismatch,
    LimitReached,
    LockLost,
    LockSuspended,
    LostReason,
    MonkeyPatched,
    PermissionDenied,
    Refused,
    SelfDeadlock,
    SessionClosed,
    StoreUnavailable,
    TimedOut,
    Unauthenticated,
    Unavailable,
    Unconfirmed,
    UpgradeRefused,
)
from .hold import Hold, Holds, LockState, ReleaseRequest
from .request import LockRequest, LockSpec, Semaphore
from .session import Session, SessionInfo
from .views import (
    CertificateView,
    CoordinatorView,
    EndedSession,
    EventKind,
    Holder,
    Leader,
    LeaderChange,
    LimitView,
    LockEvent,
    LockMode,
    LockView,
    PermissionView,
    SessionView,
    Waiter,
)

__version__ = VERSION

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports a module of the package when it is first used. Those of adapters need their extras."""
        if name in ("apscheduler", "celery", "opentelemetry", "redis", "sync", "testing", "tooz"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AcquireError",
    "Actor",
    "Admin",
    "AlreadyCandidate",
    "Busy",
    "CallFailed",
    "CertificateView",
    "ChangeRefused",
    "Client",
    "ConnectError",
    "ConnectErrorKind",
    "CoordinatorView",
    "CredentialsError",
    "Deadlock",
    "DetachedLock",
    "DetachedRequest",
    "Election",
    "EndedSession",
    "EventKind",
    "Failure",
    "FieldViolation",
    "ForceReleased",
    "Forked",
    "Gap",
    "Hold",
    "HoldError",
    "Holder",
    "Holds",
    "InvalidArgument",
    "Leader",
    "LeaderChange",
    "Leadership",
    "LeaseholdError",
    "LimitMismatch",
    "LimitReached",
    "LimitView",
    "LockEvent",
    "LockLost",
    "LockMode",
    "LockRequest",
    "LockSpec",
    "LockState",
    "LockSuspended",
    "LockView",
    "LostReason",
    "MonkeyPatched",
    "Observer",
    "PermissionDenied",
    "PermissionView",
    "Ready",
    "Refused",
    "ReleaseRequest",
    "SelfDeadlock",
    "Semaphore",
    "Session",
    "SessionClosed",
    "SessionInfo",
    "SessionView",
    "StoreUnavailable",
    "Term",
    "TimedOut",
    "Tls",
    "Unauthenticated",
    "Unavailable",
    "Unconfirmed",
    "UpgradeRefused",
    "Waiter",
    "Watcher",
    "connect",
]
