"""Administration: what operators see of locks, sessions and coordinators, and how they intervene."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from . import _arguments as arguments
from ._blocks import Ends
from ._calls import Calls, Feed
from ._clock import Seconds, wire
from .v1 import admin_pb2
from .views import CoordinatorView, EndedSession, LockEvent, LockView, SessionView

__all__ = ["Admin", "Gap", "Ready", "Watcher"]

_SERVICE = "/leasehold.v1.AdminService/"


@dataclass(frozen=True)
class Ready:
    """The snapshot is complete: locks that were not in it are free."""

    lock_count: int
    """Number of locks in it."""


@dataclass(frozen=True)
class Gap:
    """Events may have been missed: forget the state of all locks. A snapshot follows."""

    message: str
    """The reason, for people."""


class Watcher(Ends):
    """Changes of locks: a snapshot of `LockView`s, `Ready`, then every `LockEvent`, with a `Gap` before another snapshot."""

    def __init__(self, calls: Calls, prefix: str) -> None:
        """Makes a watcher, which asks for nothing before it is read."""
        self._has_begun = False
        self._is_broken = False
        request = admin_pb2.WatchLocksRequest(prefix=prefix)
        self._feed = Feed(calls, _SERVICE + "WatchLocks", request, admin_pb2.WatchLocksResponse, self._broke)
        self._pending: LockView | LockEvent | Ready | Gap | None = None

    def _broke(self) -> None:
        self._is_broken = self._has_begun

    async def __anext__(self) -> LockView | LockEvent | Ready | Gap:
        """Waits for the next change. Raises `CallFailed` if a coordinator refuses the watcher."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            return pending
        while (message := await self._feed.next()) is not None:
            change = _change(message)
            if change is None:
                continue
            self._has_begun = True
            if self._is_broken:
                self._is_broken = False
                if not isinstance(change, Gap):
                    self._pending = change
                    return Gap("the connection broke")
            return change
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the watcher."""
        await self._feed.close()


def _change(message: admin_pb2.WatchLocksResponse) -> LockView | LockEvent | Ready | Gap | None:
    match message.WhichOneof("response"):
        case "lock":
            return LockView._from(message.lock)
        case "ready":
            return Ready(message.ready.lock_count)
        case "event":
            return LockEvent._from(message.event)
        case "gap":
            return Gap(message.gap.message)
    # What a newer coordinator says besides is not for us.
    return None


class Admin:
    """Calls of operators. Every method raises `CallFailed`."""

    def __init__(self, calls: Callable[[], Calls]) -> None:
        """Makes it of what returns a client's calls."""
        self._all_calls = calls

    @property
    def _calls(self) -> Calls:
        return self._all_calls()

    async def get_lock(self, name: str) -> LockView:
        """Returns one lock. A free name is shown as free."""
        request = admin_pb2.GetLockRequest(name=arguments.name(name))
        answer = await self._calls.call(_SERVICE + "GetLock", request, admin_pb2.GetLockResponse, repeats=True)
        return LockView._from(answer.lock)

    async def list_locks(self, prefix: str = "") -> AsyncIterator[LockView]:
        """Yields the locks whose names begin with the prefix, without their waiters: a scan, unordered."""
        page = ""
        while True:
            request = admin_pb2.ListLocksRequest(prefix=prefix, page_token=page)
            answer = await self._calls.call(_SERVICE + "ListLocks", request, admin_pb2.ListLocksResponse, repeats=True)
            for lock in answer.locks:
                yield LockView._from(lock)
            page = answer.next_page_token
            if not page:
                return

    async def list_sessions(self) -> list[SessionView]:
        """Returns the sessions of the coordinator that answers."""
        sessions: list[SessionView] = []
        page = ""
        while True:
            request = admin_pb2.ListSessionsRequest(page_token=page)
            answer = await self._calls.call(_SERVICE + "ListSessions", request, admin_pb2.ListSessionsResponse, repeats=True)
            sessions += [SessionView._from(session) for session in answer.sessions]
            page = answer.next_page_token
            if not page:
                return sessions

    async def force_release(self, name: str, *, token: int | None = None, waiter: int | None = None) -> bool:
        """Takes a lock from its holders, or from the one with this token; or ends the wait of the waiter of this number.

        Returns whether there was such a holder or waiter.
        """
        request = admin_pb2.ForceReleaseRequest(name=arguments.name(name))
        if token is not None:
            request.fencing_token = token
        if waiter is not None:
            request.waiter_number = waiter
        answer = await self._calls.call(_SERVICE + "ForceRelease", request, admin_pb2.ForceReleaseResponse, repeats=False)
        return answer.released

    async def request_release(self, name: str, *, token: int = 0, reason: str = "", within: Seconds | None = None) -> int:
        """Asks the holders of a lock, or the one with this token, to release it. Returns how many were asked."""
        request = admin_pb2.RequestReleaseRequest(name=arguments.name(name), fencing_token=token, reason=reason)
        if within is not None:
            request.within.CopyFrom(wire(arguments.nanos(within, "within")))
        answer = await self._calls.call(_SERVICE + "RequestRelease", request, admin_pb2.RequestReleaseResponse, repeats=False)
        return answer.asked_count

    async def end_session(self, session_id: str) -> EndedSession:
        """Ends a session with all that it has, at whichever coordinator it is."""
        request = admin_pb2.EndSessionRequest(session_id=session_id)
        answer = await self._calls.call(_SERVICE + "EndSession", request, admin_pb2.EndSessionResponse, repeats=True)
        return EndedSession._from(answer)

    async def check_token(self, name: str, token: int) -> bool:
        """Returns whether a fencing token is still the newest of its name."""
        request = admin_pb2.CheckTokenRequest(name=arguments.name(name), fencing_token=token)
        answer = await self._calls.call(_SERVICE + "CheckToken", request, admin_pb2.CheckTokenResponse, repeats=True)
        return answer.current

    async def status(self) -> CoordinatorView:
        """Returns the status of the coordinator that answers."""
        answer = await self._calls.call(_SERVICE + "GetStatus", admin_pb2.GetStatusRequest(), admin_pb2.GetStatusResponse, repeats=True)
        return CoordinatorView._from(answer)

    def watch(self, prefix: str = "") -> Watcher:
        """Returns a watcher of the locks whose names begin with the prefix."""
        return Watcher(self._calls, prefix)
