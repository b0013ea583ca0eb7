"""Adapters as they are run in production: several forked processes of a program, twice, side by side.

Meanwhile the program is replaced by a new one, a coordinator restarts, and it is away for five seconds. Each test counts what ran
twice, and what never.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Start
from ledger import Log
from test_frameworks import HERE, PATIENCE, Setup, until

pytestmark = pytest.mark.timeout(3 * PATIENCE)

AWAY = 5
"""Seconds for which the coordinator is away."""


class Adapter(Setup):
    """One coordinator, and two of the same program."""

    def __init__(self, start: Start, redis: str, directory: Path) -> None:
        """Starts the coordinator."""
        super().__init__(start, redis, directory)
        self.coordinators[1].close()
        self.coordinator = self.coordinators[0]
        self.environment["JOBS_ENDPOINTS"] = self.coordinator.url
        self.log = Log(directory / "log")

    def live(self, begin: Callable[[], subprocess.Popen[bytes]], count: Callable[[], int]) -> None:
        """Has two of a program live through everything. What they do goes on each time."""

        def goes_on(what: str) -> None:
            before = count()
            try:
                until(lambda: count() > before + 4, f"work goes on after {what}")
            except AssertionError:
                print(self.logs())
                raise

        first, second = begin(), begin()
        goes_on("the start")
        # A rolling restart of the program.
        for former in (first, second):
            begin()
            former.terminate()
            assert former.wait(PATIENCE) == 0, self.logs()
            goes_on("a process was replaced")
        self.coordinator.terminate()
        self.coordinator.restart()
        goes_on("the coordinator restarted")
        self.coordinator.kill()
        time.sleep(AWAY)
        self.coordinator.restart()
        goes_on("the coordinator was away")
        for process in self.processes[-2:]:
            process.terminate()
            assert process.wait(PATIENCE) == 0, self.logs()


@pytest.fixture
def adapter(start: Start, redis: str, tmp_path: Path) -> Iterator[Adapter]:
    """A coordinator and programs."""
    adapter = Adapter(start, redis, tmp_path)
    yield adapter
    adapter.close()


@pytest.mark.parametrize(("kind", "needs"), [("tooz", "tooz"), ("redis", "redis")])
def test_locks_of_adapters_run_each_job_once(adapter: Adapter, kind: str, needs: str) -> None:
    pytest.importorskip(needs)
    adapter.live(lambda: adapter.run("jobs_adapters.py", kind), lambda: len(adapter.ledger.lines()))
    ran = adapter.ledger.lines()
    adapter.ledger.check({str(number) for number in range(len(ran))})
    assert len({one.pid for one in ran}) > 1


def test_leaders_of_tooz_work_one_after_the_other(adapter: Adapter) -> None:
    pytest.importorskip("tooz")
    adapter.live(lambda: adapter.run("jobs_adapters.py", "elections"), lambda: len(adapter.log.lines()))
    lines = adapter.log.lines()
    steps = list(zip(lines[::2], lines[1::2], strict=True))
    assert all(begins[1] == ends[1] and begins[2] + ends[2] == ["begins", "ends"] for begins, ends in steps), lines


def test_a_shared_job_store_of_apscheduler_runs_each_interval_once(adapter: Adapter) -> None:
    for needed in ("apscheduler", "sqlalchemy"):
        pytest.importorskip(needed)
    add = [sys.executable, "-c", "import jobs_adapters; jobs_adapters.add_job()"]
    subprocess.run(add, env=adapter.environment, cwd=HERE, check=True)
    adapter.live(lambda: adapter.run("jobs_adapters.py", "apscheduler"), lambda: len(adapter.log.lines()))
    times = sorted(round(1000 * float(words[0])) for _, _, words in adapter.log.lines())
    twice = len(times) - len(set(times))
    never = sum(round((after - before) / 200) - 1 for before, after in pairwise(times))
    assert (twice, never) == (0, 0), times


def test_beat_within_workers_of_celery_sends_each_task_once(adapter: Adapter) -> None:
    pytest.importorskip("celery")
    redis_py = pytest.importorskip("redis")
    with redis_py.Redis.from_url(adapter.redis) as broker:
        broker.flushall()

    def begin() -> subprocess.Popen[bytes]:
        files = ["-s", str(adapter.directory / f"schedule{len(adapter.processes)}"), "-n", f"worker{len(adapter.processes)}@%h"]
        options = ["-B", "--scheduler", "leasehold_client.celery:LeaderScheduler", "-P", "prefork", "-c", "2", "-l", "info"]
        return adapter.run("-m", "celery", "-A", "jobs_beat", "worker", *options, *files)

    def said(what: str) -> list[tuple[float, int, str]]:
        return [(at, pid, words[1]) for at, pid, words in adapter.log.lines() if words[0] == what]

    adapter.live(begin, lambda: len(said("ran")))
    sent = said("sent")
    ran = [task for _, _, task in said("ran")]
    assert len(ran) == len(set(ran)) and set(ran) <= {task for _, _, task in sent}
    # No interval is shorter than the schedule says, unless another one leads.
    changes = sum(before[1] != after[1] for before, after in pairwise(sent))
    early = sum(after[0] - before[0] < 0.27 for before, after in pairwise(sent))
    assert early <= changes <= adapter.logs().count("beat: elected"), sent
