"""The leader among several schedulers of APScheduler."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apscheduler", reason="it needs the extra `apscheduler`")

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, BaseScheduler
from apscheduler.schedulers.blocking import BlockingScheduler
from conftest import Coordinator, Start

import leasehold_client
import leasehold_client.sync
from leasehold_client.apscheduler import SchedulerLeader


def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


class Worker:
    """A process's scheduler with a job, which counts its runs."""

    def __init__(self, url: str, election: str, scheduler: BaseScheduler | None = None, **options: float) -> None:
        """Makes it, with a client that is not connected."""
        self.runs = 0
        self.client = leasehold_client.sync.connect(url, ttl=1, **options)  # type: ignore[arg-type]
        self.scheduler = scheduler or BackgroundScheduler()
        self.leader = SchedulerLeader(self.scheduler, self.client, election, value="me")
        # One that fell due while it was paused is not run late.
        self.scheduler.add_job(self.run, "interval", seconds=0.05, max_instances=10, misfire_grace_time=1)

    def run(self) -> None:
        """Counts a run."""
        self.leader.check()
        self.runs += 1

    def runs_on(self) -> bool:
        """Waits until the job runs again."""
        before = self.runs
        until(lambda: self.runs > before)
        return True

    def close(self) -> None:
        """Ends it."""
        if self.scheduler.running:
            self.scheduler.shutdown()
        self.client.close()


Make = Callable[..., Worker]


@pytest.fixture
def make(name: str) -> Iterator[Make]:
    """Makes workers of one election."""
    made: list[Worker] = []

    def begin(url: str, scheduler: BaseScheduler | None = None, **options: float) -> Worker:
        made.append(Worker(url, name, scheduler, **options))
        return made[-1]

    yield begin
    for worker in made:
        worker.close()


def test_only_the_leader_runs_jobs(shared: Coordinator, make: Make, name: str) -> None:
    one, other = make(shared.url), make(shared.url)
    with pytest.raises(leasehold_client.LockLost):
        one.leader.check()
    one.leader.start()
    assert one.runs_on() and one.leader.is_leader and one.leader.token > 0
    other.leader.start()
    with leasehold_client.sync.connect(shared.url) as client:
        until(lambda: client.admin.get_lock(name).waiter_count == 1)
    assert one.runs_on() and other.runs == 0 and other.scheduler.state == STATE_PAUSED
    # It resigns after its jobs.
    one.scheduler.shutdown()
    runs = one.runs
    assert other.runs_on() and other.leader.token > one.leader.token and not one.leader.is_leader
    assert one.runs == runs


def test_jobs_end_before_it_resigns(shared: Coordinator, make: Make) -> None:
    one, other = make(shared.url), make(shared.url)
    has_begun, may_end, ended_as_leader = threading.Event(), threading.Event(), []

    def job() -> None:
        has_begun.set()
        may_end.wait(10)
        ended_as_leader.append(one.leader.is_leader)

    # It is due before the scheduler goes on.
    one.scheduler.add_job(job, misfire_grace_time=None)
    one.leader.start()
    assert has_begun.wait(10)
    other.leader.start()
    ends = threading.Thread(target=one.scheduler.shutdown)
    ends.start()
    until(lambda: not one.scheduler.running)
    assert other.runs == 0
    may_end.set()
    ends.join(10)
    assert ended_as_leader == [True] and other.runs_on()


NOTED: list[str] = []


def note(by: str) -> None:
    """Job of a store in a database."""
    NOTED.append(by)


@pytest.fixture
def on_store(make: Make, shared: Coordinator, tmp_path: Path) -> Callable[[], Worker]:
    """Makes workers with a job store in a database that they share."""
    sqlalchemy = pytest.importorskip("apscheduler.jobstores.sqlalchemy", exc_type=ImportError)
    NOTED.clear()
    return lambda: make(shared.url, BackgroundScheduler(jobstores={"shared": sqlalchemy.SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs")}))


def test_a_client_that_is_closed_lets_jobs_end_before_it_resigns(shared: Coordinator, name: str) -> None:
    client, scheduler = leasehold_client.sync.connect(shared.url), BackgroundScheduler()
    leader = SchedulerLeader(scheduler, client, name)
    begun, seen = threading.Event(), []

    def job() -> None:
        begun.set()
        try:
            while True:
                leader.check()
                time.sleep(0.001)
        except leasehold_client.SessionClosed:
            time.sleep(0.3)
            seen.append("ended")

    scheduler.add_job(job)
    leader.start()
    assert begun.wait(30)
    with leasehold_client.sync.connect(shared.url) as other:

        def campaign() -> None:
            with other.election(name).campaign():
                seen.append("elected")

        thread = threading.Thread(target=campaign)
        thread.start()
        while not other.admin.get_lock(name).waiter_count:
            time.sleep(0.01)
        client.close()
        thread.join()
    assert seen == ["ended", "elected"] and not leader.is_leader
    scheduler.shutdown()


def test_a_client_that_is_closed_waits_for_a_job_that_is_about_to_run(shared: Coordinator, make: Make) -> None:
    one = make(shared.url)
    taking, may_run, ended_as_leader = threading.Event(), threading.Event(), []

    class Executor(ThreadPoolExecutor):  # type: ignore[misc]
        def submit_job(self, job: Any, run_times: Any) -> None:
            taking.set()
            may_run.wait(30)
            super().submit_job(job, run_times)

    def leadership() -> leasehold_client.sync.Leadership:
        assert one.leader.leadership
        return one.leader.leadership

    one.scheduler.remove_all_jobs()
    one.scheduler.add_executor(Executor(), "slow")
    one.scheduler.add_job(lambda: ended_as_leader.append(leadership().is_held), executor="slow", misfire_grace_time=None)
    one.leader.start()
    assert taking.wait(30)
    closes = threading.Thread(target=one.client.close)
    closes.start()
    assert leadership().lost.wait(30)
    # It would be given up in this time.
    time.sleep(0.3)
    may_run.set()
    closes.join(30)
    assert ended_as_leader == [True]


def test_what_falls_due_during_a_shutdown_is_left_to_the_next_leader(on_store: Callable[[], Worker]) -> None:
    one = on_store()
    has_begun, may_end = threading.Event(), threading.Event()

    def job() -> None:
        has_begun.set()
        may_end.wait(30)

    # What is due next is the other one.
    one.scheduler.remove_all_jobs()
    one.scheduler.add_job(job, misfire_grace_time=None)
    due = datetime.now(UTC) + timedelta(seconds=2)
    one.scheduler.add_job(note, "date", run_date=due, args=["once"], jobstore="shared", misfire_grace_time=None)
    one.leader.start()
    assert has_begun.wait(10)
    ends = threading.Thread(target=one.scheduler.shutdown)
    ends.start()
    until(lambda: not one.scheduler.running and datetime.now(UTC) > due)
    # APScheduler has looked for jobs meanwhile, and waits for the end of the shutdown.
    may_end.set()
    ends.join(10)
    other = on_store()
    other.leader.start()
    assert other.runs_on()
    until(lambda: NOTED == ["once"])


def test_what_has_run_when_a_shutdown_begins_does_not_run_again(on_store: Callable[[], Worker]) -> None:
    one = on_store()
    removes, remove_job = threading.Event(), one.scheduler.remove_job

    def remove(*args: str) -> None:
        removes.set()
        time.sleep(0.3)
        remove_job(*args)

    one.scheduler.remove_job = remove
    one.scheduler.add_job(note, args=["once"], jobstore="shared", misfire_grace_time=None)
    one.leader.start()
    assert removes.wait(10)
    one.scheduler.shutdown()
    other = on_store()
    other.leader.start()
    assert other.runs_on() and NOTED == ["once"]


def test_the_clock_stops_jobs_before_the_scheduler_is_paused(shared: Coordinator, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make(shared.url)
    one.leader.start()
    assert one.runs_on()
    with monkeypatch.context() as over:
        over.setattr(SchedulerLeader, "is_leader", False)

        def rests() -> bool:
            # One that was taken before may run yet.
            runs = one.runs
            time.sleep(0.5)
            return one.runs == runs

        until(rests, 5)
        assert one.scheduler.state == STATE_RUNNING
    assert one.runs_on()


def test_campaigns_again_after_a_loss(shared: Coordinator, make: Make, name: str) -> None:
    one = make(shared.url)
    one.leader.start()
    assert one.runs_on()
    lost = one.leader.leadership
    assert lost
    with leasehold_client.sync.connect(shared.url) as client:
        taken: list[leasehold_client.sync.Hold] = []
        waits = threading.Thread(target=lambda: taken.append(client.lock(name).acquire()))
        waits.start()
        until(lambda: client.admin.get_lock(name).waiter_count == 1)
        assert client.admin.force_release(name)
        waits.join(10)
        until(lambda: one.scheduler.state == STATE_PAUSED)
        assert taken and not one.leader.is_leader
        with pytest.raises(leasehold_client.LockLost):
            one.leader.check()
    # The other holder is gone.
    until(lambda: one.leader.is_leader)
    assert one.runs_on() and one.leader.leadership is not lost


def test_pauses_while_a_coordinator_is_silent(start: Start, make: Make) -> None:
    coordinator = start()
    one = make(coordinator.url)
    one.leader.start()
    assert one.runs_on()
    coordinator.stop()
    until(lambda: one.scheduler.state == STATE_PAUSED)
    assert not one.leader.is_leader
    coordinator.go_on()
    assert one.runs_on() and one.scheduler.state == STATE_RUNNING


def test_pauses_while_it_is_suspended(start: Start, make: Make) -> None:
    coordinator = start()
    one = make(coordinator.url, disconnect_grace=1)
    one.leader.start()
    assert one.runs_on()
    coordinator.kill()
    until(lambda: one.scheduler.state == STATE_PAUSED)
    coordinator.restart()
    assert one.runs_on()


def test_starts_without_a_coordinator(start: Start, make: Make) -> None:
    coordinator = start()
    coordinator.kill()
    one = make(coordinator.url, connect_timeout=0.2)
    one.leader.start()
    assert one.scheduler.state == STATE_PAUSED
    coordinator.restart()
    assert one.runs_on()


def test_start_of_the_scheduler_itself(shared: Coordinator, make: Make) -> None:
    one, other = make(shared.url), make(shared.url)
    one.scheduler.start()
    assert one.runs_on()
    other.scheduler.start()
    assert other.scheduler.state == STATE_PAUSED and one.runs_on() and other.runs == 0


def test_blocking_scheduler(shared: Coordinator, make: Make) -> None:
    one = make(shared.url, BlockingScheduler())
    thread = threading.Thread(target=one.leader.start)
    thread.start()
    assert one.runs_on()
    one.scheduler.shutdown()
    thread.join(10)
    assert not thread.is_alive() and not one.leader.is_leader


async def test_asyncio_scheduler(shared: Coordinator, make: Make) -> None:
    one = make(shared.url, AsyncIOScheduler())
    one.leader.start()
    async with asyncio.timeout(15):
        while one.runs < 3:
            await asyncio.sleep(0.01)
    assert one.leader.is_leader
    one.scheduler.shutdown()
    async with asyncio.timeout(15):
        while one.scheduler.running or one.leader.is_leader:
            await asyncio.sleep(0.01)
