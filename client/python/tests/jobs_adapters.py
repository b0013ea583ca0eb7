"""Two forked workers that run jobs through an adapter until SIGTERM: `jobs_adapters.py tooz|elections|redis|apscheduler`."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ledger import Ledger, Log

import leasehold_client.sync

ENDPOINT = os.environ["JOBS_ENDPOINTS"]
TTL = 5
"""Seconds. A worker that gets no processor for as long loses what it has."""
ledger = Ledger(Path(os.environ["JOBS_LEDGER"]))
log = Log(Path(os.environ["JOBS_LEDGER"]).with_name("log"))


class Stop:
    """Whether this process was told to end. A flag, because the handler of a signal may interrupt whoever waits for an event."""

    def __init__(self) -> None:
        """Begins to heed SIGTERM, and tells the children."""
        self.children: list[int] = []
        self.is_set = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: Any) -> None:
        self.is_set = True
        for child in self.children:
            os.kill(child, signal.SIGTERM)

    def jobs(self) -> Iterator[str]:
        """Iterates over the jobs from the first that has not run."""
        numbers = itertools.count(len(ledger.lines()))
        return (str(number) for number in itertools.takewhile(lambda _: not self.is_set, numbers))

    def have_run(self, job: str, run: Callable[[str], object], errors: tuple[type[Exception], ...]) -> None:
        """Has a job run, and asks for it again after an error that no coordinator explains, or a lost lock."""
        while not self.is_set:
            try:
                run(job)
                return
            except errors:
                time.sleep(0.05)


stop: Stop


def start(begin: Callable[[], object]) -> None:
    """Calls this until there is a coordinator."""
    while not stop.is_set:
        try:
            begin()
            return
        except Exception:
            time.sleep(0.05)


class Owned:
    """Lock of tooz with the methods of a hold that the ledger calls."""

    def __init__(self, lock: Any) -> None:
        """Makes it of a lock that is acquired."""
        self._lock, self.token = lock, lock.token

    def check(self) -> None:
        """Fails unless it is held."""
        if not self._lock.is_still_owner():
            raise LookupError("the lock is lost")


def tooz_locks() -> None:
    """Runs jobs under a lock of tooz."""
    from tooz import ToozError, coordination

    url = ENDPOINT.replace("http://", "leasehold://") + f"?ttl={TTL}"
    coordinator = coordination.get_coordinator(url, f"worker-{os.getpid()}".encode())
    start(coordinator.start)

    def run(job: str) -> None:
        with coordinator.get_lock(b"ledger") as lock:
            ledger.run(job, Owned(lock))  # type: ignore[arg-type]

    for job in stop.jobs():
        stop.have_run(job, run, (ToozError, LookupError))
    coordinator.stop()


def tooz_elections() -> None:
    """Notes when this worker begins and ends a step as the leader."""
    from tooz import ToozError, coordination

    url = ENDPOINT.replace("http://", "leasehold://") + f"?ttl={TTL}"
    coordinator: Any = coordination.get_coordinator(url, f"worker-{os.getpid()}".encode())
    start(coordinator.start)
    coordinator.watch_elected_as_leader(b"ledger", lambda event: None)
    while not stop.is_set:
        try:
            coordinator.run_watchers()
        except ToozError:
            time.sleep(0.05)
        if coordinator.is_leader(b"ledger"):
            log.write("begins")
            time.sleep(0.003)
            log.write("ends")
        time.sleep(0.02)
    coordinator.stop()


def redis_locks() -> None:
    """Runs jobs under a lock with redis-py's interface."""
    import redis

    import leasehold_client.redis

    client = leasehold_client.sync.connect(ENDPOINT, ttl=TTL)
    start(client.open)
    lock_class = leasehold_client.redis.lock_class(client)

    def run(job: str) -> None:
        with lock_class(None, "ledger", timeout=60) as lock:
            assert isinstance(lock, leasehold_client.redis.Lock) and lock.hold
            ledger.run(job, lock.hold)

    for job in stop.jobs():
        stop.have_run(job, run, (redis.RedisError, leasehold_client.LeaseholdError))
    client.close()


def job() -> None:
    """Job of the store that all workers share."""


def apscheduler() -> None:
    """Runs the jobs of a store in a database, as one of several schedulers."""
    from apscheduler.events import EVENT_JOB_EXECUTED

    from leasehold_client.apscheduler import SchedulerLeader

    scheduler = make_scheduler()
    scheduler.add_listener(lambda event: log.write(f"{event.scheduled_run_time.timestamp():.3f}"), EVENT_JOB_EXECUTED)
    client = leasehold_client.sync.connect(ENDPOINT, ttl=TTL)
    SchedulerLeader(scheduler, client, "jobs").start()
    while not stop.is_set:
        time.sleep(0.05)
    scheduler.shutdown()
    client.close()


def make_scheduler() -> Any:
    """Makes a scheduler whose jobs are in the database that all share."""
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    url = f"sqlite:///{os.environ['JOBS_LEDGER']}.sqlite"
    return BackgroundScheduler(jobstores={"default": SQLAlchemyJobStore(url, engine_options={"connect_args": {"timeout": 60}})})


def add_job() -> None:
    """Adds the job to the store, as the installation of a program does it."""
    scheduler = make_scheduler()
    scheduler.start(paused=True)
    scheduler.add_job("jobs_adapters:job", "interval", seconds=0.2, id="job", misfire_grace_time=60, coalesce=False, max_instances=1000)
    scheduler.shutdown()


def main() -> None:
    """Forks the workers, and waits for their end."""
    global stop
    stop = Stop()
    work = {"tooz": tooz_locks, "elections": tooz_elections, "redis": redis_locks, "apscheduler": apscheduler}[sys.argv[1]]
    for _ in range(2):
        child = os.fork()
        if child == 0:
            stop.children = []
            work()
            return
        stop.children.append(child)
    for child in stop.children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
