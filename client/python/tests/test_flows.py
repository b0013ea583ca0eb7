"""The flow that asks: what it holds itself is an error at once, or held once more, and what others hold is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Coordinator
from together import waits

import leasehold_client
import leasehold_client.sync
from leasehold_client import Actor, SelfDeadlock


async def test_a_flow_that_asks_for_what_it_holds_gets_an_error_at_once(client: leasehold_client.Client, name: str) -> None:
    @client.lock(name)
    async def work() -> None:
        with pytest.raises(SelfDeadlock):
            await client.lock(name).acquire()
        with pytest.raises(SelfDeadlock):
            await client.lock_all(["x" + name, name]).acquire()
        async with client.lock(name, reentrant=True) as again:
            assert again.hold_count == 2
        with pytest.raises(leasehold_client.TimedOut):
            await client.lock(name, actor=Actor(), wait=0.01).acquire()
        assert leasehold_client.Hold.current().name == name

    await work()
    with pytest.raises(LookupError):
        leasehold_client.Hold.current()
    await client.lock(name).run(lambda: work_in(client, name))
    tried = await client.lock(name).try_acquire()
    assert tried
    async with tried, client.lock(name + "2"):
        for held in (name, name + "2"):
            with pytest.raises(SelfDeadlock):
                await client.lock(held).acquire()
    async for term in client.election(name + "e"):
        async with term:
            with pytest.raises(SelfDeadlock):
                await client.lock(name + "e").acquire()
        break
    # Nothing is left of it.
    async with client.lock(name), client.lock(name + "2"):
        pass
    async with client.lock(name):
        pass


async def work_in(client: leasehold_client.Client, name: str) -> None:
    with pytest.raises(SelfDeadlock):
        await client.lock(name).acquire()


async def test_a_plain_hold_marks_no_flow(client: leasehold_client.Client, name: str) -> None:
    hold = await client.lock(name).acquire()
    waiting = asyncio.create_task(client.lock(name).acquire())
    await waits(client, name)
    asyncio.get_running_loop().call_later(0.01, lambda: asyncio.ensure_future(hold.release()))
    async with await waiting:
        pass
    with pytest.raises(leasehold_client.TimedOut):
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback((await client.lock(name).acquire()).release)
            await client.lock(name, wait=0.01).acquire()


async def test_tasks_that_a_body_begins_are_flows_of_their_own(client: leasehold_client.Client, name: str) -> None:
    at_once = 0

    async def share() -> None:
        nonlocal at_once
        async with client.lock(name + "2"):
            at_once += 1
            assert at_once == 1
            await asyncio.sleep(0.001)
            at_once -= 1

    async with client.lock(name):
        await asyncio.gather(*(share() for _ in range(5)))
        later = asyncio.create_task(client.lock(name).acquire())
        await waits(client, name)
    await (await later).release()
    # Of a body that has ended, nothing is left in the task that it began.
    ended = asyncio.Event()

    async def after() -> None:
        await ended.wait()
        async with client.lock(name):
            pass

    async with client.lock(name):
        task = asyncio.create_task(after())
    ended.set()
    await task


async def test_flows_that_wait_for_one_another_are_a_deadlock_without_a_word(client: leasehold_client.Client, name: str) -> None:
    barrier = asyncio.Barrier(2)

    async def both(first: str, second: str) -> None:
        async with client.lock(first):
            await barrier.wait()
            async with client.lock(second):
                pass

    ends = await asyncio.gather(both(name, name + "2"), both(name + "2", name), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["Deadlock", "NoneType"]


def test_a_thread_that_asks_for_what_it_holds_gets_an_error_at_once(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url) as client:

        @client.lock(name)
        def work() -> None:
            assert leasehold_client.sync.Hold.current().is_held
            with pytest.raises(SelfDeadlock):
                client.lock(name).acquire()
            with client.lock(name, reentrant=True) as again:
                assert again.hold_count == 2
            # Another thread is another flow.
            thread.start()
            while not client.admin.get_lock(name).waiter_count:
                pass

        def other() -> None:
            with client.lock(name):
                ran.append(1)

        ran: list[int] = []
        thread = threading.Thread(target=other)
        work()
        thread.join()
        assert ran == [1]
        tried = client.lock(name).try_acquire()
        assert tried
        with tried:
            with pytest.raises(SelfDeadlock):
                client.lock(name).acquire()
        for term in client.election(name):
            with term:
                with pytest.raises(SelfDeadlock):
                    client.lock(name).acquire()
            break
        hold = client.lock(name).acquire()
        with pytest.raises(leasehold_client.TimedOut):
            client.lock(name, wait=0.01).acquire()
        assert hold.release()


async def test_which_flow_of_tasks_asks(client: leasehold_client.Client, name: str) -> None:
    async def is_refused(*names: str) -> None:
        for one in names:
            with pytest.raises(SelfDeadlock):
                await client.lock(one).acquire()

    async def waits_for(one: str) -> None:
        with pytest.raises(leasehold_client.TimedOut):
            await client.lock(one, wait=0.01).acquire()

    detached = await client.detached_lock(name + "d").acquire()
    async with client.lock(name):
        async with client.lock_all([name + "2", name + "3"]), client.semaphore(name + "s", 2):
            plain = await client.lock(name + "p").acquire()
            await is_refused(name, name + "2", name + "3", name + "p")
            with pytest.raises(SelfDeadlock):
                await client.semaphore(name + "s", 2).acquire()
            # What no session holds belongs to no flow.
            await waits_for(name + "d")
            with pytest.raises(leasehold_client.TimedOut):
                await client.detached_lock(name, wait=0.01).acquire()
            await asyncio.create_task(waits_for(name))
        await is_refused(name, name + "p")
    await waits_for(name + "p")
    assert await plain.release() and await detached.release()


def test_which_flow_of_threads_asks(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url) as client:

        def is_refused(*names: str) -> None:
            for one in names:
                with pytest.raises(SelfDeadlock):
                    client.lock(one).acquire()

        def waits_for(one: str) -> None:
            with pytest.raises(leasehold_client.TimedOut):
                client.lock(one, wait=0.01).acquire()

        detached = client.detached_lock(name + "d").acquire()
        with client.lock(name):
            with client.lock_all([name + "2", name + "3"]), client.semaphore(name + "s", 2):
                plain = client.lock(name + "p").acquire()
                is_refused(name, name + "2", name + "3", name + "p")
                with pytest.raises(SelfDeadlock):
                    client.semaphore(name + "s", 2).acquire()
                waits_for(name + "d")
                with pytest.raises(leasehold_client.TimedOut):
                    client.detached_lock(name, wait=0.01).acquire()
                # Another thread is another flow, also with the context of this one.
                with ThreadPoolExecutor(1) as threads:
                    threads.submit(contextvars.copy_context().run, waits_for, name).result()
            is_refused(name, name + "p")
        waits_for(name + "p")
        assert plain.release() and detached.release()
