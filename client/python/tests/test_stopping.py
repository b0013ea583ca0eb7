"""Ends in the middle of work under a lock, while the next process waits for it: never two inside, in the library and in each adapter.

`CLOSING_ROUNDS` is how often a process ends.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Coordinator, Start, free_port
from ledger import Log
from stopping import KINDS, main
from test_frameworks import HERE, PATIENCE, Setup, asks, until

import leasehold_client.sync

ROUNDS = int(os.environ.get("CLOSING_ROUNDS", "10"))
SLOW_ROUNDS = int(os.environ.get("CLOSING_ROUNDS", "1"))

pytestmark = pytest.mark.timeout(max(3 * PATIENCE, 10 * ROUNDS))


@pytest.fixture(scope="module")
def forks() -> Iterator[Any]:
    """What forks processes, in which everything is imported."""
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{HERE.parent / 'src'}:{HERE}"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["stopping"])
    yield context
    if path is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = path


def begun(works: Path) -> set[int]:
    """Returns the processes that have begun to work."""
    return {int(pid) for pid in re.findall(r"^\S+ (\d+) begins$", works.read_text(), re.MULTILINE)} if works.exists() else set()


def check(works: Path, *, ends: bool = True) -> int:
    """Fails if a process works after the next one has begun, or, with `ends`, has not ended its work. Returns how many worked."""
    runs = [[words[0] for _, _, words in lines] for _, lines in itertools.groupby(Log(works).lines(), key=lambda line: line[1])]
    assert len(runs) == len(begun(works)), "two worked at once"
    assert all(run[0] == "begins" and (not ends or run[-1] == "ends") for run in runs)
    return len(runs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_is_told_to_end_lets_nobody_in_beside_it(shared: Coordinator, tmp_path: Path, kind: str, forks: Any) -> None:
    if needed := KINDS[kind][1]:
        pytest.importorskip(needed)
    name = f"x/lock/{os.getpid()}-{kind}"
    works = tmp_path / "works"

    def start() -> Any:
        process = forks.Process(target=main, args=(kind, shared.url, name, works), daemon=True)
        process.start()
        return process

    with leasehold_client.sync.connect(shared.url) as client:

        def waits() -> bool:
            assert following.is_alive()
            return client.admin.get_lock(name).waiter_count == 1

        def works_on() -> bool:
            assert former.is_alive()
            return former.pid in begun(works)

        former = start()
        for _ in range(ROUNDS):
            until(works_on, "the process works")
            following = start()
            until(waits, "the next one waits")
            former.terminate()
            former.join()
            assert former.exitcode == 0
            former = following
        until(works_on, "the last one works")
        former.terminate()
        former.join()
    # Beat ends in the middle of a task that it sends.
    assert check(works, ends=kind != "celery beat") == ROUNDS + 1


class Servers(Setup):
    """Servers of which each works for one request, one after the other."""

    def __init__(self, start: Start, redis: str, directory: Path) -> None:
        """Starts the coordinators."""
        super().__init__(start, redis, directory)
        self.environment |= {"STOPPING_LOCK": "stopping"}
        self.works = directory / "works"
        self.threads = ThreadPoolExecutor(2)

    def end_in_turn(self, begin: Callable[[int], tuple[subprocess.Popen[bytes], Callable[[], str]]], *signals: signal.Signals) -> None:
        """Ends servers in the middle of their work, and begins the next one before. `begin` returns what asks a server to work.

        After the first of several signals, the work does not end by itself.
        """
        is_cold = signals != (signal.SIGTERM,)

        with leasehold_client.sync.connect(self.endpoints) as client:

            def waits() -> bool:
                assert server.poll() is None, self.logs()
                return client.admin.get_lock("stopping").waiter_count == 1

            def works() -> bool:
                assert server.poll() is None, self.logs()
                return len(begun(self.works)) == number + 1

            former: tuple[subprocess.Popen[bytes], Any] | None = None
            for number in range(SLOW_ROUNDS + 1):
                server, work = begin(number)
                asked = self.threads.submit(work)
                if former:
                    until(waits, "the next one waits")
                    for one in signals:
                        former[0].send_signal(one)
                        time.sleep(0.05 if is_cold else 0)
                    if not is_cold:
                        # Not before it was told to end.
                        (self.directory / f"told{number - 1}").touch()
                        assert former[1].result(PATIENCE) == "done", self.logs()
                    former[0].wait(PATIENCE)
                until(works, "the server works")
                former = server, asked
            (self.directory / f"told{SLOW_ROUNDS}").touch()
            assert former and former[1].result(PATIENCE) == "done"
        assert check(self.works, ends=not is_cold) == SLOW_ROUNDS + 1

    def close(self) -> None:
        """Ends the processes."""
        for number in range(SLOW_ROUNDS + 1):
            (self.directory / f"told{number}").touch()
        super().close()
        self.threads.shutdown()


@pytest.fixture
def servers(start: Start, redis: str, tmp_path: Path) -> Iterator[Servers]:
    """Coordinators and servers."""
    servers = Servers(start, redis, tmp_path)
    yield servers
    servers.close()


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_a_server_that_is_told_to_end_finishes_its_request_under_the_lock(servers: Servers, kind: str) -> None:
    for needed in {"gunicorn": ["gunicorn"], "uvicorn": ["fastapi", "uvicorn"]}[kind]:
        pytest.importorskip(needed)
    (servers.directory / "conf.py").write_text("from stopping_apps import worker_exit\n")

    def begin(number: int) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
        port = free_port()
        bind = {
            "gunicorn": ["-c", str(servers.directory / "conf.py"), "-k", "gthread", "--threads", "2", "-b", f"127.0.0.1:{port}"],
            "uvicorn": ["--port", str(port), "--log-level", "warning"],
        }
        patience = ["--graceful-timeout", "60", "--timeout", str(PATIENCE)] if kind == "gunicorn" else []
        server = servers.run("-m", kind, *bind[kind], *patience, f"stopping_apps:{'api' if kind == 'uvicorn' else 'application'}")

        def ask() -> str:
            while True:
                try:
                    return asks(port)(str(number))
                except OSError as error:
                    # It does not listen yet.
                    if "refused" not in str(error) or server.poll() is not None:
                        raise
                    time.sleep(0.05)

        return server, ask

    servers.end_in_turn(begin, signal.SIGTERM)


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGTERM,), (signal.SIGQUIT,), (signal.SIGTERM, signal.SIGQUIT), (signal.SIGINT, signal.SIGINT)],
    ids=["warm", "cold", "warm, then cold", "interrupted twice"],
)
def test_a_worker_of_celery_that_is_told_to_end_lets_nobody_in_beside_its_task(
    servers: Servers, signals: tuple[signal.Signals, ...]
) -> None:
    celery = pytest.importorskip("celery")
    redis_py = pytest.importorskip("redis")
    with redis_py.Redis.from_url(servers.redis) as broker:
        broker.flushall()
    app = celery.Celery("stopping", broker=servers.redis, backend=servers.redis)

    def begin(number: int) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
        options = ["-P", "prefork", "-c", "1", "-l", "warning", "-Q", f"queue{number}", "-n", f"worker{number}@%h"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        worker = servers.run("-m", "celery", "-A", "stopping_apps", "worker", *options, *quiet)

        def ask() -> str:
            result = app.send_task("work", [str(number)], queue=f"queue{number}")
            # A task that is ended has no result.
            return str(result.get(timeout=PATIENCE)) if signals == (signal.SIGTERM,) else "done"

        return worker, ask

    servers.end_in_turn(begin, *signals)


class Inside:
    """Work of threads of this process, of which no two may be in it at once."""

    def __init__(self) -> None:
        """Makes it with nobody inside."""
        self._mutex = threading.Lock()
        self.now = self.most = self.count = 0

    def run(self, is_told: Callable[[], bool]) -> None:
        """Works until it is told to end, and for a moment more."""
        with self._mutex:
            self.now, self.count = self.now + 1, self.count + 1
            self.most = max(self.most, self.now)
        while not is_told():
            time.sleep(0.0005)
        time.sleep(0.002)
        with self._mutex:
            self.now -= 1


Begun = tuple[Callable[[], object], Callable[[], object]]
"""What works, in a thread, and what ends it."""


def begin_tooz(url: str, name: str, inside: Inside) -> Begun:
    """Stops the coordinator."""
    coordination = pytest.importorskip("tooz.coordination")
    coordinator = coordination.get_coordinator(f"{url.replace('http', 'leasehold')}?namespace=x/", b"me")
    coordinator.start()

    def work() -> None:
        with coordinator.get_lock(name.removeprefix("x/lock/").encode()) as lock:
            inside.run(lambda: not lock.is_still_owner())

    return work, coordinator.stop


def begin_redis(url: str, name: str, inside: Inside) -> Begun:
    """Closes the client."""
    pytest.importorskip("redis")
    import leasehold_client.redis

    client = leasehold_client.sync.connect(url)
    client.open()

    def work() -> None:
        with leasehold_client.redis.lock_class(client)(None, name) as lock:
            inside.run(lambda: not lock.owned())

    return work, client.close


def begin_apscheduler(url: str, name: str, inside: Inside, shuts_down: bool = False) -> Begun:
    """Closes the client, or shuts the scheduler down."""
    background = pytest.importorskip("apscheduler.schedulers.background")
    from leasehold_client.apscheduler import SchedulerLeader

    client, scheduler = leasehold_client.sync.connect(url), background.BackgroundScheduler()
    leader, told = SchedulerLeader(scheduler, client, name), threading.Event()
    is_told = told.is_set if shuts_down else lambda: not leader.is_leader
    scheduler.add_job(inside.run, args=[is_told], misfire_grace_time=None)

    def end() -> None:
        if shuts_down:
            # The job ends by itself, after the shutdown has begun.
            threading.Timer(0.002, told.set).start()
        else:
            client.close()
        scheduler.shutdown()
        client.close()

    return leader.start, end


def begin_beat(url: str, name: str, inside: Inside) -> Begun:
    """Closes the scheduler in the thread that ticks, as beat does."""
    celery_beat = pytest.importorskip("celery.beat")
    from celery import Celery

    from leasehold_client.celery import LeaderMixin

    class Scheduler(LeaderMixin, celery_beat.Scheduler):  # type: ignore[misc,name-defined]
        standby_interval = 0.001
        producer = None

        def apply_async(self, *_: Any, **__: Any) -> Any:
            until = time.monotonic() + 0.002
            inside.run(lambda: time.monotonic() > until)
            return SimpleNamespace(id=None)

    app, told = Celery("x", broker="memory://"), threading.Event()
    app.conf.update(leasehold_endpoints=url, leasehold_election=name, beat_schedule={"x": {"task": "t", "schedule": 0.001}})
    scheduler = Scheduler(app)

    def work() -> None:
        while not told.is_set():
            told.wait(scheduler.tick())
        scheduler.close()

    return work, told.set


BEGINS: dict[str, Callable[[str, str, Inside], Begun]] = {
    "tooz": begin_tooz,
    "redis-py": begin_redis,
    "apscheduler, its client closed": begin_apscheduler,
    "apscheduler, shut down": lambda url, name, inside: begin_apscheduler(url, name, inside, shuts_down=True),
    "celery beat": begin_beat,
}


@pytest.mark.parametrize("kind", BEGINS)
def test_a_hundred_ends_of_adapters_let_nobody_in_beside_the_work(shared: Coordinator, kind: str) -> None:
    name, inside = f"x/lock/hundred-{os.getpid()}-{kind}", Inside()

    def end(one: tuple[threading.Thread, Callable[[], object]]) -> None:
        one[1]()
        one[0].join()

    with leasehold_client.sync.connect(shared.url) as client:

        def works() -> bool:
            return inside.count > before

        before, former = 0, None
        for _ in range(100):
            work, ends = BEGINS[kind](shared.url, name, inside)
            thread = threading.Thread(target=work)
            thread.start()
            if former:
                until(lambda: client.admin.get_lock(name).waiter_count == 1, "the next one waits", pause=0.001)
                before = inside.count
                end(former)
            until(works, "the next one works", pause=0.001)
            former = thread, ends
        if former:
            end(former)
    assert (inside.now, inside.most) == (0, 1)
