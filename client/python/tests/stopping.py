"""Programs that are told to end in the middle of work under a lock. Each runs in a process that is forked when this module is imported."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ledger import Log

import leasehold_client
import leasehold_client.sync

# Imported before the fork, where they are installed.
with contextlib.suppress(ImportError):
    import celery
    import celery.apps.beat
    import celery.beat

    import leasehold_client.celery
with contextlib.suppress(ImportError):
    import apscheduler.schedulers.background

    import leasehold_client.apscheduler
with contextlib.suppress(ImportError):
    import leasehold_client.redis
with contextlib.suppress(ImportError), warnings.catch_warnings():
    # Of eventlet, which tooz imports where it is installed.
    warnings.simplefilter("ignore")
    import tooz.coordination

    import leasehold_client.tooz

TTL = 60


class Work:
    """Work that is noted in a log, so that what two do at once is seen."""

    def __init__(self, path: Path) -> None:
        """Makes it with the file of the log."""
        self._log = Log(path)

    def run(self, is_told: Callable[[], bool]) -> None:
        """Works until it is told to end, and for a moment more."""
        self._log.write("begins")
        while not is_told():
            self._log.write("works")
            time.sleep(0.005)
        self.end()

    def end(self) -> None:
        """Works for a moment more."""
        for _ in range(3):
            self._log.write("cleans")
            time.sleep(0.001)
        self._log.write("ends")

    async def run_in_task(self) -> None:
        """Works until it is cancelled, and for a moment more."""
        self._log.write("begins")
        try:
            while True:
                self._log.write("works")
                await asyncio.sleep(0.005)
        finally:
            for _ in range(3):
                self._log.write("cleans")
                await asyncio.sleep(0.001)
            self._log.write("ends")


class Stop:
    """SIGTERM, and threads that work meanwhile."""

    def __init__(self) -> None:
        """Begins to heed the signal."""
        # Its handler may interrupt whoever waits for an event in the middle of that.
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.is_set = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: Any) -> None:
        self.is_set = True
        self._told.put(None)

    def wait(self) -> None:
        """Waits for the signal."""
        self._told.get()


def begin(work: Callable[[], object]) -> threading.Thread:
    """Begins work in a thread."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def threads(url: str, name: str, work: Work) -> None:
    """Closes a client whose thread works."""
    stop, client = Stop(), leasehold_client.sync.connect(url, ttl=TTL)

    @client.lock(name)
    def guarded() -> None:
        work.run(leasehold_client.sync.Hold.current().lost.is_set)

    with client:
        thread = begin(guarded)
        stop.wait()
    thread.join()


def one_thread(url: str, name: str, work: Work) -> None:
    """Leaves the block of the only thread."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with leasehold_client.sync.connect(url, ttl=TTL) as client, client.lock(name):
        try:
            work.run(lambda: False)
        finally:
            work.end()


def tasks(url: str, name: str, work: Work) -> None:
    """Closes a client whose task works."""

    async def main() -> None:
        stop, client = asyncio.Event(), leasehold_client.connect(url, ttl=TTL)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with client:
            task = asyncio.create_task(client.lock(name).run(work.run_in_task))
            await stop.wait()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def tooz_lock(url: str, name: str, work: Work) -> None:
    """Stops a coordinator of tooz whose lock another thread has."""
    stop = Stop()
    coordinator: Any = tooz.coordination.get_coordinator(f"{url.replace('http', 'leasehold')}?namespace=x/&ttl={TTL}", b"me")
    coordinator.start()

    def guarded() -> None:
        with coordinator.get_lock(name.removeprefix("x/lock/").encode()) as lock:
            work.run(lambda: not lock.is_still_owner())

    thread = begin(guarded)
    stop.wait()
    coordinator.stop()
    thread.join()


def redis_lock(url: str, name: str, work: Work) -> None:
    """Closes a client whose lock another thread has through the interface of redis-py."""
    stop, client = Stop(), leasehold_client.sync.connect(url, ttl=TTL)

    def guarded() -> None:
        with leasehold_client.redis.lock_class(client)(None, name) as lock:
            work.run(lambda: not lock.owned())

    with client:
        thread = begin(guarded)
        stop.wait()
    thread.join()


def apscheduler_job(url: str, name: str, work: Work, closes_client: bool) -> None:
    stop, client = Stop(), leasehold_client.sync.connect(url, ttl=TTL)
    scheduler = apscheduler.schedulers.background.BackgroundScheduler()
    leader = leasehold_client.apscheduler.SchedulerLeader(scheduler, client, name)
    is_over = (lambda: not leader.is_leader) if closes_client else (lambda: stop.is_set)
    scheduler.add_job(work.run, args=[is_over], misfire_grace_time=None)
    leader.start()
    stop.wait()
    if closes_client:
        client.close()
    scheduler.shutdown()
    client.close()


def apscheduler_closed(url: str, name: str, work: Work) -> None:
    """Closes the client of a scheduler that runs a job."""
    apscheduler_job(url, name, work, closes_client=True)


def apscheduler_shut_down(url: str, name: str, work: Work) -> None:
    """Shuts a scheduler down that runs a job, whose end it waits for."""
    apscheduler_job(url, name, work, closes_client=False)


def beat(url: str, name: str, work: Work) -> None:
    """Runs Celery beat, which takes a while to send."""

    class Scheduler(leasehold_client.celery.LeaderMixin, celery.beat.Scheduler):  # type: ignore[misc]
        standby_interval = 0.02
        producer = None

        def apply_async(self, *_: Any, **__: Any) -> Any:
            until = time.monotonic() + 0.02
            work.run(lambda: time.monotonic() > until)
            return SimpleNamespace(id=None)

    app = celery.Celery("beat", broker="memory://")
    app.conf.update(
        leasehold_endpoints=url,
        leasehold_election=name,
        leasehold_connect={"ttl": TTL},
        beat_schedule={"often": {"task": "often", "schedule": 0.01}},
    )
    celery.apps.beat.Beat(app=app, scheduler_cls=Scheduler, quiet=True, loglevel="ERROR").run()


KINDS: dict[str, tuple[Callable[[str, str, Work], None], str]] = {
    "threads": (threads, ""),
    "one thread": (one_thread, ""),
    "asyncio": (tasks, ""),
    "tooz": (tooz_lock, "tooz"),
    "redis-py": (redis_lock, "redis"),
    "apscheduler, its client closed": (apscheduler_closed, "apscheduler"),
    "apscheduler, shut down": (apscheduler_shut_down, "apscheduler"),
    "celery beat": (beat, "celery"),
}
"""Programs, and what they need besides the package."""


def main(kind: str, url: str, name: str, path: Path) -> None:
    """Runs a program."""
    KINDS[kind][0](url, name, Work(path))
