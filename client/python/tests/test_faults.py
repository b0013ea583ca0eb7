"""Coordinators that die, stop, drain and restart under the client."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Redis, Start

import leasehold_client
from leasehold_client import LockState, LostReason


async def test_a_stopped_coordinator_loses_the_lock_at_the_deadline(start: Start, name: str) -> None:
    coordinator = start()
    async with leasehold_client.connect(coordinator.url, ttl=1) as client:
        with pytest.raises(leasehold_client.LockLost) as lost:
            async with client.lock(name) as lock:
                coordinator.stop()
                latest = time.monotonic() + lock.lost_in
                await asyncio.sleep(60)
        assert time.monotonic() <= latest + 0.3
        assert lost.value.reason is LostReason.EXPIRED
        coordinator.go_on()
        async with client.lock(name, wait=10):
            pass


async def test_a_killed_coordinator_loses_the_lock_at_once_without_a_grace(start: Start, name: str) -> None:
    coordinator = start()
    async with leasehold_client.connect(coordinator.url) as client:
        with pytest.raises(leasehold_client.LockLost) as lost:
            async with client.lock(name):
                before = time.monotonic()
                coordinator.kill()
                await asyncio.sleep(60)
        assert lost.value.reason is LostReason.SESSION_ENDED
        assert time.monotonic() - before < 1
        # The session is made anew in the background, and waits go on over that.
        waiting = asyncio.create_task(client.lock(name).acquire())
        coordinator.restart()
        assert await (await waiting).release()


async def test_with_a_grace_the_lock_is_suspended_and_resumed_elsewhere(start: Start, redis: str, name: str) -> None:
    first = start(redis)
    async with leasehold_client.connect(first.url, ttl=20, disconnect_grace=20) as alone:
        async with alone.lock(name) as lock:
            first.kill()
            assert await lock.changed(LockState.HELD) is LockState.SUSPENDED
            with pytest.raises(leasehold_client.LockSuspended):
                lock.check()
            assert not lock.is_held and lock.valid_for == 0 and lock.lost_in > 0
            first.restart()
            await lock.settled()
            lock.check()
            assert await alone.admin.check_token(name, lock.token)


async def test_a_grace_that_is_over_loses_the_lock(start: Start, name: str) -> None:
    coordinator = start()
    async with leasehold_client.connect(coordinator.url, ttl=4, disconnect_grace=0.3) as client:
        with pytest.raises(leasehold_client.LockLost) as lost:
            async with client.lock(name):
                coordinator.kill()
                await asyncio.sleep(60)
        assert lost.value.reason is LostReason.SESSION_ENDED


async def test_a_drain_moves_everything_to_another_coordinator(start: Start, redis: str, name: str) -> None:
    first, second = start(redis), start(redis)
    async with (
        leasehold_client.connect(first.url, ttl=4) as probe,
        leasehold_client.connect([first.url, second.url], ttl=4) as client,
        client.lock(name) as lock,
    ):
        assert client.info and probe.info
        before = client.info.coordinator
        draining, staying = (first, second) if probe.info.coordinator == before else (second, first)
        async with leasehold_client.connect(staying.url, ttl=4) as other:
            blocking = await other.lock(name + "2").acquire()
            waiting = asyncio.create_task(client.lock(name + "2").acquire())
            while not (await other.admin.get_lock(name + "2")).waiter_count:
                await asyncio.sleep(0.005)
            draining.terminate()
            while client.info is None or client.info.coordinator == before:
                lock.check()
                await asyncio.sleep(0.005)
            lock.check()
            assert await other.admin.check_token(name, lock.token)
            assert await blocking.release()
            assert await (await waiting).release()


async def test_a_lone_coordinator_that_restarts_keeps_the_lock_held_throughout(start: Start, redis: str, name: str) -> None:
    coordinator = start(redis, "--drain-timeout", "300ms")
    async with leasehold_client.connect(coordinator.url, ttl=6) as client, client.lock(name) as lock:
        states: list[LockState] = []

        async def watch() -> None:
            states.append(await lock.changed())

        watching = asyncio.create_task(watch())
        assert client.info
        before = client.info.session_id
        coordinator.terminate()
        await asyncio.to_thread(coordinator.restart)
        while client.info is None or client.info.session_id == before:
            lock.check()
            await asyncio.sleep(0.01)
        lock.check()
        assert await client.admin.check_token(name, lock.token)
        watching.cancel()
        assert states == []


async def test_a_place_in_the_queue_is_kept_over_a_restart(start: Start, redis: str, name: str) -> None:
    coordinator, other = start(redis, "--drain-timeout", "300ms"), start(redis)
    async with leasehold_client.connect(other.url, ttl=6) as holder, leasehold_client.connect(coordinator.url, ttl=6) as client:
        hold = await holder.lock(name).acquire()
        first = asyncio.create_task(client.lock(name).acquire())
        while not (await holder.admin.get_lock(name)).waiter_count:
            await asyncio.sleep(0.005)
        second = asyncio.create_task(holder.lock(name).acquire())
        while (await holder.admin.get_lock(name)).waiter_count < 2:
            await asyncio.sleep(0.005)
        coordinator.terminate()
        await asyncio.to_thread(coordinator.restart)
        while client.info is None:
            await asyncio.sleep(0.005)
        await hold.release()
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        assert done == {first}
        assert await (await first).release()
        assert await (await second).release()


async def test_an_election_goes_on_over_a_restart(start: Start, redis: str, name: str) -> None:
    coordinator = start(redis, "--drain-timeout", "300ms")
    async with leasehold_client.connect(coordinator.url, ttl=6) as client:
        election = client.election(name, value="me")
        leadership = await election.campaign()
        coordinator.terminate()
        await asyncio.to_thread(coordinator.restart)
        while client.info is None:
            assert leadership.is_leader
            await asyncio.sleep(0.01)
        leader = await election.leader()
        assert leader and leader.fencing_token == leadership.token
        assert await leadership.resign()


async def test_an_observer_goes_on_at_another_connection(start: Start, redis: str, name: str) -> None:
    coordinator = start(redis)
    async with leasehold_client.connect(coordinator.url) as client, client.election(name).observe() as observer:
        assert (await anext(observer)).leader is None
        coordinator.kill()
        coordinator.restart()
        leadership = await client.election(name, value="a").campaign()
        change = await anext(observer)
        assert change.leader and change.leader.value == b"a" and change.skipped
        assert await leadership.resign()


async def test_a_silent_coordinator_is_left_for_another_and_the_lock_stays_held(start: Start, redis: str, name: str) -> None:
    first, second = start(redis), start(redis)
    async with leasehold_client.connect([first.url, second.url], ttl=8) as client, client.lock(name) as lock:
        async with leasehold_client.connect(first.url) as probe:
            assert client.info and probe.info
            silent = first if client.info.coordinator == probe.info.coordinator else second
        before = client.info.coordinator
        silent.stop()
        while client.info is None or client.info.coordinator == before:
            lock.check()
            await asyncio.sleep(0.01)
        lock.check()
        silent.go_on()


async def test_a_wait_goes_on_while_the_store_is_down(start: Start, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "leasehold_client")
    store = Redis(tmp_path)
    try:
        coordinator = start(store.url)
        async with leasehold_client.connect(coordinator.url, ttl=4) as client:
            store.kill()
            # It is a refusal with a reason, and one of those that say that something is down.
            with pytest.raises(leasehold_client.Unavailable) as tried:
                await client.lock(name).try_acquire()
            with pytest.raises(leasehold_client.StoreUnavailable) as waited:
                await client.lock(name, wait=0.3).acquire()
            for refused in (tried, waited):
                assert isinstance(refused.value, leasehold_client.Refused) and refused.value.source is None
                assert str(refused.value).startswith(f"failed to acquire lock '{name}': ") and "no connection" not in str(refused.value)
                assert refused.value.failure.reason.startswith("STORE_") and refused.value.is_retryable
            caplog.clear()
            waiting = asyncio.create_task(client.lock(name).acquire())
            while sum("waits on" in one.message for one in caplog.records) < 2:
                await asyncio.sleep(0.01)
            store.start()
            assert await (await waiting).release()
    finally:
        store.kill()


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name, `locks.test`, that stands for two addresses."""
    look_up = asyncio.BaseEventLoop.getaddrinfo

    async def getaddrinfo(loop: Any, host: Any, port: Any, **hints: Any) -> Any:
        found = [await look_up(loop, one, port, **hints) for one in (["127.0.0.1", "127.0.0.2"] if host == "locks.test" else [host])]
        return [address for addresses in found for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


async def test_single_calls_go_to_every_address_of_a_name(several: None, start: Start, redis: str, name: str) -> None:
    one = start(redis)
    other = start(redis, host="127.0.0.2", port=one.port)
    url = f"http://locks.test:{one.port}"

    async def all_calls() -> None:
        # Each client draws which it asks first.
        for _ in range(8):
            async with leasehold_client.connect(url, ttl=4) as client:
                await client.admin.get_lock(name)
                assert not await client.admin.force_release(name)
                assert await client.election(name).leader() is None

    async with leasehold_client.connect(url, ttl=4) as client:
        await client.admin.status()
        one.terminate()
        await asyncio.to_thread(one.process.wait)
        await client.admin.status()
        assert not await client.admin.force_release(name)
        await all_calls()
        one.restart()
        other.kill()
        await client.admin.status()
        await all_calls()
        # One that does not answer costs its part of the time.
        await asyncio.to_thread(other.restart)
        async with leasehold_client.connect(url, ttl=4) as fresh:
            one.stop()
            for _ in range(3):
                await fresh.admin.get_lock(name)
        one.go_on()
