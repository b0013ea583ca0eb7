"""The end of a client while work runs under its locks: the work is told, and the locks are handed on when it has ended."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from conftest import Coordinator
from together import force, waits

import leasehold_client
import leasehold_client.sync
from leasehold_client import LostReason, SessionClosed


async def test_a_close_stops_bodies_and_waits_for_their_end(shared: Coordinator, other: leasehold_client.Client, name: str) -> None:
    client = leasehold_client.connect(shared.url, ttl=1)
    begun, waited = asyncio.Barrier(4), asyncio.Event()
    ended: list[str] = []

    async def clean_up(lock: leasehold_client.Hold, what: str) -> None:
        try:
            await begun.wait()
            await asyncio.sleep(60)
        finally:
            # Past the TTL, which is renewed meanwhile.
            await waited.wait()
            assert lock.is_held and lock.lost_reason is None and lock.lost.is_set()
            with pytest.raises(SessionClosed, match="is being closed"):
                lock.check()
            ended.append(what)

    async def block() -> None:
        async with client.lock(name) as lock:
            await clean_up(lock, "block")

    @client.lock(name + "2")
    async def decorated() -> None:
        await clean_up(leasehold_client.Hold.current(), "decorated")

    async def lead() -> None:
        async for term in client.election(name + "3"):
            async with term:
                await clean_up(term, "term")

    tasks = [asyncio.create_task(one()) for one in (block, decorated, lead)]
    await begun.wait()
    plain = await client.lock(name + "4").acquire()
    waiting = asyncio.create_task(client.lock(name).acquire())
    following = asyncio.create_task(other.lock(name).acquire())
    await waits(other, name, 2)
    closing = [asyncio.create_task(client.close()) for _ in range(2)]
    with pytest.raises(SessionClosed):
        await waiting
    with pytest.raises(SessionClosed):
        await client.lock(name + "5").acquire()
    await asyncio.sleep(1.5)
    assert not following.done() and not any(one.done() for one in closing) and plain.is_held
    waited.set()
    await asyncio.gather(*closing)
    assert sorted(ended) == ["block", "decorated", "term"]
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(error, SessionClosed)
    assert plain.lost_reason is LostReason.SESSION_CLOSED
    assert await (await following).release()
    await client.close()


async def test_what_a_body_makes_of_the_close_counts(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url)
    begun = asyncio.Barrier(4)

    @client.lock(name)
    async def returns() -> str:
        await begun.wait()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "its own result"
        return ""

    @client.lock(name + "2")
    async def fails() -> None:
        await begun.wait()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    @client.lock(name + "3")
    async def finds_out(lock: str) -> None:
        await begun.wait()
        await asyncio.sleep(60)

    tasks = [asyncio.create_task(one) for one in (returns(), fails(), finds_out("x"))]
    await begun.wait()
    await client.close()
    said = await asyncio.gather(*tasks, return_exceptions=True)
    assert said[0] == "its own result" and isinstance(said[1], ZeroDivisionError) and isinstance(said[2], SessionClosed)
    assert all(task.cancelling() == 0 for task in tasks)


async def test_a_close_does_not_wait_for_longer_than_it_may(
    shared: Coordinator, other: leasehold_client.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for timeout, setting in ((0.05, 60), (None, 0.05), (0, 60)):
        client = leasehold_client.connect(shared.url, close_timeout=setting)
        begun, free = asyncio.Event(), asyncio.Event()

        async def work(client: leasehold_client.Client, begun: asyncio.Event, free: asyncio.Event) -> None:
            async with client.lock_all([name, name + "2"]):
                begun.set()
                while not free.is_set():
                    try:
                        await free.wait()
                    except asyncio.CancelledError:
                        continue

        task = asyncio.create_task(work(client, begun, free))
        await begun.wait()
        await client.close(timeout=timeout)
        async with other.lock(name, wait=10):
            pass
        free.set()
        with pytest.raises(leasehold_client.LockLost) as lost:
            await task
        assert lost.value.reason is LostReason.SESSION_CLOSED
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 1 and f"'{name}', '{name}2'" in warnings[0]
        caplog.clear()


async def test_a_close_from_within_a_body_does_not_wait_for_itself(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url, close_timeout=600)
    other_begun = asyncio.Event()

    async def other_body() -> None:
        async with client.lock(name + "2"):
            other_begun.set()
            await asyncio.sleep(600)

    task = asyncio.create_task(other_body())
    await other_begun.wait()
    with pytest.raises(leasehold_client.LockLost):
        async with client.lock(name):
            await client.close()
    with pytest.raises(SessionClosed):
        await task
    again = leasehold_client.sync.connect(shared.url, close_timeout=600)

    def thread() -> None:
        with again.lock(name):
            again.close()

    with pytest.raises(leasehold_client.LockLost):
        await asyncio.to_thread(thread)


async def test_a_close_ends_the_other_sessions_of_the_client(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url)
    async with client:
        session = client.new_session()
        await session.open()
        hold = await client.on(session).lock(name).acquire()
    assert hold.lost_reason is LostReason.SESSION_CLOSED


def test_a_close_tells_threads_and_waits_for_them(shared: Coordinator, name: str) -> None:
    client = leasehold_client.sync.connect(shared.url, ttl=1)
    told, begun, may_end = [], threading.Barrier(4), threading.Event()
    failed: list[BaseException | str] = []

    def on_lost(hold: leasehold_client.sync.Hold) -> None:
        told.append(hold.name)

    def checks() -> None:
        with client.lock(name, on_lost=on_lost) as lock:
            begun.wait()
            while True:
                lock.check()
                time.sleep(0.001)

    @client.lock_all([name + "2", name + "3"])
    def waits_for_event() -> str:
        begun.wait()
        may_end.wait()
        return "done"

    def leads() -> None:
        for term in client.election(name + "4"):
            with term:
                begun.wait()
                term.lost.wait()
                assert term.is_held
                term.check()

    def run(work: object) -> None:
        try:
            failed.append(work())  # type: ignore[operator]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in (checks, waits_for_event, leads)]
    for thread in threads:
        thread.start()
    begun.wait()
    closers = [threading.Thread(target=client.close) for _ in range(2)]
    for thread in closers:
        thread.start()
    with leasehold_client.sync.connect(shared.url) as other:
        # The others have ended.
        with other.lock_all([name, name + "4"], wait=30):
            pass
        with pytest.raises(SessionClosed):
            client.lock(name).acquire()
        time.sleep(1.2)
        assert other.lock(name + "2").try_acquire() is None
        may_end.set()
        for thread in [*closers, *threads]:
            thread.join()
        with other.lock_all([name + "2", name + "3"], wait=0):
            pass
    assert sorted(type(one).__name__ for one in failed) == ["SessionClosed", "SessionClosed", "str"]
    assert told == [name]


def test_a_loss_during_a_close_is_a_loss(shared: Coordinator, name: str) -> None:
    async def main() -> None:
        client = leasehold_client.connect(shared.url)
        begun, over = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            async with client.lock(name) as lock:
                begun.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    force(client, name)
                    assert await lock.wait_lost() is LostReason.FORCED
                    over.set()

        task = asyncio.create_task(work())
        await begun.wait()
        await client.close()
        with pytest.raises(leasehold_client.LockLost):
            await task

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["asyncio", "threads"])
def test_a_hundred_closes_let_nobody_in_beside_the_work(
    shared: Coordinator, name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    inside, most, rounds = 0, 0, 100

    def enter(by: int) -> None:
        nonlocal inside, most
        inside += by
        most = max(most, inside)

    async def tasks() -> None:
        async def work(client: leasehold_client.Client, begun: asyncio.Event) -> None:
            async with client.lock(name):
                enter(1)
                begun.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.002)
                    enter(-1)

        before: tuple[leasehold_client.Client, asyncio.Task[None]] | None = None
        for _ in range(rounds):
            client, begun = leasehold_client.connect(shared.url), asyncio.Event()
            await client.open()
            task = asyncio.create_task(work(client, begun))
            if before:
                await waits(client, name)
                await before[0].close()
                await asyncio.gather(before[1], return_exceptions=True)
            await begun.wait()
            before = client, task
        if before:
            await before[0].close()
            await asyncio.gather(before[1], return_exceptions=True)

    def threads() -> None:
        def work(client: leasehold_client.sync.Client, begun: threading.Event) -> None:
            with client.lock(name) as lock:
                enter(1)
                begun.set()
                lock.lost.wait()
                time.sleep(0.002)
                enter(-1)

        before: tuple[leasehold_client.sync.Client, threading.Thread] | None = None
        for _ in range(rounds):
            client, begun = leasehold_client.sync.connect(shared.url), threading.Event()
            client.open()
            thread = threading.Thread(target=work, args=(client, begun))
            thread.start()
            if before:
                while not client.admin.get_lock(name).waiter_count:
                    time.sleep(0.001)
                before[0].close()
                before[1].join()
            begun.wait()
            before = client, thread
        if before:
            before[0].close()
            before[1].join()

    if kind == "asyncio":
        asyncio.run(tasks())
    else:
        threads()
    assert (inside, most) == (0, 1)
    assert [record.getMessage() for record in caplog.records if "did not end" in record.getMessage()] == []
