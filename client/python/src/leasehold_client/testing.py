"""Coordinator for unit tests, within the process of the test, which speaks the protocol to the real client.

    with Coordinator() as coordinator, leasehold_client.sync.connect(coordinator.url) as client:
        with client.lock("orders/42") as lock:
            coordinator.lose("orders/42")
            assert lock.lost.wait(5)

It has exclusive and shared locks, permits of semaphores, several locks at once, queues in the order of the requests, reentrant holds,
values, rising tokens, campaigns and the leader of an election, and it releases what a session held that has ended. It has no resumes after
a broken connection, no `disconnect_grace`, `lock_delay` or `max_hold`, no deadlocks of several actors, no permissions, and of the calls
without a session only those for one lock and for a leader: a client's `observe`, `watch` and `detached_lock` fail.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import grpc

from ._clock import SECOND, from_wire, wire
from ._transport import check_process
from .v1 import admin_pb2, election_pb2, session_pb2, types_pb2
from .views import LockView

__all__ = ["Coordinator"]

_DEFAULT_TTL = 10 * SECOND

Spec = session_pb2.LockSpec


class _Session:
    """A session, with the messages to send on its stream."""

    def __init__(self, number: int) -> None:
        self.id = f"session-{number}"
        self.client_name = ""
        self.ttl, self.heartbeat = _DEFAULT_TTL, 0
        self.messages: queue.SimpleQueue[session_pb2.SessionResponse | None] = queue.SimpleQueue()

    def say(self, request_id: int = 0, **message: Any) -> None:
        self.messages.put(session_pb2.SessionResponse(request_id=request_id, **message))

    def refuse(self, request_id: int, code: grpc.StatusCode, reason: str, message: str, **metadata: str) -> None:
        failure = session_pb2.SessionFailure(code=code.value[0], reason=reason, message=message, metadata=metadata)
        self.say(request_id, error=failure)


@dataclass
class _Held:
    """A hold of a lock."""

    session: _Session
    spec: Spec
    actor: int
    value: bytes
    token: int
    permits: int
    owner_id: bytes = field(default_factory=lambda: os.urandom(16))
    count: int = 1


@dataclass
class _Waiting:
    """An acquire that has not been answered."""

    session: _Session
    request_id: int
    asked: session_pb2.SessionAcquire
    specs: list[Spec]
    timer: threading.Timer | None = None


def _specs(asked: session_pb2.SessionAcquire) -> list[Spec]:
    if asked.locks:
        return list(asked.locks)
    one = Spec(permits=asked.permits, limit=asked.limit, permits_at_least=asked.permits_at_least)
    one.mode = asked.mode or types_pb2.LOCK_MODE_EXCLUSIVE
    specs = []
    for name in list(asked.names) or [asked.name]:
        one.name = name
        specs.append(Spec.FromString(one.SerializeToString()))
    return specs


class Coordinator:
    """Coordinator on a port of this machine that was free. Its locks are in memory, and end with it."""

    def __init__(self) -> None:
        """Makes a coordinator that does not serve yet; use it as a context manager."""
        self._mutex = threading.RLock()
        self._numbers, self._tokens = itertools.count(1), itertools.count(1)
        self._held: dict[str, list[_Held]] = {}
        # In the order in which they were asked for.
        self._waiting: list[_Waiting] = []
        self._sessions: set[_Session] = set()
        self._server: grpc.Server | None = None
        self.url = ""
        """The URL to connect to, once it serves."""

    def start(self) -> Self:
        """Begins to serve, and returns itself."""
        check_process()
        self._server = grpc.server(ThreadPoolExecutor(200), options=[("grpc.so_reuseport", 0)])
        served = grpc.stream_stream_rpc_method_handler(
            self._serve, session_pb2.SessionRequest.FromString, session_pb2.SessionResponse.SerializeToString
        )
        for service, method, handler in (
            ("LockService", "Session", served),
            ("AdminService", "GetLock", _unary(self._get_lock, admin_pb2.GetLockRequest)),
            ("ElectionService", "Leader", _unary(self._leader, election_pb2.LeaderRequest)),
        ):
            generic = grpc.method_handlers_generic_handler(f"leasehold.v1.{service}", {method: handler})
            self._server.add_generic_rpc_handlers((generic,))
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def close(self) -> None:
        """Ends it. Sessions that are still open lose their locks."""
        with self._mutex:
            for session in self._sessions:
                session.messages.put(None)
        if self._server:
            self._server.stop(0).wait()

    def __enter__(self) -> Self:
        """Begins to serve."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self.close()

    def lose(self, name: str) -> int:
        """Takes a lock from its holders, as an operator does, and returns how many there were. The next in the queue gets it."""
        with self._mutex:
            held = self._held.pop(name, [])
            for one in held:
                lost = session_pb2.LostLock(name=name, owner_id=one.owner_id, reason=types_pb2.LOST_REASON_FORCED)
                one.session.say(lost=session_pb2.SessionLost(locks=[lost]))
            self._grant()
            return len(held)

    def lock(self, name: str) -> LockView:
        """Returns a lock with its holders, and how many wait for it. A free name is shown as free."""
        return LockView._from(self._view(name))

    # Sessions.

    def _serve(self, requests: Iterator[session_pb2.SessionRequest], context: Any) -> Iterator[session_pb2.SessionResponse]:
        session = _Session(next(self._numbers))
        with self._mutex:
            self._sessions.add(session)
        threading.Thread(target=self._read, args=(session, requests), daemon=True).start()
        context.add_callback(lambda: session.messages.put(None))
        try:
            while (message := session.messages.get()) is not None:
                yield message
        finally:
            self._end(session)

    def _read(self, session: _Session, requests: Iterator[session_pb2.SessionRequest]) -> None:
        try:
            for request in requests:
                with self._mutex:
                    kind = request.WhichOneof("request")
                    handle: Callable[[_Session, int, Any], None] | None = getattr(self, f"_on_{kind}", None)
                    if handle:
                        handle(session, request.request_id, getattr(request, str(kind)))
        except grpc.RpcError:
            # The connection broke.
            pass
        session.messages.put(None)

    def _end(self, session: _Session) -> None:
        with self._mutex:
            self._sessions.discard(session)
            self._waiting = [one for one in self._waiting if one.session is not session]
            for name, held in list(self._held.items()):
                self._held[name] = [one for one in held if one.session is not session]
            self._grant()

    def _on_open(self, session: _Session, request_id: int, open: session_pb2.SessionOpen) -> None:
        session.client_name, session.ttl = open.client_name, from_wire(open.ttl) or _DEFAULT_TTL
        lost = [session_pb2.LostLock(name=one.name, owner_id=one.next_owner_id) for one in open.resume]
        opened = session_pb2.SessionOpened(session_id=session.id, coordinator="testing", refused=lost)
        opened.ttl.CopyFrom(wire(session.ttl))
        opened.heartbeat_interval.CopyFrom(wire(session.ttl // 3))
        session.say(request_id, opened=opened)

    def _on_heartbeat(self, session: _Session, request_id: int, beat: session_pb2.SessionHeartbeat) -> None:
        session.heartbeat = beat.sequence
        ack = session_pb2.SessionHeartbeatAck(acked_heartbeat=beat.sequence, valid_for=wire(session.ttl))
        session.say(request_id, heartbeat=ack)

    def _on_close(self, session: _Session, request_id: int, _: session_pb2.SessionClose) -> None:
        self._end(session)
        session.say(request_id, closed=session_pb2.SessionClosed())
        session.messages.put(None)

    def _on_acquire(self, session: _Session, request_id: int, asked: session_pb2.SessionAcquire) -> None:
        specs = _specs(asked)
        for spec in specs:
            held = self._held.get(spec.name, [])
            mine = next((one for one in held if asked.actor and (one.session, one.actor) == (session, asked.actor)), None)
            if mine and not asked.reentrant:
                what = f"actor {asked.actor} holds {spec.name!r} already and would wait for itself"
                return session.refuse(request_id, grpc.StatusCode.FAILED_PRECONDITION, "SELF_DEADLOCK", what)
            if mine:
                mine.count += 1
                return self._granted(session, request_id, [mine])
            other = next((one.spec.limit for one in held if one.spec.limit and spec.limit and one.spec.limit != spec.limit), None)
            if other:
                what = f"semaphore {spec.name!r} is in use with the limit {other}"
                return session.refuse(request_id, grpc.StatusCode.FAILED_PRECONDITION, "LIMIT_MISMATCH", what, limit=str(other))
        waiting = _Waiting(session, request_id, asked, specs)
        self._waiting.append(waiting)
        self._grant()
        if waiting in self._waiting:
            wait = from_wire(asked.wait) if asked.HasField("wait") else None
            if wait == 0:
                return self._give_up(waiting, types_pb2.ACQUIRE_OUTCOME_BUSY)
            session.say(request_id, queued=session_pb2.SessionQueued(position=len(self._waiting), ticket=os.urandom(16)))
            if wait is not None:
                waiting.timer = threading.Timer(wait / SECOND, self._give_up, (waiting, types_pb2.ACQUIRE_OUTCOME_TIMED_OUT))
                waiting.timer.daemon = True
                waiting.timer.start()

    def _give_up(self, waiting: _Waiting, outcome: types_pb2.AcquireOutcome) -> None:
        with self._mutex:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                holder = next((self._holder(one) for spec in waiting.specs for one in self._held.get(spec.name, [])), None)
                answer = session_pb2.SessionNotGranted(outcome=outcome, holder=holder)
                waiting.session.say(waiting.request_id, not_granted=answer)
                self._grant()

    def _on_cancel(self, session: _Session, _: int, cancel: session_pb2.SessionCancel) -> None:
        for one in list(self._waiting):
            if (one.session, one.request_id) == (session, cancel.acquire_request_id):
                self._give_up(one, types_pb2.ACQUIRE_OUTCOME_CANCELLED)

    def _grant(self) -> None:
        """Grants what is free, in the order of the requests: who waits is before all others that ask for one of its names."""
        claimed: set[str] = set()
        for waiting in list(self._waiting):
            names = {spec.name for spec in waiting.specs}
            fits = [self._free(spec) for spec in waiting.specs]
            if names & claimed or not all(fits):
                claimed |= names
                continue
            self._waiting.remove(waiting)
            if waiting.timer:
                waiting.timer.cancel()
            holds = []
            for spec, permits in zip(waiting.specs, fits, strict=True):
                asked = waiting.asked
                holds.append(_Held(waiting.session, spec, asked.actor, asked.value, next(self._tokens), permits if spec.limit else 0))
                self._held.setdefault(spec.name, []).append(holds[-1])
            self._granted(waiting.session, waiting.request_id, holds)

    def _free(self, spec: Spec) -> int:
        """Returns how many permits can be granted, or 1 if another lock can; 0 if it can't."""
        held = self._held.get(spec.name, [])
        if spec.mode == types_pb2.LOCK_MODE_SEMAPHORE:
            wanted = spec.permits or 1
            free = spec.limit - sum(one.permits for one in held)
            return min(wanted, free) if free >= (spec.permits_at_least or wanted) else 0
        shares = spec.mode == types_pb2.LOCK_MODE_SHARED and all(one.spec.mode == spec.mode for one in held)
        return int(shares or not held)

    def _granted(self, session: _Session, request_id: int, holds: list[_Held]) -> None:
        granted = session_pb2.SessionGranted(acked_heartbeat=session.heartbeat, valid_for=wire(session.ttl))
        for one in holds:
            granted.locks.add(name=one.spec.name, owner_id=one.owner_id, fencing_token=one.token, hold_count=one.count, permits=one.permits)
        session.say(request_id, granted=granted)

    def _find(self, owner_id: bytes, name: str) -> _Held | None:
        return next((one for one in self._held.get(name, []) if one.owner_id == owner_id), None)

    def _on_release(self, session: _Session, request_id: int, release: session_pb2.SessionRelease) -> None:
        held = self._find(release.owner_id, release.name)
        if held:
            held.count -= 1
            if held.count == 0:
                self._held[release.name].remove(held)
        session.say(request_id, released=session_pb2.SessionReleased(released=held is not None))
        self._grant()

    def _on_set_value(self, session: _Session, request_id: int, change: session_pb2.SessionSetValue) -> None:
        held = self._find(change.owner_id, change.name)
        if held:
            held.value = change.value
        session.say(request_id, value_set=session_pb2.SessionValueSet(value_set=held is not None))

    def _on_downgrade(self, session: _Session, request_id: int, change: session_pb2.SessionDowngrade) -> None:
        held = self._find(change.owner_id, change.name)
        if held:
            held.spec.mode = types_pb2.LOCK_MODE_SHARED
        session.say(request_id, downgraded=session_pb2.SessionDowngraded(downgraded=held is not None))
        self._grant()

    def _on_reduce(self, session: _Session, request_id: int, change: session_pb2.SessionReduce) -> None:
        held = self._find(change.owner_id, change.name)
        if held:
            held.permits = min(held.permits, change.permits)
        session.say(request_id, reduced=session_pb2.SessionReduced(reduced=held is not None))
        self._grant()

    # Views.

    def _holder(self, one: _Held) -> types_pb2.Holder:
        holder = types_pb2.Holder(session_id=one.session.id, client_name=one.session.client_name, coordinator="testing")
        holder.fencing_token, holder.value, holder.hold_count = one.token, one.value, one.count
        holder.permits, holder.actor = one.permits, one.actor
        return holder

    def _view(self, name: str) -> types_pb2.LockView:
        with self._mutex:
            held = self._held.get(name, [])
            waiting = [one for one in self._waiting if any(spec.name == name for spec in one.specs)]
            return types_pb2.LockView(
                name=name,
                mode=held[0].spec.mode if held else types_pb2.LOCK_MODE_UNSPECIFIED,
                holders=[self._holder(one) for one in held],
                holder_count=len(held),
                waiter_count=len(waiting),
                limit=held[0].spec.limit if held else 0,
                permits_taken=sum(one.permits for one in held),
            )

    def _get_lock(self, request: admin_pb2.GetLockRequest, _: Any) -> admin_pb2.GetLockResponse:
        return admin_pb2.GetLockResponse(lock=self._view(request.name))

    def _leader(self, request: election_pb2.LeaderRequest, _: Any) -> election_pb2.LeaderResponse:
        with self._mutex:
            held = next(iter(self._held.get(request.election, [])), None)
            if held is None:
                return election_pb2.LeaderResponse()
            leader = election_pb2.Leader(session_id=held.session.id, client_name=held.session.client_name, coordinator="testing")
            leader.fencing_token, leader.value = held.token, held.value
            return election_pb2.LeaderResponse(leader=leader)


def _encode(answer: Any) -> Any:
    return answer.SerializeToString()


def _unary(handle: Callable[[Any, Any], Any], request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(handle, request.FromString, _encode)
