"""The interface for asyncio, against real coordinators."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time

import pytest
from conftest import Coordinator
from together import force, waits

import leasehold_client
from leasehold_client import LockState, LostReason


async def test_a_lock_is_handed_on_in_order_with_rising_tokens(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    order: list[tuple[str, int]] = []

    async def work(who: str, through: leasehold_client.Client) -> None:
        async with through.lock(name) as lock:
            order.append((who, lock.token))

    async with client.lock(name) as lock:
        lock.check()
        assert lock.is_held and 0 < lock.valid_for < 2
        tasks = []
        for number, (who, through) in enumerate([("a", other), ("b", client), ("c", other)], 1):
            tasks.append(asyncio.create_task(work(who, through)))
            await waits(client, name, number)
        assert order == []
    await asyncio.gather(*tasks)
    assert [who for who, _ in order] == ["a", "b", "c"]
    tokens = [lock.token, *(token for _, token in order)]
    assert tokens == sorted(set(tokens))
    assert lock.state is LockState.LOST and lock.lost_reason is LostReason.RELEASED and lock.loss is None


async def test_a_hold_is_kept_past_three_ttls(shared: Coordinator, name: str) -> None:
    async with leasehold_client.connect(shared.url, ttl=1.5) as client:
        assert client.info and client.info.ttl == 1.5
        async with client.lock(name) as lock:
            until = time.monotonic() + 4.8
            while time.monotonic() < until:
                lock.check()
                await asyncio.sleep(0.02)
            assert await client.admin.check_token(name, lock.token)


async def test_what_the_wire_cannot_carry_is_refused_and_the_session_stays(client: leasehold_client.Client, name: str) -> None:
    async with client.lock(f"{name}/kept") as kept:
        session = client.info
        for permits in [1.5, 2**32, "one"]:
            with pytest.raises((leasehold_client.InvalidArgument, TypeError)):
                await client.semaphore(name, 3).permits(permits).acquire()  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await client.lock(5).acquire()  # type: ignore[arg-type]
        async with client.semaphore(name, 3).permits(2) as held:
            with pytest.raises(TypeError):
                await held.keep(1.5)  # type: ignore[arg-type]
        kept.check()
        assert client.info == session


async def test_a_source_of_traces_that_fails_costs_no_release(shared: Coordinator, client: leasehold_client.Client, name: str) -> None:
    def trace_context() -> str:
        raise RuntimeError("no trace")

    async with leasehold_client.connect(shared.url, trace_context=trace_context) as traced:
        async with traced.lock(name):
            pass
        async with client.lock(name, wait=0):
            pass


async def test_busy_timed_out_and_tries(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    async with client.lock(name, value="step 1"):
        assert await other.lock(name).try_acquire() is None
        with pytest.raises(leasehold_client.Busy) as busy:
            await other.lock(name, wait=0).acquire()
        assert busy.value.holder and (busy.value.holder.client_name, busy.value.holder.value) == ("test", b"step 1")
        with pytest.raises(leasehold_client.TimedOut):
            await other.lock(name, wait=0.05).acquire()
    hold = await other.lock(name).try_acquire()
    assert hold
    async with hold:
        hold.check()
    with pytest.raises(leasehold_client.LockLost):
        hold.check()


async def test_a_loss_cancels_the_body_and_is_raised(client: leasehold_client.Client, name: str) -> None:
    stopped = False
    with pytest.raises(leasehold_client.LockLost) as lost:
        async with client.lock(name) as lock:
            force(client, name)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                stopped = True
                raise
    assert stopped and lost.value.reason is LostReason.FORCED and lost.value.token == lock.token
    task = asyncio.current_task()
    assert task and task.cancelling() == 0
    # Nothing of the cancellation is left.
    await asyncio.sleep(0)


async def test_a_body_that_swallows_the_cancellation_is_told_of_the_loss(client: leasehold_client.Client, name: str) -> None:
    with pytest.raises(leasehold_client.LockLost):
        async with client.lock(name) as lock:
            force(client, name)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            assert lock.lost.is_set()


async def test_a_body_that_finds_the_loss_itself_is_not_cancelled_afterwards(client: leasehold_client.Client, name: str) -> None:
    with pytest.raises(leasehold_client.LockLost):
        async with client.lock(name) as lock:
            lock._lease.end(leasehold_client._clock.now(), LostReason.EXPIRED)
            with pytest.raises(leasehold_client.LockLost):
                lock.check()
    await asyncio.sleep(0)


async def test_the_bodys_own_error_is_not_hidden_by_a_loss(client: leasehold_client.Client, name: str) -> None:
    with pytest.raises(ZeroDivisionError) as failed:
        async with client.lock(name):
            force(client, name)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ZeroDivisionError("the body") from None
    chain = [failed.value.__context__, failed.value.__context__ and failed.value.__context__.__context__]
    assert any(isinstance(one, leasehold_client.LockLost) for one in chain)
    assert any("is lost: forced" in note for note in failed.value.__notes__)


async def test_a_cancelled_body_releases_and_stays_cancelled(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with client.lock(name):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(body())
    await entered.wait()
    task.cancel()
    # Once more, while it may be releasing.
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with other.lock(name, wait=5):
        pass


async def test_a_cancelled_wait_is_withdrawn_and_a_grant_that_crosses_it_given_back(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    async with client.lock(name):
        waiting = asyncio.create_task(other.lock(name).acquire())
        await waits(client, name)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while (await client.admin.get_lock(name)).waiter_count:
            await asyncio.sleep(0.005)
    for turns in range(20):
        # At each point on the way to a grant.
        asking = asyncio.create_task(other.lock(name).acquire())
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await asking).release()
    async with client.lock(name, wait=5):
        pass


async def test_a_release_may_be_repeated_and_a_lost_one_is_false(client: leasehold_client.Client, name: str) -> None:
    hold = await client.lock(name).acquire()
    assert all(await asyncio.gather(hold.release(), hold.release()))
    assert await hold.release()
    hold = await client.lock(name).acquire()
    await client.admin.force_release(name)
    assert await hold.wait_lost() is LostReason.FORCED
    assert not await hold.release()
    with pytest.raises(leasehold_client.LockLost):
        await hold.set_value("too late")


async def test_a_cancelled_release_goes_on(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    hold = await client.lock(name).acquire()
    release = asyncio.create_task(hold.release())
    await asyncio.sleep(0)
    release.cancel()
    with pytest.raises(asyncio.CancelledError):
        await release
    async with other.lock(name, wait=5):
        assert not hold.is_held


async def test_a_forgotten_hold_is_released_with_a_warning(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    hold = await client.lock(name).acquire()
    with pytest.warns(ResourceWarning, match=name):
        del hold
        gc.collect()
    async with other.lock(name, wait=5):
        pass


async def test_any_thread_may_check(client: leasehold_client.Client, name: str) -> None:
    async with client.lock(name) as lock:
        said: list[bool] = []
        thread = threading.Thread(target=lambda: said.append(lock.is_held))
        thread.start()
        thread.join()
        assert said == [True]


async def test_several_locks_are_acquired_together_and_the_loss_of_one_stops_the_body(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    names = [name + "b", name + "a"]
    with pytest.raises(leasehold_client.LockLost) as lost:
        async with client.lock_all(names) as locks:
            assert [lock.name for lock in locks] == names and locks.is_held
            assert await other.lock_all([*reversed(names), "free"]).try_acquire() is None
            force(client, names[1])
            await asyncio.sleep(60)
    assert lost.value.name == names[1]
    async with other.lock_all(names, wait=5) as locks:
        assert await locks.release()


async def test_one_request_may_be_used_by_several_tasks(client: leasehold_client.Client, name: str) -> None:
    request = client.lock(name, shared=True)
    both = asyncio.Barrier(2)

    async def work(first: bool) -> leasehold_client.Hold:
        async with request as lock:
            await both.wait()
            if not first:
                await asyncio.sleep(0.05)
            lock.check()
        return lock

    one, other = await asyncio.gather(work(True), work(False))
    assert one.lost_reason is other.lost_reason is LostReason.RELEASED


async def test_modes(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    async with client.lock(name) as writer:
        assert await other.lock(name, shared=True).try_acquire() is None
        await writer.downgrade()
        async with other.lock(name, shared=True, wait=5):
            assert (await client.admin.get_lock(name)).mode is leasehold_client.LockMode.SHARED


async def test_semaphores(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    semaphore = client.semaphore(name, limit=3)
    async with semaphore.permits(2) as permits:
        assert permits.permits == 2
        assert await other.semaphore(name, limit=3).permits(2).try_acquire() is None
        async with other.semaphore(name, limit=3).permits(3, at_least=1) as rest:
            assert rest.permits == 1
        await permits.keep(1)
        async with other.semaphore(name, limit=3).permits(2, wait=5):
            pass
        with pytest.raises(leasehold_client.LimitMismatch) as mismatch:
            await other.semaphore(name, limit=5).permits().acquire()
        assert mismatch.value.limit == 3
    with pytest.raises(leasehold_client.InvalidArgument) as refused:
        semaphore.permits(0)
    assert refused.value.failure.reason == "INVALID_FIELD"


async def test_an_actor_holds_a_lock_once_more_and_deadlocks_end(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    async with client.lock(name, reentrant=True) as outer, client.lock(name, reentrant=True) as inner:
        assert (outer.hold_count, inner.hold_count, outer.token) == (1, 2, inner.token)
        with pytest.raises(leasehold_client.SelfDeadlock):
            await client.lock(name, actor=leasehold_client.Actor.current()).acquire()
        assert await inner.release() and outer.is_held
    one, two = leasehold_client.Actor(), leasehold_client.Actor()
    first, second = name + "1", name + "2"

    async def both(actor: leasehold_client.Actor, names: list[str], barrier: asyncio.Barrier) -> None:
        async with client.lock(names[0], actor=actor):
            await barrier.wait()
            async with client.lock(names[1], actor=actor):
                pass

    barrier = asyncio.Barrier(2)
    ends = await asyncio.gather(both(one, [first, second], barrier), both(two, [second, first], barrier), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["Deadlock", "NoneType"]


async def test_many_tasks_exclude_each_other(shared: Coordinator, name: str) -> None:
    register = [0, 0]

    async def work(client: leasehold_client.Client) -> None:
        for _ in range(10):
            async with client.lock(name) as lock:
                value, token = register
                assert lock.token > token
                await asyncio.sleep(0)
                lock.check()
                register[:] = [value + 1, lock.token]

    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(leasehold_client.connect(shared.url)) for _ in range(4)]
        await asyncio.gather(*(work(clients[number % 4]) for number in range(20)))
    assert register[0] == 200


async def test_a_bad_name_is_refused(client: leasehold_client.Client) -> None:
    with pytest.raises(leasehold_client.InvalidArgument) as refused:
        client.lock("")
    assert refused.value.failure.field_violations[0].field == "name"
    with pytest.raises(ValueError, match="not negative"):
        client.lock("a", wait=-1)
