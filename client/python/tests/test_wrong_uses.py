"""Uses at the wrong time or place: opened by several at once, closed, in another event loop, in another thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Coordinator, Start, free_port

import leasehold_client
import leasehold_client.sync
from leasehold_client._candidate import Candidate


def sessions(url: str, name: str) -> int:
    """Returns how many sessions a coordinator has of clients of this name."""
    with leasehold_client.sync.connect(url) as other:
        return sum(one.client_name == name for one in other.admin.list_sessions())


def loops() -> int:
    """Returns how many event loops of clients run."""
    return sum(thread.name == "leasehold" for thread in threading.enumerate())


def test_threads_that_open_a_client_at_once_open_one_session(shared: Coordinator, name: str) -> None:
    name = name[-64:]
    before = loops()
    client = leasehold_client.sync.connect(shared.url, client_name=name)
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        client.open()
        with client.lock(name):
            pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sessions(shared.url, name) == 1
    client.close()
    client.close()
    assert loops() == before
    while sessions(shared.url, name):
        time.sleep(0.01)


async def test_tasks_that_open_a_client_at_once_open_one_session(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url, client_name=name)
    await asyncio.gather(*(client.open() for _ in range(8)))
    assert await asyncio.to_thread(sessions, shared.url, name) == 1
    await client.close()
    while await asyncio.to_thread(sessions, shared.url, name):
        await asyncio.sleep(0.01)


async def test_a_client_that_could_not_be_opened_can_be_opened_later(start: Start) -> None:
    coordinator = start()
    coordinator.kill()
    client = leasehold_client.connect(coordinator.url)
    failed = await asyncio.gather(*(client.open() for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in failed] == [leasehold_client.ConnectError] * 3
    await asyncio.to_thread(coordinator.restart)
    async with client:
        assert client.info


async def test_a_client_that_is_closed_while_it_opens_stays_closed(start: Start) -> None:
    coordinator = start()
    coordinator.stop()
    client = leasehold_client.connect(coordinator.url, connect_timeout=60)
    opening = [asyncio.create_task(client.open()) for _ in range(2)]
    while client._opened is None:
        await asyncio.sleep(0.001)
    await client.close()
    assert [type(one) for one in await asyncio.gather(*opening, return_exceptions=True)] == [leasehold_client.SessionClosed] * 2
    coordinator.go_on()


async def test_every_call_after_a_close_says_that_it_is_closed(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url)
    async with client:
        hold = await client.lock(name).acquire()
        request, election, admin, session = client.lock(name), client.election(name + "e"), client.admin, client.new_session()
        async with election.observe() as observer, admin.watch() as watcher:
            await anext(observer)
            await anext(watcher)
            waiting = [asyncio.create_task(anext(observer)) for _ in range(2)]
            await asyncio.sleep(0)
            await client.close()
            for one in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(one, leasehold_client.SessionClosed)
    await session.close()
    calls: list[Callable[[], Any]] = [
        request.acquire,
        request.try_acquire,
        request.__aenter__,
        lambda: client.lock_all([name]).acquire(),
        lambda: client.semaphore(name, 3).permits().acquire(),
        election.campaign,
        election.leader,
        election.__aiter__().__anext__,
        observer.__anext__,
        watcher.__anext__,
        lambda: admin.get_lock(name),
        admin.status,
        client.open,
        client.__aenter__,
        session.open,
        lambda: leasehold_client.Client.lock(client.on(session), name).acquire(),
    ]
    for call in calls:
        with pytest.raises(leasehold_client.SessionClosed):
            await call()
    assert hold.lost_reason is leasehold_client.LostReason.SESSION_CLOSED and not await hold.release()
    never = leasehold_client.connect(shared.url)
    await never.close()
    with pytest.raises(leasehold_client.SessionClosed):
        never.lock(name)


def test_every_call_of_a_thread_after_a_close_says_that_it_is_closed(shared: Coordinator, name: str) -> None:
    client = leasehold_client.sync.connect(shared.url)
    with client:
        hold = client.lock(name).acquire()
        request, election, admin, session = client.lock(name), client.election(name), client.admin, client.new_session()
        observer, watcher = election.observe(), admin.watch()
        next(observer)
    calls: list[Callable[[], Any]] = [
        request.acquire,
        request.try_acquire,
        request.__enter__,
        lambda: client.lock_all([name]).acquire(),
        lambda: client.semaphore(name, 3).permits().acquire(),
        election.campaign,
        election.leader,
        lambda: next(iter(election)),
        lambda: next(observer),
        lambda: next(watcher),
        lambda: admin.get_lock(name),
        admin.status,
        client.open,
        client.__enter__,
        session.open,
    ]
    for call in calls:
        with pytest.raises(leasehold_client.SessionClosed):
            call()
    assert hold.lost_reason is leasehold_client.LostReason.SESSION_CLOSED and not hold.release()
    observer.close()
    session.close()
    client.close()


def test_calls_that_cross_a_close_end_with_an_error_of_the_library(shared: Coordinator, name: str) -> None:
    name = name[-64:]
    seen: list[BaseException] = []
    for _ in range(20):
        client = leasehold_client.sync.connect(shared.url)
        client.open()
        begun = threading.Barrier(9)

        def work(client: leasehold_client.sync.Client, begun: threading.Barrier) -> None:
            begun.wait()
            try:
                while True:
                    with client.lock(name):
                        client.admin.get_lock(name)
            except BaseException as error:
                seen.append(error)

        threads = [threading.Thread(target=work, args=(client, begun)) for _ in range(8)]
        for thread in threads:
            thread.start()
        begun.wait()
        client.close()
        for thread in threads:
            thread.join()
    assert len(seen) == 160
    assert [one for one in seen if not isinstance(one, leasehold_client.LeaseholdError)] == []


async def test_another_event_loop_gets_an_error_and_a_hold_is_given_back_all_the_same(client: leasehold_client.Client, name: str) -> None:
    async with client.lock(name + "kept") as kept:
        hold = await client.lock(name).acquire()
        left = await client.lock(name + "2").acquire()

        async def leave() -> None:
            async with left:
                pass

        calls: list[Callable[[], Any]] = [
            client.lock(name).acquire,
            client.new_session,
            lambda: client.election(name).campaign(),
            lambda: client.admin.status(),
            lambda: hold.set_value("x"),
            hold.changed,
            hold.release,
            leave,
        ]
        # It belongs to this loop from its first use on.
        await client.admin.status()

        def elsewhere(call: Callable[[], Any]) -> None:
            async def there() -> None:
                result = call()
                await (result.open() if isinstance(result, leasehold_client.Session) else result)

            asyncio.run(there())

        for call in calls:
            if call == client.new_session:
                # One that is made there belongs there.
                continue
            with pytest.raises(RuntimeError, match="another event loop"):
                await asyncio.to_thread(elsewhere, call)
        for free in (name, name + "2"):
            async with client.lock(free, wait=10):
                pass
        kept.check()


def test_a_client_of_a_loop_that_has_ended_gets_an_error(shared: Coordinator, name: str) -> None:
    client = leasehold_client.connect(shared.url)
    asyncio.run(client.open())

    async def acquire() -> None:
        await client.lock(name).acquire()

    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(acquire())
    asyncio.run(client.close())


GREEN = """
    import sys
    {patch}
    import leasehold_client, leasehold_client.sync
    client = leasehold_client.sync.connect(sys.argv[1])
    try:
        client.open()
    except leasehold_client.MonkeyPatched as error:
        print(error)
"""


@pytest.mark.parametrize(
    "patch",
    [
        "from gevent import monkey; monkey.patch_all()",
        "from gevent import monkey; monkey.patch_all(thread=False)",
        "import eventlet; eventlet.monkey_patch()",
    ],
)
def test_a_process_whose_threads_were_replaced_gets_an_error_and_goes_on(shared: Coordinator, patch: str) -> None:
    library = "gevent" if "gevent" in patch else "eventlet"
    pytest.importorskip(library)
    program = textwrap.dedent(GREEN).format(patch=patch)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, shared.url], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(f"{library} has replaced the threads of this process") and "gunicorn -k gthread" in done.stdout


APP = """
    import leasehold_client, leasehold_client.sync
    client = leasehold_client.sync.connect({url!r})

    def application(environ, respond):
        try:
            with client:
                said = "served"
        except leasehold_client.MonkeyPatched as error:
            said = type(error).__name__
        respond("200 OK", [])
        return [said.encode()]
"""


@pytest.mark.parametrize(("worker", "says"), [("gevent", "MonkeyPatched"), ("gthread", "served")])
def test_workers_of_gunicorn_answer(shared: Coordinator, tmp_path: Path, worker: str, says: str) -> None:
    for needed in ("gunicorn", "gevent"):
        pytest.importorskip(needed)
    (tmp_path / "app.py").write_text(textwrap.dedent(APP).format(url=shared.url))
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "gunicorn", "-k", worker, "--chdir", str(tmp_path), "-b", f"127.0.0.1:{port}", "app"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                    assert answer.read().decode() == says
                break
            except urllib.error.URLError:
                assert process.poll() is None
                time.sleep(0.05)
    finally:
        process.terminate()
        process.wait()


def test_a_candidate_does_not_try_the_port_of_the_page_for_ever(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    admin = free_port()
    start("memory:", admin_port=admin)
    candidate = Candidate(leasehold_client.sync.connect(f"http://127.0.0.1:{admin}"), "page")
    candidate.start()
    assert candidate._thread
    candidate._thread.join()
    assert ["7421" in record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [True]
    candidate.stop()
