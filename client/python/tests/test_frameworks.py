"""Workers of real servers over two coordinators that restart one after the other, and workers that are killed or replaced meanwhile.

Every job is asked for twice at about the same time; the ledger says what ran twice, and what never.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Coordinator, Start, free_port
from ledger import RAN, Ledger, Load

import leasehold_client.sync

HERE = Path(__file__).resolve().parent
PATIENCE = 240
"""Seconds after which something hangs. It says no more than that: processes start slowly on a busy machine."""

pytestmark = pytest.mark.timeout(3 * PATIENCE)


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE, pause: float = 0.02) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come true: {what}"
        time.sleep(pause)


class Setup:
    """Two coordinators of one store, the ledger, and the processes of a test."""

    def __init__(self, start: Start, redis: str, directory: Path) -> None:
        """Starts the coordinators."""
        self.directory, self.redis = directory, redis
        self.coordinators: list[Coordinator] = [start(redis, "--key-prefix", f"{directory.name}/") for _ in range(2)]
        self.endpoints = ",".join(one.url for one in self.coordinators)
        self.ledger = Ledger(directory / "ledger")
        self.environment = {
            **os.environ,
            "JOBS_LEDGER": str(directory / "ledger"),
            "JOBS_ENDPOINTS": self.endpoints,
            "JOBS_BROKER": redis,
            "PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.load: Load | None = None

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        """Starts a program of Python."""
        with open(self.directory / f"log{len(self.processes)}", "wb") as log:
            arguments = [sys.executable, "-W", "ignore", *command]
            self.processes.append(subprocess.Popen(arguments, env=self.environment, cwd=HERE, stdout=log, stderr=log))
        return self.processes[-1]

    def logs(self) -> str:
        """Returns what the programs have printed."""
        return "\n".join((self.directory / f"log{number}").read_text() for number in range(len(self.processes)))

    def restart_coordinators(self) -> None:
        """Restarts one coordinator after the other, as a deployment does it."""
        for one in self.coordinators:
            one.terminate()
            one.restart()

    def begin(self, ask: Callable[[str], str], workers: int) -> Load:
        """Begins to have jobs run, and waits until each worker has run one: a client can't be opened while all coordinators restart."""

        def answers() -> bool:
            assert self.processes[0].poll() is None, self.logs()
            try:
                return bool(ask("first"))
            except Exception:
                return False

        until(answers, "the first job is answered")
        self.load = Load(ask)
        self.load.begin()
        until(lambda: len({one.pid for one in self.ledger.lines()}) >= workers, "all workers run jobs")
        return self.load

    def kill_a_worker(self) -> None:
        """Kills a process that has run a job lately. Whatever it does is asked for again."""
        os.kill(self.ledger.lines()[-1].pid, signal.SIGKILL)

    def check(self) -> int:
        """Ends the jobs, and fails unless each has run once. Returns how many have."""
        assert self.load
        jobs = self.load.end() | {"first"}
        self.ledger.check(jobs)
        # Of two who asked for a job, one had it run, unless that one's answer was lost.
        assert sum(said == RAN for _, said in self.load.answers) <= len(jobs) - 1
        return len(jobs)

    def close(self) -> None:
        """Ends the processes."""
        if self.load:
            self.load.end()
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def setup(start: Start, redis: str, tmp_path: Path) -> Iterator[Setup]:
    """Coordinators and a ledger."""
    setup = Setup(start, redis, tmp_path)
    yield setup
    setup.close()


def asks(port: int) -> Callable[[str], str]:
    """Returns what asks a server of HTTP to run a job."""

    def ask(job: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{job}", timeout=PATIENCE) as answer:
            said: str = answer.read().decode()
            return said

    return ask


@pytest.mark.parametrize("worker", [["sync"], ["sync", "--preload"], ["gthread", "--threads", "4"]], ids=" ".join)
def test_workers_of_gunicorn_run_each_job_once(setup: Setup, worker: list[str]) -> None:
    pytest.importorskip("gunicorn")
    port = free_port()
    options = ["-w", "2", "-b", f"127.0.0.1:{port}", "--graceful-timeout", "60", "--timeout", str(PATIENCE)]
    server = setup.run("-m", "gunicorn", "-k", *worker, *options, "jobs_wsgi")
    load = setup.begin(asks(port), 2)
    setup.restart_coordinators()
    load.goes_on()
    assert not load.again
    # New workers replace the former, which finish what they do.
    former = {one.pid for one in setup.ledger.lines()}
    server.send_signal(signal.SIGHUP)
    until(lambda: setup.ledger.lines()[-1].pid not in former, "a new worker serves")
    setup.kill_a_worker()
    load.goes_on()
    assert setup.check() > 20
    server.terminate()
    assert server.wait(PATIENCE) == 0


def test_workers_of_uvicorn_run_each_job_once(setup: Setup) -> None:
    for needed in ("fastapi", "uvicorn"):
        pytest.importorskip(needed)
    port = free_port()
    options = ["--port", str(port), "--log-level", "warning", "--timeout-worker-healthcheck", str(PATIENCE)]
    server = setup.run("-m", "uvicorn", "jobs_fastapi:app", "--workers", "2", *options)
    load = setup.begin(asks(port), 2)
    setup.restart_coordinators()
    load.goes_on()
    assert not load.again
    setup.kill_a_worker()
    load.goes_on()
    assert setup.check() > 20
    server.terminate()
    server.wait(PATIENCE)


def test_a_pool_of_celery_runs_each_job_once(setup: Setup) -> None:
    pytest.importorskip("celery")
    redis_py = pytest.importorskip("redis")
    with redis_py.Redis.from_url(setup.redis) as broker:
        broker.flushall()
    # It is the same app as the worker's.
    from celery import Celery

    app = Celery("jobs", broker=setup.redis, backend=setup.redis)
    worker = setup.run("-m", "celery", "-A", "jobs_celery", "worker", "-P", "prefork", "-c", "4", "-l", "warning")

    def ask(job: str) -> str:
        said: Any = app.send_task("run", [job]).get(timeout=PATIENCE)
        assert isinstance(said, str)
        return said

    load = setup.begin(ask, 4)
    setup.restart_coordinators()
    load.goes_on()
    assert not load.again
    setup.kill_a_worker()
    load.goes_on()
    assert setup.check() > 20
    worker.terminate()
    assert worker.wait(PATIENCE) == 0


FIXTURES = """
    import asyncio, os, pathlib, pytest, leasehold_client
    from ledger import Ledger

    DIRECTORY = pathlib.Path(os.environ["JOBS_LEDGER"]).parent
    ledger = Ledger(DIRECTORY / "ledger")
    {loop}
    @pytest.fixture{scope}
    async def client():
        async with leasehold_client.connect(os.environ["JOBS_ENDPOINTS"], ttl=60) as client:
            yield client

    @pytest.fixture{within}
    async def held(client):
        async with client.lock("ledger") as lock:
            yield lock

    {mark}
    @pytest.mark.parametrize("number", range(10))
    async def test_job(held, number):
        while number == 3 and not (DIRECTORY / "restarted").exists():
            (DIRECTORY / "waits").touch()
            held.check()
            await asyncio.sleep(0.01)
        assert await ledger.run_in_task(f"{{os.getpid()}}-{{number}}", held) == "ran"
"""
LOOP = """
    @pytest.fixture(scope="module")
    def event_loop():
        loop = asyncio.new_event_loop()
        yield loop
        loop.close()
"""
OLDEST = Path(sys.prefix) / "oldest"
"""Folder with the oldest versions of pytest-asyncio and pytest that work on a version of Python."""


@pytest.mark.parametrize(
    ("version", "is_shared"),
    [("newest", False), ("newest", True), ("oldest", False), ("oldest", True)],
    ids=["newest", "newest, a client for all", "oldest", "oldest, a client for all"],
)
def test_fixtures_of_pytest_asyncio_keep_their_locks(setup: Setup, version: str, is_shared: bool) -> None:
    if version == "oldest":
        if sys.version_info[:2] != (3, 11) or not OLDEST.is_dir():
            pytest.skip("the oldest versions are installed for Python 3.11 alone")
        setup.environment["PYTHONPATH"] += f":{OLDEST}"
    setup.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    parts = {"loop": "", "scope": "", "within": "", "mark": "@pytest.mark.asyncio"}
    if is_shared and version == "oldest":
        parts |= {"loop": LOOP, "scope": '(scope="module")'}
    elif is_shared:
        # What uses the client is in the client's event loop.
        within = '(loop_scope="module")'
        parts |= {"scope": '(scope="module", loop_scope="module")', "within": within, "mark": f"@pytest.mark.asyncio{within}"}
    program = textwrap.dedent(FIXTURES.format(**parts))
    if version == "newest":
        program = program.replace("@pytest.fixture", "@pytest_asyncio.fixture").replace("import asyncio", "import pytest_asyncio, asyncio")
    (setup.directory / "test_jobs.py").write_text(program)

    def waits_in_both() -> bool:
        assert not any(one.poll() for one in processes), setup.logs()
        return (setup.directory / "waits").exists() and client.admin.get_lock("ledger").waiter_count == 1

    command = ["-m", "pytest", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", str(setup.directory / "test_jobs.py")]
    processes = [setup.run(*command, "--rootdir", str(setup.directory)) for _ in range(2)]
    with leasehold_client.sync.connect(setup.coordinators[0].url) as client:
        until(waits_in_both, "one of them is within a test, and the other one waits for the lock")
    setup.restart_coordinators()
    (setup.directory / "restarted").touch()
    assert [one.wait(PATIENCE) for one in processes] == [0, 0], setup.logs()
    setup.ledger.check({f"{one.pid}-{number}" for one in processes for number in range(10)})
