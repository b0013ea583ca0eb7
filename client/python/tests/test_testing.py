"""The coordinator for unit tests keeps the rules that a real one keeps: each test runs against both."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import Coordinator as RealCoordinator
from together import waits

import leasehold_client
import leasehold_client.sync
from leasehold_client import LockState, LostReason, SelfDeadlock
from leasehold_client.testing import Coordinator


@pytest.fixture(params=["real", "within the process"])
def url(request: pytest.FixtureRequest, shared: RealCoordinator) -> Iterator[str]:
    """The URL of a coordinator."""
    if request.param == "real":
        yield shared.url
    else:
        with Coordinator() as coordinator:
            yield coordinator.url


async def test_exclusion_queues_and_tokens(url: str, name: str) -> None:
    async with leasehold_client.connect(url, client_name="me") as client, leasehold_client.connect(url) as other:
        order: list[int] = []

        async def work(number: int, through: leasehold_client.Client) -> int:
            async with through.lock(name) as lock:
                order.append(number)
                return lock.token

        async with client.lock(name, value="v") as lock:
            assert await other.lock(name).try_acquire() is None
            with pytest.raises(leasehold_client.TimedOut) as failed:
                await other.lock(name, wait=0.01).acquire()
            assert failed.value.holder and (failed.value.holder.client_name, failed.value.holder.value) == ("me", b"v")
            with pytest.raises(SelfDeadlock):
                await client.lock(name).acquire()
            async with client.lock(name, reentrant=True) as again:
                assert (again.hold_count, again.token) == (2, lock.token)
            await lock.set_value("w")
            assert (await client.admin.get_lock(name)).holders[0].value == b"w"
            tasks = []
            for number in range(4):
                tasks.append(asyncio.create_task(work(number, other if number % 2 else client)))
                await waits(client, name, number + 1)
            tasks.pop(1).cancel()
            while (await client.admin.get_lock(name)).waiter_count > 3:
                await asyncio.sleep(0.001)
        tokens = [lock.token, *(await asyncio.gather(*tasks))]
        assert order == [0, 2, 3] and tokens == sorted(set(tokens))


async def test_modes(url: str, name: str) -> None:
    async with leasehold_client.connect(url) as client, leasehold_client.connect(url) as other:
        async with client.lock(name, shared=True), other.lock(name, shared=True, wait=5):
            assert await client.lock(name + "x", shared=True).locked() is False and await other.lock(name).locked()
            # A writer that waits is before later readers.
            writer = asyncio.create_task(other.lock(name, actor=leasehold_client.Actor()).acquire())
            await waits(client, name)
            with pytest.raises(leasehold_client.Busy):
                await client.lock(name, shared=True, wait=0, actor=leasehold_client.Actor()).acquire()
        held = await writer
        await held.downgrade()
        async with client.lock(name, shared=True, wait=5):
            await held.release()
        async with client.semaphore(name + "s", 3).permits(2) as permits:
            assert permits.permits == 2 and await other.semaphore(name + "s", 3).permits(2).try_acquire() is None
            async with other.semaphore(name + "s", 3).permits(3, at_least=1) as rest:
                assert rest.permits == 1
            await permits.keep(1)
            with pytest.raises(leasehold_client.LimitMismatch) as mismatch:
                await other.semaphore(name + "s", 4).acquire()
            assert mismatch.value.limit == 3
            async with other.semaphore(name + "s", 3).permits(2, wait=5):
                pass
        async with client.lock_all([name + "1", name + "2"]):
            assert await other.lock_all([name + "3", name + "2"]).try_acquire() is None
            assert not await other.lock(name + "3").locked()


async def test_elections_and_sessions_that_end(url: str, name: str) -> None:
    async with leasehold_client.connect(url, ttl=1) as client, leasehold_client.connect(url) as other:
        leadership = await client.election(name, value="me").campaign()
        leader = await other.election(name).leader()
        assert leader and (leader.value, leader.fencing_token) == (b"me", leadership.token)
        await leadership.proclaim("ready")
        leader = await other.election(name).leader()
        assert leader and leader.value == b"ready"
        following = asyncio.create_task(other.election(name).campaign())
        await waits(client, name)
        # Past the TTL.
        await asyncio.sleep(1.2)
        leadership.check()
        await client.close()
        assert (await following).token > leadership.token


def test_a_process_that_dies_gives_its_locks_back(url: str, name: str) -> None:
    program = (
        "import sys, leasehold_client.sync\n"
        "hold = leasehold_client.sync.connect(sys.argv[1], ttl=60).lock(sys.argv[2]).acquire()\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with leasehold_client.sync.connect(url) as client:
        command = [sys.executable, "-c", program, url, name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdout.readline() == "held\n"
            assert client.lock(name).try_acquire() is None
            process.kill()
            with client.lock(name, wait=30):
                pass


async def test_a_loss_on_demand_cancels_the_body_and_lets_the_next_one_in() -> None:
    with Coordinator() as coordinator:
        async with leasehold_client.connect(coordinator.url) as client:
            following = asyncio.Event()

            async def next_one() -> None:
                async with client.lock("orders/42"):
                    following.set()

            with pytest.raises(leasehold_client.LockLost) as lost:
                async with client.lock("orders/42"):
                    task = asyncio.create_task(next_one())
                    while not coordinator.lock("orders/42").waiter_count:
                        await asyncio.sleep(0.001)
                    assert coordinator.lose("orders/42") == 1
                    await asyncio.sleep(60)
            assert lost.value.reason is LostReason.FORCED
            await following.wait()
            await task
            assert coordinator.lose("orders/42") == 0 and coordinator.lock("orders/42").holder_count == 0


def test_a_coordinator_that_ends_takes_all_locks_along() -> None:
    with Coordinator() as coordinator:
        client = leasehold_client.sync.connect(coordinator.url)
        hold = client.lock("a").acquire()
    assert hold.changed(LockState.HELD) is LockState.LOST
    client.close()
