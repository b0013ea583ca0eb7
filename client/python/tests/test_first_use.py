"""Clients and locks that are made before there is a coordinator, a loop or a fork, and what may be done with a request."""

from __future__ import annotations

import asyncio
import inspect
import math
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from conftest import Coordinator, Start
from together import waits

import leasehold_client
import leasehold_client.sync
from leasehold_client import _options, detached
from leasehold_client import client as client_module


def test_the_arguments_of_an_acquire_and_of_a_client_stand_once() -> None:
    given = set(inspect.signature(_options.acquire).parameters) - {"locks", "default_wait", "several"}
    assert given == set(_options.AcquireOptions.__annotations__)
    given = set(inspect.signature(detached.DetachedOptions.of).parameters) - {"lock", "named"}
    assert given == set(detached.DetachedArguments.__annotations__)
    given = set(inspect.signature(leasehold_client.connect).parameters) - {"endpoints"}
    assert given == set(client_module.ConnectOptions.__annotations__)


def test_a_client_of_a_module_connects_in_the_loop_that_uses_it_first(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url)
    lock, election, semaphore = client.lock(name), client.election(name + "e"), client.semaphore(name + "s", 1)
    assert client.info is None and "not connected" in repr(client)

    @client.lock(name + "f", wait=5)
    async def work(number: int) -> int:
        return number + 1

    async def main() -> None:
        assert [*await asyncio.gather(work(1), work(2), work(number=3))] == [2, 3, 4]
        async with lock as held, semaphore as permit:
            assert held.is_held and permit.permits == 1
        assert await election.leader() is None
        await (await election.campaign()).resign()
        await client.close()
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [lock.acquire, election.campaign, election.leader, lambda: work(1)]
        for call in calls:
            with pytest.raises(leasehold_client.SessionClosed):
                await call()

    asyncio.run(main())


def test_a_client_of_a_module_connects_when_a_coordinator_is_there(start: Start, name: str) -> None:
    coordinator = start()
    coordinator.kill()
    client = leasehold_client.sync.connect(coordinator.url)
    lock = client.lock(name)
    with pytest.raises(leasehold_client.ConnectError):
        lock.acquire()
    coordinator.restart()
    with lock as held:
        held.check()
    client.close()
    with pytest.raises(leasehold_client.SessionClosed):
        lock.acquire()


FORKS = """
    import os, sys, leasehold_client.sync

    client = leasehold_client.sync.connect(sys.argv[1])
    lock, election, semaphore = client.lock(sys.argv[2]), client.election("e"), client.semaphore("s", 3)

    @client.lock(sys.argv[2])
    def work():
        return os.getpid()

    def use():
        with lock as held, semaphore:
            held.check()
        assert work() == os.getpid() and election.leader() is None
        assert not lock.locked()

    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            use()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    # Nothing was used here before.
    use()
    client.close()
    print("used")
"""


def test_a_client_of_a_module_connects_in_the_process_that_uses_it_first(shared: Coordinator, name: str) -> None:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(FORKS), shared.url, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "used\n"), done.stderr


async def test_one_acquire_may_have_another_timeout(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    request = other.lock(name, wait=600)
    async with client.lock(name):
        with pytest.raises(leasehold_client.TimedOut):
            await request.acquire(timeout=0.01)
        with pytest.raises(leasehold_client.Busy):
            await request.acquire(timeout=0)
        with pytest.raises(TypeError, match="timeout"):
            await request.acquire(timeout="5")  # type: ignore[arg-type]
        waiting = asyncio.create_task(other.lock(name, wait=0).acquire(timeout=math.inf))
        await waits(client, name)
    assert await (await waiting).release()


async def test_a_client_may_bound_the_waits_that_name_none(shared: Coordinator, client: leasehold_client.Client, name: str) -> None:
    async with leasehold_client.connect(shared.url, wait=0.01) as bounded, client.lock(name), client.semaphore(name + "s", 1):
        for request in (bounded.lock(name), bounded.lock_all([name]), bounded.semaphore(name + "s", 1)):
            with pytest.raises(leasehold_client.TimedOut):
                await request.acquire()
        waiting = asyncio.create_task(bounded.lock(name, wait=math.inf).acquire())
        campaign = asyncio.create_task(bounded.election(name).campaign())
        await waits(client, name, 2)
        for task in (waiting, campaign):
            task.cancel()
        await asyncio.wait([waiting, campaign])
        # It was cancelled; a campaign had no bound either.
        assert waiting.cancelled() and campaign.cancelled()


async def test_locked(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    assert not await client.lock(name).locked()
    async with other.lock(name):
        assert await client.lock(name).locked() and await client.lock_all([name + "2", name]).locked()
    async with other.lock(name, shared=True):
        assert await client.lock(name).locked() and not await client.lock(name, shared=True).locked()
    semaphore = client.semaphore(name + "s", 2)
    async with other.semaphore(name + "s", 2):
        assert not await semaphore.locked() and await semaphore.permits(2).locked()
        assert not await semaphore.permits(2, at_least=1).locked()
        # Of another flow, which does not wait for this one.
        async with other.semaphore(name + "s", 2, actor=leasehold_client.Actor()):
            assert await semaphore.locked()
    with leasehold_client.sync.connect(client._settings.urls) as threads:
        assert not await asyncio.to_thread(threads.lock(name).locked)


async def test_decorated_functions_hold_the_lock(client: leasehold_client.Client, other: leasehold_client.Client, name: str) -> None:
    @client.lock(name, wait=5)
    async def work(number: int, *, more: int = 0) -> int:
        """Works."""
        with pytest.raises(leasehold_client.Busy):
            await other.lock(name, wait=0).acquire()
        return number + more

    assert [*await asyncio.gather(work(1), work(2, more=3))] == [1, 5]
    assert (work.__name__, work.__doc__) == ("work", "Works.") and inspect.iscoroutinefunction(work)

    @client.semaphore(name + "s", 1)
    async def fails() -> None:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await fails()

    def function() -> None: ...
    async def generator() -> Any:
        yield

    for wrong in (function, generator, 5):
        with pytest.raises(TypeError):
            client.lock(name)(wrong)  # type: ignore[arg-type]
    with leasehold_client.sync.connect(client._settings.urls) as threads:
        with pytest.raises(TypeError, match="asyncio"):
            threads.lock(name)(fails)

        @threads.lock(name)
        def add(one: int, two: int) -> int:
            return one + two

        assert add(1, two=2) == 3


async def test_a_function_whose_lock_is_busy_may_be_skipped(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @client.lock(name, if_busy="skip")
    async def nightly() -> str:
        ran.append("ran")
        return "done"

    async with other.lock(name):
        assert await nightly() is None
        assert await client.lock(name, if_busy="skip", wait=0.01).run(nightly) is None
    assert ran == []
    assert await nightly() == "done" and ran == ["ran"]
    with pytest.raises(TypeError, match="block"):
        async with client.lock(name, if_busy="skip"):
            raise AssertionError
    with leasehold_client.sync.connect(client._settings.urls) as threads:
        skipping = threads.lock(name, if_busy="skip")
        async with other.lock(name):
            await asyncio.to_thread(skipping.run, ran.append, "never")
        await asyncio.to_thread(skipping.run, ran.append, "in a thread")
        with pytest.raises(TypeError, match="block"):
            with skipping:
                raise AssertionError
    assert ran == ["ran", "in a thread"]
    assert [record for record in caplog.records if record.name == "leasehold_client" and record.levelno >= 30] == []


def test_threads_that_use_a_client_first_at_once_open_one_session(shared: Coordinator, name: str) -> None:
    client = leasehold_client.sync.connect(shared.url, client_name=name[-64:])
    barrier, failed = threading.Barrier(8), []

    def work() -> None:
        barrier.wait()
        try:
            with client.lock(name):
                pass
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sum(one.client_name == name[-64:] for one in client.admin.list_sessions()) == 1
    client.close()


PAIRS = [
    (leasehold_client.Client, leasehold_client.sync.Client),
    (leasehold_client.Session, leasehold_client.sync.Session),
    (leasehold_client.LockRequest, leasehold_client.sync.LockRequest),
    (leasehold_client.Semaphore, leasehold_client.sync.Semaphore),
    (leasehold_client.Hold, leasehold_client.sync.Hold),
    (leasehold_client.Holds, leasehold_client.sync.Holds),
    (leasehold_client.DetachedRequest, leasehold_client.sync.DetachedRequest),
    (leasehold_client.DetachedLock, leasehold_client.sync.DetachedLock),
    (leasehold_client.Election, leasehold_client.sync.Election),
    (leasehold_client.Term, leasehold_client.sync.Term),
    (leasehold_client.Observer, leasehold_client.sync.Observer),
    (leasehold_client.Admin, leasehold_client.sync.Admin),
    (leasehold_client.Watcher, leasehold_client.sync.Watcher),
]


@pytest.mark.parametrize(("tasks", "threads"), PAIRS, ids=lambda one: one.__name__)
def test_threads_have_what_tasks_have(tasks: type, threads: type) -> None:
    def public(one: type) -> set[str]:
        return {name for name in dir(one) if not name.startswith("_")}

    # `close` of a feed, and the session itself, whose waits are those of its client.
    assert public(tasks) - public(threads) <= {"aclose", "session", "lost"}
    for name in public(threads):
        assert inspect.getdoc(getattr(threads, name)), f"{threads.__name__}.{name} has no documentation"


def test_what_is_shown_is_short_and_has_no_secrets(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url, token="lh_secret") as client:
        lock = client.detached_lock(name + "d").acquire()
        with client.lock(name, value="lh_secret") as hold, client.new_session() as session:
            shown = [client, client._inner, hold, client.lock(name), client.semaphore(name, 2), client.election(name), session, lock]
            for one in shown:
                assert len(repr(one)) < 200 and "lh_secret" not in repr(one) and repr(lock._inner.owner_id) not in repr(one)
                assert " object at 0x" not in repr(one), repr(one)
        lock.release()
