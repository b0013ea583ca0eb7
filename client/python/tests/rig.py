"""A session's machine without a driver, on virtual time in milliseconds, with everything that it asks for as plain words."""

from __future__ import annotations

import itertools
from typing import Any

from leasehold_client import _lease
from leasehold_client._clock import MILLISECOND, from_wire, wire
from leasehold_client._machine import (
    Acquired,
    AcquireSpec,
    Draining,
    Ended,
    Granted,
    HangUp,
    HoldDone,
    HoldResult,
    Leave,
    LockSpec,
    Machine,
    Opened,
    Send,
)
from leasehold_client._machine.spec import Change
from leasehold_client.errors import AcquireError, LostReason
from leasehold_client.v1 import session_pb2, types_pb2

TTL, INTERVAL, VALID = 10_000, 3_000, 9_900


class Rig:
    """A session under test. Owner ids that it makes are the bytes `n1`, `n2`, …"""

    def __init__(self, grace: int = 0) -> None:
        """Makes a session without a stream."""
        numbers = itertools.count(1)
        open = session_pb2.SessionOpen(client_name="rig")
        open.disconnect_grace.CopyFrom(wire(grace * MILLISECOND))
        self.machine = Machine(5000 * MILLISECOND, open, lambda: b"n%d" % next(numbers))
        self.stream = 0
        self.granted: list[Granted] = []
        self.answers: list[tuple[int, Any]] = []
        self.sent: list[tuple[int, session_pb2.SessionRequest]] = []

    @classmethod
    def opened(cls, grace: int = 0) -> Rig:
        """Returns a session that was opened at 0. The `open` was request 1."""
        rig = cls(grace)
        rig.connect(0)
        rig.open(0)
        return rig

    def connect(self, now: int) -> list[str]:
        """Makes a connection, and returns what it asks for."""
        self.stream = self.machine.connected(now * MILLISECOND, "http://test")
        return self.seen()

    def open(self, now: int, **fields: Any) -> list[str]:
        """Answers the `open` of the newest stream."""
        opened = session_pb2.SessionOpened(session_id="s", coordinator="c", **fields)
        opened.ttl.CopyFrom(wire(TTL * MILLISECOND))
        opened.heartbeat_interval.CopyFrom(wire(INTERVAL * MILLISECOND))
        return self.say(now, 1, opened=opened)

    def resume(self, now: int, *ids: bytes, **fields: Any) -> list[str]:
        """Answers the `open` of the newest stream: these holds are resumed."""
        resumed = []
        for one in ids:
            lock = session_pb2.ResumedLock(owner_id=one)
            lock.hold.fencing_token = 7
            resumed.append(lock)
        return self.open(now, resumed=resumed, valid_for=wire(VALID * MILLISECOND), **fields)

    def say(self, now: int, request_id: int = 0, stream: int | None = None, **response: Any) -> list[str]:
        """Gives it a message, and returns what it asks for."""
        message = session_pb2.SessionResponse(request_id=request_id, **response)
        self.machine.message(now * MILLISECOND, self.stream if stream is None else stream, message)
        return self.seen()

    def acquire(self, now: int, number: int, **spec: Any) -> list[str]:
        """Acquires `lock<number>`, or the given locks."""
        locks = spec.pop("locks", (LockSpec(f"lock{number}"),))
        wait = spec.pop("wait", None)
        delay = spec.pop("lock_delay", 0)
        asked = AcquireSpec(
            locks,
            len(locks) > 1,
            None if wait is None else wait * MILLISECOND,
            lock_delay=delay * MILLISECOND,
            **spec,
        )

        def reply(result: list[Granted] | AcquireError) -> None:
            self.answers.append((number, result))

        self.machine.acquire(now * MILLISECOND, number, asked, reply)
        return self.seen()

    def grant(
        self, now: int, request_id: int, *locks: tuple[str, bytes], acked: int = 0, stream: int | None = None, **fields: Any
    ) -> list[str]:
        """Grants locks, by their names and owner ids."""
        granted = session_pb2.SessionGranted(acked_heartbeat=acked, valid_for=wire(VALID * MILLISECOND), **fields)
        for name, owner_id in locks:
            granted.locks.add(name=name, owner_id=owner_id, fencing_token=7, hold_count=1)
        return self.say(now, request_id, stream, granted=granted)

    def hold(self, now: int, number: int, owner_id: bytes, acked: int = 0, **spec: Any) -> _lease.Lease:
        """Acquires `lock<number>` and has it granted. Returns its lease."""
        asked = self.acquire(now, number, **spec)
        request_id = int(asked[-1].split()[1])
        self.grant(now, request_id, (f"lock{number}", owner_id), acked=acked)
        return self.granted[-1].lease

    def release(self, now: int, index: int) -> list[str]:
        """Releases a hold as its user does: ends its lease first."""
        one = self.granted[index]
        one.lease.end(now * MILLISECOND, LostReason.RELEASED)
        self.machine.release(now * MILLISECOND, one.key, "", lambda result: self.done(index, result))
        return self.seen()

    def change(self, now: int, index: int, change: Change) -> list[str]:
        """Changes a hold."""
        self.machine.change(now * MILLISECOND, self.granted[index].key, change, "", lambda result: self.done(index, result))
        return self.seen()

    def done(self, index: int, result: HoldResult) -> None:
        """Notes the outcome of a release or change."""
        self.answers.append((index, result))

    def ack(self, now: int, sequence: int, valid_for: int = VALID, next_within: int | None = None) -> list[str]:
        """Answers a heartbeat."""
        ack = session_pb2.SessionHeartbeatAck(acked_heartbeat=sequence, valid_for=wire(valid_for * MILLISECOND))
        if next_within is not None:
            ack.next_within.CopyFrom(wire(next_within * MILLISECOND))
        return self.say(now, heartbeat=ack)

    def drain(self, now: int) -> list[str]:
        """Says that the coordinator goes away in five seconds."""
        return self.say(now, draining=session_pb2.SessionDraining(deadline=wire(5000 * MILLISECOND)))

    def ask_to_move(self, now: int) -> list[str]:
        """Says that the session is to move, and that the coordinator goes on serving."""
        draining = session_pb2.SessionDraining(deadline=wire(5000 * MILLISECOND), keeps_serving=True)
        return self.say(now, draining=draining)

    def tick(self, now: int) -> list[str]:
        """Lets time pass, and returns what it asks for."""
        self.machine.tick(now * MILLISECOND)
        return self.seen()

    def alarm(self) -> int | None:
        """Returns when it wants to be called."""
        alarm = self.machine.alarm()
        return None if alarm is None else alarm // MILLISECOND

    def seen(self) -> list[str]:
        """Returns what it asks for since the last call."""
        seen: list[str] = []
        while (output := self.machine.next_output()) is not None:
            match output:
                case Send(stream, request):
                    self.sent.append((stream, request))
                    seen.append(words(request))
                case Acquired(reply, result):
                    reply(result)
                    if isinstance(result, list):
                        self.granted += result
                        seen.append("acquired")
                    else:
                        seen.append(type(result).__name__)
                case HoldDone(done, outcome):
                    done(outcome)
                    said = outcome.name if isinstance(outcome, LostReason) else outcome
                    seen.append(f"done {said}")
                case Opened():
                    seen.append("opened")
                case Draining():
                    seen.append("draining")
                case HangUp():
                    seen.append("hang up")
                case Leave():
                    seen.append("leave")
                case Ended():
                    seen.append("ended")
        return seen

    def resumes(self) -> list[session_pb2.SessionResume]:
        """Returns what the last `open` asked to take over."""
        return list(next(request.open.resume for _, request in reversed(self.sent) if request.HasField("open")))


def words(request: session_pb2.SessionRequest) -> str:
    """Returns a request in words."""
    kind = request.WhichOneof("request") or ""
    match kind:
        case "acquire":
            wait = f" wait {from_wire(request.acquire.wait) // MILLISECOND}" if request.acquire.HasField("wait") else ""
            return f"acquire {request.request_id}{wait}"
        case "cancel":
            return f"cancel {request.cancel.acquire_request_id}"
        case "release":
            return f"release {request.release.owner_id.decode()}"
        case "heartbeat":
            return f"heartbeat {request.heartbeat.sequence}"
        case _:
            return kind


def lost(*locks: bytes, reason: types_pb2.LostReason = types_pb2.LOST_REASON_FORCED) -> dict[str, Any]:
    """Returns the message that these locks are lost."""
    return {"lost": session_pb2.SessionLost(locks=[session_pb2.LostLock(owner_id=one, reason=reason) for one in locks])}


def reason(lease: _lease.Lease, now: int) -> LostReason | None:
    """Returns why a lease is lost."""
    return lease.lost(now * MILLISECOND)


def ms(lease: _lease.Lease, now: int) -> int | None:
    """Returns the deadline of a lease."""
    deadline = lease.deadline(now * MILLISECOND)
    return None if deadline is None else deadline // MILLISECOND


def failure(code: int, why: str = "") -> dict[str, Any]:
    """Returns a refusal."""
    return {"error": session_pb2.SessionFailure(code=code, reason=why)}


def queued(ticket: bytes) -> dict[str, Any]:
    """Returns the message of a place in a queue."""
    return {"queued": session_pb2.SessionQueued(position=1, ticket=ticket)}
