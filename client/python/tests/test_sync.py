"""The interface for threads, and forks, against real coordinators."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import Coordinator, Start

import leasehold_client
import leasehold_client.sync
from leasehold_client import LockState, LostReason


@pytest.fixture
def client(shared: Coordinator) -> Iterator[leasehold_client.sync.Client]:
    """A client of an undisturbed coordinator."""
    with leasehold_client.sync.connect(shared.url, client_name="test", ttl=4) as client:
        yield client


@pytest.fixture
def other(shared: Coordinator) -> Iterator[leasehold_client.sync.Client]:
    """Another client of it."""
    with leasehold_client.sync.connect(shared.url, client_name="other", ttl=4) as client:
        yield client


def test_locks(client: leasehold_client.sync.Client, other: leasehold_client.sync.Client, name: str) -> None:
    with client.lock(name) as lock:
        lock.check()
        assert other.lock(name).try_acquire() is None
        with pytest.raises(leasehold_client.TimedOut):
            other.lock(name, wait=0.05).acquire()
        lock.set_value("v")
        assert client.admin.get_lock(name).holders[0].value == b"v"
    assert lock.lost.is_set() and lock.lost_reason is LostReason.RELEASED
    hold = other.lock(name).try_acquire()
    assert hold and hold.token > lock.token
    assert hold.release() and hold.release()
    with other.lock(name) as lock:
        lock.downgrade()
        with client.lock(name, shared=True, wait=5):
            pass
    with client.lock_all([name + "2", name]) as locks, client.semaphore(name + "3", limit=3).permits(2) as permits:
        locks.check()
        assert permits.permits == 2
        permits.keep(1)
    with client.lock(name, reentrant=True), client.lock(name, reentrant=True) as inner:
        assert inner.hold_count == 2


def test_a_loss_is_told_by_check_event_callback_and_at_the_end(
    client: leasehold_client.sync.Client, other: leasehold_client.sync.Client, name: str
) -> None:
    told: list[leasehold_client.sync.Hold] = []
    called = threading.Event()

    def on_lost(hold: leasehold_client.sync.Hold) -> None:
        told.append(hold)
        # A callback may use the client.
        assert not hold.release()
        called.set()

    with pytest.raises(leasehold_client.LockLost) as lost:
        with client.lock(name, on_lost=on_lost) as lock:
            assert other.admin.force_release(name)
            assert lock.lost.wait(5)
            with pytest.raises(leasehold_client.LockLost):
                lock.check()
    assert lost.value.reason is LostReason.FORCED
    assert called.wait(5) and told == [lock]
    with client.lock(name, on_lost=on_lost):
        called.clear()
    # A release is no loss.
    assert not called.is_set()


def test_the_bodys_own_error_is_not_hidden_by_a_loss(
    client: leasehold_client.sync.Client, other: leasehold_client.sync.Client, name: str
) -> None:
    with pytest.raises(ZeroDivisionError) as failed:
        with client.lock(name) as lock:
            other.admin.force_release(name)
            lock.lost.wait(5)
            raise ZeroDivisionError
    assert isinstance(failed.value.__context__, leasehold_client.LockLost)
    with pytest.raises(ZeroDivisionError):
        with client.lock(name):
            raise ZeroDivisionError
    with other.lock(name, wait=5):
        pass


def test_threads_exclude_each_other(client: leasehold_client.sync.Client, other: leasehold_client.sync.Client, name: str) -> None:
    register = [0, 0]

    def work(through: leasehold_client.sync.Client) -> None:
        for _ in range(10):
            with through.lock(name) as lock:
                value, token = register
                assert lock.token > token
                lock.check()
                register[:] = [value + 1, lock.token]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, [client, other] * 4))
    assert register[0] == 80


def test_elections(client: leasehold_client.sync.Client, other: leasehold_client.sync.Client, name: str) -> None:
    election = client.election(name, value="me")
    tokens: list[int] = []
    with other.election(name).observe() as observer:
        assert next(observer).leader is None

        def observed() -> bytes | None:
            leader = next(observer).leader
            return leader.value if leader else None

        def lead(term: leasehold_client.sync.Term) -> str:
            tokens.append(term.token)
            # Each change is read before the next one is made: a slow observer receives the newest state alone.
            assert observed() == b"me"
            if len(tokens) == 1:
                other.admin.force_release(name)
                assert observed() is None
                assert term.lost.wait(5)
                term.check()
            term.proclaim("ready")
            assert observed() == b"ready"
            return "done"

        assert election.run(lead) == "done"
        assert len(tokens) == 2
        assert observed() is None
    for term in election:
        with term:
            leader = election.leader()
            assert leader and leader.fencing_token == term.token
            break
    assert election.leader() is None
    assert election.campaign().resign()


def test_a_block_of_several_locks_releases_them_all_at_once(client: leasehold_client.sync.Client, name: str) -> None:
    loop, calls = client._ready(), list[str]()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        calls.append(str(work))
        return loop.run(work)

    with client.lock_all(f"{name}{number}" for number in range(64)) as locks:
        assert locks.is_held and repr(locks).startswith("<Holds <Hold ")
        for lock in locks:
            lock._run = run
    # An interrupt between two of them would leave the rest.
    assert len(calls) == 1 and all(lock.lost_reason is LostReason.RELEASED for lock in locks)


def test_a_blocked_thread_loses_nothing(client: leasehold_client.sync.Client, name: str) -> None:
    with client.lock(name) as lock:
        # Longer than the TTL, which the client's own thread renews.
        time.sleep(4.2)
        lock.check()


def test_a_stopped_coordinator_loses_the_lock_at_the_deadline(start: Start, name: str) -> None:
    coordinator = start()
    with leasehold_client.sync.connect(coordinator.url, ttl=0.5) as client:
        with pytest.raises(leasehold_client.LockLost):
            with client.lock(name) as lock:
                coordinator.stop()
                before, left = time.monotonic(), lock.lost_in
                assert lock.lost.wait(5)
                assert time.monotonic() - before <= left + 0.3
        coordinator.go_on()


def test_a_suspended_lock_is_settled(start: Start, redis: str, name: str) -> None:
    coordinator = start(redis)
    with leasehold_client.sync.connect(coordinator.url, ttl=20, disconnect_grace=20) as client, client.lock(name) as lock:
        coordinator.kill()
        assert lock.changed(LockState.HELD) is LockState.SUSPENDED
        with pytest.raises(leasehold_client.LockSuspended):
            lock.check()
        coordinator.restart()
        lock.settled()
        lock.check()


def test_closing_and_errors(shared: Coordinator, name: str) -> None:
    client = leasehold_client.sync.connect(shared.url)
    with client:
        hold = client.lock(name).acquire()
        with client.new_session() as session, client.on(session).lock(name + "2") as own:
            assert own.is_held
    assert hold.lost_reason is LostReason.SESSION_CLOSED
    with pytest.raises(leasehold_client.ConnectError):
        leasehold_client.sync.connect("http://127.0.0.1:1").open()
    assert [thread.name for thread in threading.enumerate() if thread.name == "leasehold"] == []


def test_ctrl_c_gives_a_wait_up(client: leasehold_client.sync.Client, shared: Coordinator, name: str) -> None:
    program = f"""
        import signal
        import leasehold_client.sync
        # A program that a shell began in the background ignores it, and so do its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        client = leasehold_client.sync.connect({shared.url!r})
        client.open()
        try:
            client.lock({name!r}).acquire()
        except KeyboardInterrupt:
            pass
        while client.admin.get_lock({name!r}).waiter_count: pass
        client.close()
        print("given up")
    """
    with client.lock(name):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
        while not client.admin.get_lock(name).waiter_count:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=10)[0] == "given up\n"


FORK = """
    import asyncio, gc, os, sys, time
    import leasehold_client, leasehold_client.sync

    url, name, kind, end = sys.argv[1:]

    def child(hold, acquire):
        try:
            assert not hold.is_held and hold.lost_reason is leasehold_client.LostReason.FORKED
            for forbidden, error in [
                (hold.check, leasehold_client.LockLost),
                (acquire, leasehold_client.Forked),
                # gRPC can't connect there, which is told at once.
                (leasehold_client.sync.connect(url).open, leasehold_client.Forked),
            ]:
                try:
                    forbidden()
                except error:
                    continue
                raise SystemExit(f"{forbidden} did not fail in the child")
            gc.collect()
        except BaseException as error:
            print("child", repr(error), flush=True)
            os._exit(1)

    def fork():
        pid = os.fork()
        if pid:
            status = os.waitpid(pid, 0)[1]
            assert status == 0, status
        return pid

    def threads():
        client = leasehold_client.sync.connect(url, ttl=3)
        client.open()
        hold = client.lock(name).acquire()
        if fork() == 0:
            child(hold, lambda: client.lock("x").acquire())
            if end == "os._exit":
                os._exit(0)
            del hold
            sys.exit(0)
        time.sleep(3.2)
        hold.check()
        assert hold.release()
        client.close()

    async def tasks():
        async with leasehold_client.connect(url, ttl=3) as client, client.lock(name) as hold:
            if fork() == 0:
                child(hold, lambda: client.lock("x").acquire().send(None))
                # An event loop can't go on in a fork: it shares its file descriptors with the parent's.
                os._exit(0)
            await asyncio.sleep(3.2)
            hold.check()

    if kind == "sync":
        threads()
    else:
        asyncio.run(tasks())
    print("held")
"""


@pytest.mark.parametrize(("kind", "end"), [("sync", "exit"), ("sync", "os._exit"), ("asyncio", "os._exit")])
def test_the_child_of_a_fork_holds_nothing_and_disturbs_nothing(shared: Coordinator, name: str, kind: str, end: str) -> None:
    """In a process of its own, since this one has more threads than a fork should."""
    arguments = [sys.executable, "-c", textwrap.dedent(FORK), shared.url, name, kind, end]
    environment = {**os.environ, "GRPC_VERBOSITY": "ERROR"}
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stdout + done.stderr


def test_the_death_of_a_parent_releases_although_its_child_lives(
    client: leasehold_client.sync.Client, shared: Coordinator, name: str
) -> None:
    program = f"""
        import os, sys, leasehold_client.sync
        client = leasehold_client.sync.connect({shared.url!r}, ttl=60)
        client.open()
        hold = client.lock({name!r}).acquire()
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print("held", flush=True)
        sys.stdin.read()
    """
    environment = {**os.environ, "GRPC_VERBOSITY": "ERROR"}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        assert process.stdout and process.stdout.readline() == "held\n"
        process.kill()
        with client.lock(name, wait=10):
            pass


def test_the_child_of_a_fork_ends(shared: Coordinator, name: str) -> None:
    program = f"""
        import gc, os, sys, leasehold_client.sync
        with leasehold_client.sync.connect({shared.url!r}) as client, client.lock({name!r}):
            pass
        pid = os.fork()
        if pid == 0:
            gc.collect()
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print("ended")
    """
    environment = {**os.environ, "GRPC_VERBOSITY": "ERROR"}
    arguments = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=20, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", ""), done.stderr


def test_a_handler_of_a_signal_may_use_the_lock_that_its_thread_looks_at(client: leasehold_client.sync.Client, name: str) -> None:
    handled, is_over = 0, threading.Event()

    def handle(number: int, frame: object) -> None:
        nonlocal handled
        # It waits for the client's thread, which must not wait for what this one was in.
        lock.set_value("asked to stop")
        handled += 1

    def send() -> None:
        for count in range(300):
            if is_over.is_set():
                return
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            while handled == count and not is_over.is_set():
                time.sleep(0.0001)

    with client.lock(name) as lock:
        before = signal.signal(signal.SIGUSR1, handle)
        sender = threading.Thread(target=send)
        sender.start()
        try:
            while handled < 300:
                lock.check()
                assert lock.is_held and lock.valid_for > 0
        finally:
            # A signal that comes later ends the process.
            is_over.set()
            sender.join()
            signal.signal(signal.SIGUSR1, before)


LEAVES = {
    "threads": """
        import signal, sys, time
        import leasehold_client.sync

        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        with leasehold_client.sync.connect(sys.argv[1], ttl=60) as client, client.lock(sys.argv[2]):
            try:
                print("held", flush=True)
                time.sleep(60)
            finally:
                print("left in order", flush=True)
    """,
    "asyncio": """
        import asyncio, contextlib, signal, sys
        import leasehold_client

        async def main():
            task = asyncio.current_task()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                async with leasehold_client.connect(sys.argv[1], ttl=60) as client, client.lock(sys.argv[2]):
                    try:
                        print("held", flush=True)
                        await asyncio.sleep(60)
                    finally:
                        print("left in order", flush=True)

        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("kind", LEAVES)
def test_a_program_that_is_told_to_end_leaves_its_blocks(
    shared: Coordinator, client: leasehold_client.sync.Client, name: str, kind: str
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LEAVES[kind]), shared.url, name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    process.terminate()
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "left in order\n", "")
    with client.lock(name, wait=0):
        pass
