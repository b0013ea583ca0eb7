"""Blocks that are left elsewhere than they were entered, and holds that are forgotten or entered too late: all are released."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator

import pytest
from conftest import Coordinator
from together import force

import leasehold_client
import leasehold_client.sync


@pytest.fixture
async def held(shared: Coordinator) -> AsyncIterator[leasehold_client.Hold]:
    """A fixture, which is set up and torn down by tasks of their own."""
    async with leasehold_client.connect(shared.url) as client:
        async with client.lock("of a fixture", wait=0) as lock:
            yield lock
        # Free at once.
        async with client.lock("of a fixture", wait=0):
            pass


@pytest.mark.parametrize("time", [1, 2])
async def test_a_fixture_is_released(held: leasehold_client.Hold, time: int) -> None:
    held.check()


async def in_task(work: object) -> object:
    return await asyncio.create_task(work)  # type: ignore[arg-type]


async def test_an_exit_stack_that_another_task_leaves_releases(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    stack = contextlib.AsyncExitStack()
    hold = await client.lock(name + "3").acquire()
    await in_task(stack.enter_async_context(client.lock(name)))
    await in_task(stack.enter_async_context(client.lock_all([name + "1", name + "2"])))
    await in_task(stack.enter_async_context(hold))
    await in_task(stack.enter_async_context(client.semaphore(name + "4", 1).permits()))
    await stack.aclose()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    async with other.lock_all([name, name + "1", name + "2", name + "3"], wait=0), other.semaphore(name + "4", 1).permits(wait=0):
        pass


async def test_tasks_that_share_a_request_leave_what_they_entered(client: leasehold_client.Client, name: str) -> None:
    request = client.lock(name, shared=True)
    stack = contextlib.AsyncExitStack()
    first = await in_task(stack.enter_async_context(request))
    async with request as second:
        await in_task(stack.aclose())
        assert isinstance(first, leasehold_client.Hold) and first.lost_reason is leasehold_client.LostReason.RELEASED
        second.check()


async def test_a_generator_that_is_dropped_or_closed_elsewhere_releases(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    async def rows(of: str) -> AsyncIterator[int]:
        async with client.lock(of):
            yield 1
            yield 2

    async def first_of(one: AsyncIterator[int]) -> int:
        return await anext(one)

    left = rows(name)
    await in_task(first_of(left))
    await in_task(left.aclose())  # type: ignore[attr-defined]
    async for _ in rows(name + "2"):
        break
    gc.collect()
    async with other.lock_all([name, name + "2"], wait=10):
        pass


async def test_a_loss_is_told_to_the_task_that_leaves(client: leasehold_client.Client, name: str) -> None:
    stack = contextlib.AsyncExitStack()
    lock = await in_task(stack.enter_async_context(client.lock(name)))
    assert isinstance(lock, leasehold_client.Hold)
    force(client, name)
    await lock.lost.wait()
    with pytest.raises(leasehold_client.LockLost):
        await stack.aclose()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_body_does_not_begin_without_its_lock(client: leasehold_client.Client, name: str) -> None:
    released, lost = await client.lock(name).acquire(), await client.lock(name + "2").acquire()
    several = await client.lock_all([name + "3", name + "4"]).acquire()
    await released.release()
    force(client, name + "2")
    force(client, name + "4")
    await lost.lost.wait()
    await several[1].lost.wait()
    for hold in (released, lost, several):
        with pytest.raises(leasehold_client.LockLost):
            async with hold:
                raise AssertionError("the body has begun")
    await several.release()


def test_another_thread_that_leaves_a_block_releases(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url) as client, leasehold_client.sync.connect(shared.url) as other:
        stack, request = contextlib.ExitStack(), client.lock(name)
        for one in (request, client.lock_all([name + "1", name + "2"]), client.lock(name + "3").acquire()):
            thread = threading.Thread(target=stack.enter_context, args=(one,))
            thread.start()
            thread.join()
        stack.close()
        with other.lock_all([name, name + "1", name + "2", name + "3"], wait=0):
            pass
        # One that was not entered has nothing to leave.
        request.__exit__(None, None, None)


def test_a_body_of_a_thread_does_not_begin_without_its_lock(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url) as client:
        released, lost = client.lock(name).acquire(), client.lock_all([name + "2", name + "3"]).acquire()
        released.release()
        client.admin.force_release(name + "3")
        assert lost[1].lost.wait(30)
        for hold in (released, lost):
            with pytest.raises(leasehold_client.LockLost):
                with hold:
                    raise AssertionError("the body has begun")
        lost.release()


def test_a_hold_that_a_thread_forgets_is_released_with_a_warning(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url) as client, leasehold_client.sync.connect(shared.url) as other:
        with pytest.warns(ResourceWarning, match=f"lock '{name}' was dropped"):
            if client.lock(name, on_lost=lambda _: None).try_acquire():
                pass
            gc.collect()
        with other.lock(name, wait=10) as kept:
            told = threading.Event()
            kept_too = client.lock(name + "2", on_lost=lambda _: told.set()).acquire()
            gc.collect()
            kept.check()
            other.admin.force_release(name + "2")
            assert told.wait(30)
            assert not kept_too.release()
