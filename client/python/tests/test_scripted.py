"""A server that plays exact orders of messages, for what no real coordinator does when asked."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

import leasehold_client
from leasehold_client import LockState, LostReason, _session_loop
from leasehold_client._client_name import client_name, named
from leasehold_client._clock import MILLISECOND, SECOND, now, wire
from leasehold_client._endpoints import Candidate, parse
from leasehold_client._route import Pauses, Route
from leasehold_client.election import View
from leasehold_client.v1 import election_pb2, session_pb2, types_pb2

TTL = 3000


class Peer:
    """One stream of a client, as the server has it."""

    def __init__(self, call: Any) -> None:
        """Makes it of the call."""
        self.call = call
        self.metadata = {key: value for key, value in call.invocation_metadata()}
        self.heartbeats: list[int] = []

    async def read(self, kind: str | None = None) -> session_pb2.SessionRequest:
        """Returns the next request, or the next of this kind. Heartbeats are noted."""
        while True:
            read = await self.call.read()
            if read is grpc.aio.EOF:
                raise EOFError
            request: session_pb2.SessionRequest = read
            if request.HasField("heartbeat"):
                self.heartbeats.append(request.heartbeat.sequence)
            if kind is None or request.WhichOneof("request") == kind:
                return request

    async def say(self, request_id: int = 0, **response: Any) -> None:
        """Sends a message."""
        await self.call.write(session_pb2.SessionResponse(request_id=request_id, **response))

    async def open(self, ttl: int = TTL, **fields: Any) -> session_pb2.SessionOpen:
        """Reads the `open` and answers it. The TTL is in milliseconds."""
        request = await self.read("open")
        opened = session_pb2.SessionOpened(session_id="s", coordinator="c", **fields)
        opened.ttl.CopyFrom(wire(ttl * MILLISECOND))
        opened.heartbeat_interval.CopyFrom(wire(1000 * MILLISECOND))
        await self.say(request.request_id, opened=opened)
        return request.open

    async def grant(self, owner_id: bytes = b"o" * 16, acked: int = 0, valid_for: int = TTL - 100) -> session_pb2.SessionRequest:
        """Reads an acquire and grants it."""
        request = await self.read("acquire")
        granted = session_pb2.SessionGranted(acked_heartbeat=acked, valid_for=wire(valid_for * MILLISECOND))
        granted.locks.add(name=request.acquire.name, owner_id=owner_id, fencing_token=7, hold_count=1)
        await self.say(request.request_id, granted=granted)
        return request

    async def refuse(self, code: grpc.StatusCode, reason: str) -> None:
        """Ends the stream with a reason of Leasehold."""
        info = any_pb2.Any()
        info.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="leasehold"))
        status = status_pb2.Status(code=code.value[0], message=reason, details=[info])
        trailing = (("grpc-status-details-bin", status.SerializeToString()),)
        await self.call.abort(code, reason, trailing)


Script = Callable[[Peer], Awaitable[None]]


class Scripted:
    """A server that plays one script for each stream."""

    def __init__(self) -> None:
        """Makes a server without scripts."""
        self.scripts: asyncio.Queue[Script] = asyncio.Queue()
        self.failures: list[BaseException] = []
        self.url = ""

    async def serve(self, request_iterator: Any, context: Any) -> None:
        """Plays the next script."""
        try:
            await context.send_initial_metadata(())
            await (await self.scripts.get())(Peer(context))
        except (EOFError, asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except BaseException as error:
            self.failures.append(error)
            raise


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    """A scripted server."""
    script = Scripted()
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        script.serve,
        session_pb2.SessionRequest.FromString,
        session_pb2.SessionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("leasehold.v1.LockService", {"Session": handler}),))
    script.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield script
    await server.stop(0)
    assert script.failures == []


async def test_slow_answers_count_from_when_the_heartbeat_was_sent(scripted: Scripted) -> None:
    sent: list[int] = []
    go_on = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.open()
        await peer.grant()
        await peer.read("heartbeat")
        sent.append(now())
        await go_on.wait()
        ack = session_pb2.SessionHeartbeatAck(acked_heartbeat=1, valid_for=wire((TTL - 100) * MILLISECOND))
        await peer.say(heartbeat=ack)
        await peer.read("close")
        await peer.say(closed=session_pb2.SessionClosed())

    await scripted.scripts.put(play)
    async with leasehold_client.connect(scripted.url) as client, client.lock("a") as lock:
        granted = lock._lease.deadline(now())
        while not sent:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)
        go_on.set()
        while lock._lease.deadline(now()) == granted:
            await asyncio.sleep(0.005)
        deadline = lock._lease.deadline(now())
        assert granted and deadline and granted < deadline <= sent[0] + (TTL - 100) * MILLISECOND


async def test_requests_carry_the_token_and_the_trace(scripted: Scripted) -> None:
    seen: list[Any] = []

    async def play(peer: Peer) -> None:
        seen.append(peer.metadata.get("authorization"))
        await peer.open()
        seen.append((await peer.grant()).traceparent)
        request = await peer.read("release")
        seen.append(request.traceparent)
        await peer.say(request.request_id, released=session_pb2.SessionReleased(released=True))
        await peer.read("close")
        await peer.say(closed=session_pb2.SessionClosed())

    await scripted.scripts.put(play)
    from opentelemetry.sdk.trace import TracerProvider

    from leasehold_client.opentelemetry import trace_context

    tracer = TracerProvider().get_tracer("tests")
    async with leasehold_client.connect(scripted.url, token="lh_secret", trace_context=trace_context) as client:
        with tracer.start_as_current_span("work") as span:
            async with client.lock("a"):
                pass
    trace = f"{span.get_span_context().trace_id:032x}"
    assert seen[0] == "Bearer lh_secret"
    assert all(trace in one for one in seen[1:])


async def test_a_resume_whose_answer_is_lost_names_the_tried_id_and_makes_another(scripted: Scripted) -> None:
    resumes: list[session_pb2.SessionResume] = []

    async def first(peer: Peer) -> None:
        await peer.open()
        await peer.grant()
        await peer.refuse(grpc.StatusCode.UNAVAILABLE, "DRAINING")

    async def second(peer: Peer) -> None:
        resumes.append((await peer.read("open")).open.resume[0])
        # It may have been carried out.
        await peer.refuse(grpc.StatusCode.UNAVAILABLE, "STORE_INDETERMINATE")

    async def third(peer: Peer) -> None:
        request = await peer.read("open")
        resumes.append(request.open.resume[0])
        resumed = session_pb2.ResumedLock(name="a", owner_id=resumes[1].next_owner_id)
        resumed.hold.fencing_token = 7
        opened = session_pb2.SessionOpened(
            session_id="t",
            ttl=wire(TTL * MILLISECOND),
            heartbeat_interval=wire(1000 * MILLISECOND),
            resumed=[resumed],
            valid_for=wire((TTL - 100) * MILLISECOND),
        )
        await peer.say(request.request_id, opened=opened)
        released = await peer.read("release")
        assert released.release.owner_id == resumes[1].next_owner_id
        await peer.say(released.request_id, released=session_pb2.SessionReleased(released=True))
        await peer.read("close")
        await peer.say(closed=session_pb2.SessionClosed())

    for script in (first, second, third):
        await scripted.scripts.put(script)
    async with leasehold_client.connect(scripted.url) as client, client.lock("a") as lock:
        while len(resumes) < 2 or client.info is None:
            lock.check()
            await asyncio.sleep(0.005)
    assert resumes[0].owner_id == resumes[1].owner_id == b"o" * 16
    assert list(resumes[1].tried_owner_ids) == [resumes[0].next_owner_id]
    assert resumes[0].next_owner_id != resumes[1].next_owner_id


@pytest.mark.parametrize("grace", [0, 2])
async def test_a_resume_whose_connection_breaks_suspends_or_loses(scripted: Scripted, grace: int) -> None:
    broken = asyncio.Event()

    async def first(peer: Peer) -> None:
        await peer.open()
        await peer.grant()
        await peer.say(draining=session_pb2.SessionDraining(deadline=wire(5000 * MILLISECOND)))
        await broken.wait()
        await asyncio.sleep(60)

    async def second(peer: Peer) -> None:
        await peer.read("open")
        broken.set()
        # A plain end: the coordinator may have taken it for the client's.

    for script in (first, second):
        await scripted.scripts.put(script)
    async with leasehold_client.connect(scripted.url, disconnect_grace=grace) as client:
        hold = await client.lock("a").acquire()
        await broken.wait()
        expected = LockState.SUSPENDED if grace else LockState.LOST
        assert await hold.changed(LockState.HELD) is expected


@pytest.mark.parametrize("what", ["overdue ends", "overdue loses", "old loses", "surplus"])
async def test_what_streams_say_of_a_move_that_was_not_answered_ends_the_lock(
    scripted: Scripted, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens, again = asyncio.Event(), asyncio.Event()
    if what == "surplus":
        monkeypatch.setattr(_session_loop, "MOST_OVERDUE", 1)

    def lost(owner_id: bytes, why: types_pb2.LostReason) -> session_pb2.SessionLost:
        return session_pb2.SessionLost(locks=[session_pb2.LostLock(name="a", owner_id=owner_id, reason=why)])

    async def first(peer: Peer) -> None:
        await peer.open(ttl=60_000)
        await peer.grant(valid_for=60_000)
        await peer.say(draining=session_pb2.SessionDraining(deadline=wire(60_000 * MILLISECOND)))
        await happens.wait()
        if what == "old loses":
            await peer.say(lost=lost(b"o" * 16, types_pb2.LOST_REASON_RESUMED))
            await peer.say(lost=lost(b"o" * 16, types_pb2.LOST_REASON_FORCED))
        await asyncio.sleep(60)

    async def second(peer: Peer) -> None:
        [resume] = (await peer.read("open")).open.resume
        await happens.wait()
        if what == "overdue ends":
            return
        if what == "overdue loses":
            await peer.say(lost=lost(resume.next_owner_id, types_pb2.LOST_REASON_FORCED))
        await asyncio.sleep(60)

    async def third(peer: Peer) -> None:
        await peer.read("open")
        again.set()
        await asyncio.sleep(60)

    for script in (first, second, third):
        await scripted.scripts.put(script)
    async with leasehold_client.connect(scripted.url, connect_timeout=2) as client:
        hold = await client.lock("a").acquire()
        # The attempt before has been given up by then.
        await again.wait()
        assert hold.state is LockState.HELD
        happens.set()
        ended = "surplus", "overdue ends"
        expected = LostReason.SESSION_ENDED if what in ended else LostReason.FORCED
        async with asyncio.timeout(5):
            assert await hold.wait_lost() is expected


@pytest.mark.parametrize("end", ["plain", "closed", "half-close unanswered"])
async def test_every_end_of_the_stream_loses_the_lock(scripted: Scripted, end: str) -> None:
    async def play(peer: Peer) -> None:
        await peer.open()
        await peer.grant()
        await peer.say(queued=session_pb2.SessionQueued())
        # A field and an enum value that are new.
        await peer.call.write(session_pb2.SessionResponse.FromString(b"\xfa\x07\x02\x08\x01"))
        if end == "closed":
            await peer.say(closed=session_pb2.SessionClosed())

    await scripted.scripts.put(play)
    async with leasehold_client.connect(scripted.url) as client:
        hold = await client.lock("a").acquire()
        assert await hold.wait_lost() is LostReason.SESSION_ENDED


async def test_a_flood_is_read_and_request_ids_are_never_used_again(scripted: Scripted) -> None:
    ids: list[int] = []

    async def play(peer: Peer) -> None:
        # The flood renews nothing: the session outlasts it on the slowest machine, and so do the waits.
        await peer.open(ttl=10 * TTL)
        ack = session_pb2.SessionHeartbeatAck(acked_heartbeat=0, valid_for=wire((10 * TTL - 100) * MILLISECOND))
        for _ in range(5000):
            await peer.say(heartbeat=ack)
        requests = [await peer.read("acquire") for _ in range(10)]
        ids.extend(request.request_id for request in requests)
        # Out of order.
        for request in reversed(requests):
            await peer.say(request.request_id, not_granted=session_pb2.SessionNotGranted(outcome=types_pb2.ACQUIRE_OUTCOME_TIMED_OUT))
        await peer.read("close")
        await peer.say(closed=session_pb2.SessionClosed())

    await scripted.scripts.put(play)
    async with leasehold_client.connect(scripted.url) as client:
        asked = [client.lock(f"a{number}", wait=50).acquire() for number in range(10)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, leasehold_client.TimedOut) for answer in answers), answers
    assert len(set(ids)) == 10


async def test_a_limit_on_sessions_is_waited_out_as_asked(scripted: Scripted) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_SESSIONS")

    await scripted.scripts.put(refuse)
    with pytest.raises(leasehold_client.ConnectError) as failed:
        await leasehold_client.connect(scripted.url).open()
    assert failed.value.kind is leasehold_client.ConnectErrorKind.LIMIT_REACHED and failed.value.is_retryable


def test_pauses_grow_within_their_bounds_and_start_anew_after_what_lived() -> None:
    pauses = Pauses(50 * MILLISECOND, 2000 * MILLISECOND)
    row = [pauses.pause(0) for _ in range(20)]
    assert 50 * MILLISECOND <= row[0] <= 100 * MILLISECOND
    assert all(pause <= 2000 * MILLISECOND for pause in row)
    assert row[-1] >= 1000 * MILLISECOND and len(set(row)) > 10
    pauses.opened(0)
    assert pauses.pause(1) >= 1000 * MILLISECOND
    pauses.opened(0)
    assert pauses.pause(2000 * MILLISECOND) <= 100 * MILLISECOND
    asked = pauses.pause_as_asked(0, 5.0)
    assert 5000 * MILLISECOND < asked <= 7000 * MILLISECOND
    assert pauses.pause_as_asked(0, 1e6) <= 62_000 * MILLISECOND


CANDIDATES = [Candidate(parse("locks.example")[0], f"ipv4:127.0.0.{number}:1") for number in range(3)]


def one_round(route: Route, at: int) -> list[Candidate]:
    route.begin_round(CANDIDATES, at * SECOND)
    return list(iter(route.next, None))


def test_what_failed_lately_is_tried_last() -> None:
    first, second, third = CANDIDATES
    route = Route(1, Random(1))
    route.failed(first, 1 * SECOND)
    route.failed(second, 2 * SECOND)
    for _ in range(10):
        assert one_round(route, 3) == [third, first, second]
    # The first of the two has been long enough ago.
    assert one_round(route, 11)[2] == second
    assert set(one_round(route, 30)) == set(CANDIDATES) and route.is_several


def test_clients_of_a_coordinator_that_goes_away_spread_over_the_others() -> None:
    moves: Counter[tuple[str, str]] = Counter()
    for seed in range(600):
        route = Route(1, Random(seed))
        left = one_round(route, 0)[0]
        route.failed(left, 1 * SECOND)
        order = one_round(route, 1)
        assert order[2] == left
        moves[left.target, order[0].target] += 1
    assert len(moves) == 6 and max(moves.values()) < 2 * min(moves.values()), moves


def test_default_names_are_bounded_and_have_no_control_characters() -> None:
    assert named("billing", "vm", 7) == "billing@vm/7"
    assert named("b\n\x7f\x85ill\udcff", "", 7) == "bill?@unknown/7"
    assert named("é" * 300, "h" * 300, 7) == f"{'é' * 16}@{'h' * 64}/7"
    assert client_name().endswith(f"/{os.getpid()}")


def test_an_observer_never_goes_back() -> None:
    view = View()

    def told(token: int | None, value: str = "", skipped: bool = False) -> tuple[int, bool] | None:
        response = election_pb2.ObserveResponse(skipped=skipped)
        if token is not None:
            response.leader.CopyFrom(election_pb2.Leader(fencing_token=token, value=value.encode()))
        change = view.told(response)
        return None if change is None else (change.leader.fencing_token if change.leader else 0, change.skipped)

    view.interrupted()
    assert told(None) == (0, False)
    assert told(None) is None
    assert told(5, "a") == (5, False)
    assert told(5, "a") is None
    assert told(5, "b") == (5, False)
    view.interrupted()
    assert told(4, "z") is None
    assert told(6, "a") == (6, True)
    assert told(6, "a", skipped=True) is None
    assert told(None) == (0, True)
    # A foreign holder has no token.
    assert told(0) == (0, False)
    assert told(5, "z") is None
