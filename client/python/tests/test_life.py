"""Elections, operators, and the life of a client, for asyncio and against real coordinators."""

from __future__ import annotations

import asyncio
import time

import pytest
from conftest import Coordinator, Start
from together import force, waits

import leasehold_client
from leasehold_client import LockState, LostReason

# Elections.


async def test_a_leader_hands_over_after_its_body_has_ended(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    events: list[str] = []

    async def lead(who: str, through: leasehold_client.Client) -> None:
        async for term in through.election(name, value=who):
            async with term:
                events.append(f"{who} leads")
                try:
                    if who == "first":
                        await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.05)
                    events.append(f"{who} ended")
            if who == "second":
                return

    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(lead("first", client))
        while not events:
            await asyncio.sleep(0.005)
        second = tasks.create_task(lead("second", other))
        await waits(client, name)
        first.cancel()
        await second
    assert events == ["first leads", "first ended", "second leads", "second ended"]


async def test_a_deposed_leader_campaigns_again(client: leasehold_client.Client, name: str) -> None:
    election = client.election(name, value="me")
    tokens: list[int] = []

    async def lead(term: leasehold_client.Term) -> str:
        assert term.is_leader
        tokens.append(term.token)
        if len(tokens) < 3:
            force(client, name)
            await asyncio.sleep(60)
        with pytest.raises(leasehold_client.AlreadyCandidate):
            await election.campaign()
        await term.proclaim("ready")
        leader = await election.leader()
        assert leader and leader.value == b"ready"
        return "done"

    assert await election.run(lead) == "done"
    assert tokens == sorted(set(tokens)) and len(tokens) == 3
    assert await election.leader() is None
    with pytest.raises(ZeroDivisionError):
        await election.run(lambda _: _fail())
    leadership = await election.campaign("other")
    assert await leadership.resign()


async def _fail() -> None:
    raise ZeroDivisionError


async def test_observers_see_every_change(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    async with client.election(name).observe() as observer:
        assert (await anext(observer)).leader is None
        # A wait may be given up without missing anything.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(observer), 0.05)
        leadership = await other.election(name, value="a").campaign()
        change = await anext(observer)
        assert change.leader and (change.leader.value, change.leader.fencing_token) == (b"a", leadership.token)
        await leadership.proclaim("b")
        change = await anext(observer)
        assert change.leader and change.leader.value == b"b" and not change.skipped
        await leadership.resign()
        assert (await anext(observer)).leader is None


# Operators.


async def test_watching(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    async with other.lock(name), client.admin.watch(name) as watcher:
        snapshot = await anext(watcher)
        assert isinstance(snapshot, leasehold_client.LockView) and snapshot.holders[0].client_name == "other"
        assert await anext(watcher) == leasehold_client.Ready(1)
        waiting = asyncio.create_task(client.lock(name).acquire())
        event = await anext(watcher)
        assert isinstance(event, leasehold_client.LockEvent) and event.kind is leasehold_client.EventKind.QUEUED
        waiting.cancel()
        event = await anext(watcher)
        assert isinstance(event, leasehold_client.LockEvent) and event.kind is leasehold_client.EventKind.WITHDRAWN


async def test_administration(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    admin = client.admin
    async with other.lock(name) as lock:
        assert [view.name async for view in admin.list_locks(name)] == [name]
        status = await admin.status()
        assert status.serving and status.store_up and not status.draining and status.time
        assert status.hold_count and status.min_ttl < status.default_ttl < status.max_ttl
        assert [permission.permission for permission in status.permissions] == ["acquire", "inspect", "administer"]
        assert "max-sessions" in [limit.name for limit in status.limits] and status.certificates == ()
        assert await admin.request_release(name, reason="deploy", within=30) == 1
        asked = await lock.wait_release_requested()
        assert asked and asked.reason == "deploy" and asked.within and 29 < asked.within <= 30
        assert not await admin.check_token(name, 1)
        sessions = await admin.list_sessions()
        assert other.info and other.info.session_id in [session.session_id for session in sessions]
    with pytest.raises(leasehold_client.InvalidArgument):
        await admin.get_lock("")
    with pytest.raises(leasehold_client.CallFailed) as failed:
        await admin.check_token(name, -1)
    assert failed.value.failure.reason == "INVALID_FIELD" and not failed.value.is_retryable


async def test_an_ended_session_loses_everything_and_the_client_goes_on(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    with pytest.raises(leasehold_client.LockLost):
        async with other.lock(name):
            assert other.info
            ended = await client.admin.end_session(other.info.session_id)
            assert ended.ended and ended.hold_count == 1
            await asyncio.sleep(60)
    async with other.lock(name, wait=10):
        pass


# Life of a client.


async def test_closing_loses_holds_first(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    hold = await other.lock(name).acquire()
    async with other.new_session() as session:
        own = await other.on(session).lock(name + "2").acquire()
    assert own.lost_reason is LostReason.SESSION_CLOSED and hold.is_held
    await other.close()
    assert hold.lost_reason is LostReason.SESSION_CLOSED
    with pytest.raises(leasehold_client.SessionClosed):
        await other.lock(name).acquire()
    async with client.lock_all([name, name + "2"], wait=5):
        pass


async def test_nobody_to_connect_to_is_an_error_and_one_of_several_is_enough(shared: Coordinator, name: str) -> None:
    with pytest.raises(leasehold_client.ConnectError) as failed:
        await leasehold_client.connect("http://127.0.0.1:1").open()
    assert failed.value.kind is leasehold_client.ConnectErrorKind.UNREACHABLE and failed.value.is_retryable
    for endpoint in ("", "ftp://a", "http://a:x", "http://", "a:0", "a/path", "a?query", "a/#fragment"):
        with pytest.raises(leasehold_client.ConnectError) as failed:
            leasehold_client.connect(endpoint)
        assert failed.value.kind is leasehold_client.ConnectErrorKind.INVALID_ENDPOINT
    for _ in range(4):
        async with leasehold_client.connect(f"http://127.0.0.1:1,{shared.url}") as client, client.lock(name):
            await client.admin.status()


def test_the_end_of_the_event_loop_loses_everything(shared: Coordinator, name: str) -> None:
    async def leave() -> leasehold_client.Hold:
        client = leasehold_client.connect(shared.url)
        await client.open()
        return await client.lock(name).acquire()

    hold = asyncio.run(leave())
    assert hold.lost_reason is LostReason.SESSION_ENDED


async def test_a_suspended_machine_finds_its_locks_lost(
    client: leasehold_client.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(leasehold_client.LockLost) as lost:
        async with client.lock(name) as lock:
            later = leasehold_client._clock.now() + 3_000_000_000
            monkeypatch.setattr("leasehold_client._view.now", lambda: later)
            with pytest.raises(leasehold_client.LockLost):
                lock.check()
            monkeypatch.undo()
            await asyncio.sleep(60)
    assert lost.value.reason is LostReason.EXPIRED


async def test_a_blocked_event_loop_finds_its_locks_lost(shared: Coordinator, name: str) -> None:
    async with leasehold_client.connect(shared.url, ttl=0.5) as client:
        with pytest.raises(leasehold_client.LockLost):
            async with client.lock(name) as lock:
                time.sleep(0.6)  # noqa: ASYNC251
                assert lock.state is LockState.LOST


async def test_limits_tell_when_to_ask_again(start: Start, name: str) -> None:
    coordinator = start("memory:", "--max-locks-per-session", "1")
    async with leasehold_client.connect(coordinator.url) as client, client.lock(name):
        with pytest.raises(leasehold_client.LimitReached) as reached:
            await client.lock(name + "2").acquire()
        assert reached.value.is_retryable and reached.value.failure.retry_after is not None
