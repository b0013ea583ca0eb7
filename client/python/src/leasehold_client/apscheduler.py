"""Leader among several processes with a scheduler of APScheduler 3: only the leader's scheduler runs jobs, the others are paused.

    scheduler = BackgroundScheduler()
    leader = leasehold_client.apscheduler.SchedulerLeader(scheduler, client, "shop-jobs")
    scheduler.add_job(report, "cron", hour=4)
    leader.start()  # the scheduler is paused until this process is elected
    ...
    scheduler.shutdown()  # waits for running jobs, then resigns

It needs the extra `leasehold-client[apscheduler]`.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from apscheduler.events import EVENT_SCHEDULER_SHUTDOWN, EVENT_SCHEDULER_STARTED
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.base import STATE_PAUSED, BaseScheduler

from . import sync
from ._candidate import Candidate
from .errors import LockLost, LostReason

__all__ = ["SchedulerLeader"]

log = logging.getLogger("leasehold_client.apscheduler")

_LOOK_AGAIN = 0.2
"""Seconds after which a scheduler looks for jobs again whose leadership has ended, until it is paused."""


class SchedulerLeader:
    """Leader that resumes a scheduler when this process is elected, and pauses it when the leadership is suspended or lost.

    It campaigns from the scheduler's start to its shutdown, again after each loss, on a session of its own. If the client is closed before,
    the scheduler is paused, and the leadership is handed on when the running jobs have ended, at most after `close_timeout`. Any scheduler
    of APScheduler 3 will do. A job that is running at a loss goes on: have it call `check()` before each step, and pass `token` to what it
    changes.
    """

    def __init__(self, scheduler: BaseScheduler, client: sync.Client, election: str, *, value: bytes | str = b"") -> None:
        """Makes the leader of a scheduler that is not started yet. The client is opened if it is not open."""
        self._scheduler, self._client, self._election, self._value = scheduler, client, election, value
        self._candidate: Candidate | None = None
        self._taking = threading.RLock()
        self._is_shut_down = False
        # Private, but the one place where a scheduler of whatever kind takes jobs that are due.
        self._take_due_jobs, scheduler._process_jobs = scheduler._process_jobs, self._process_jobs
        self._shut_down, scheduler.shutdown = scheduler.shutdown, self._shutdown
        scheduler.add_listener(self._on_event, EVENT_SCHEDULER_STARTED | EVENT_SCHEDULER_SHUTDOWN)

    def start(self) -> None:
        """Starts the scheduler, paused until this process is elected. Returns as the scheduler's own `start` does."""
        self._scheduler.start(paused=True)

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead now, by this process's own clock."""
        return self._candidate is not None and self._candidate.is_leader

    @property
    def leadership(self) -> sync.Leadership | None:
        """The last leadership, held or not; none before the first."""
        return self._candidate.leadership if self._candidate else None

    @property
    def token(self) -> int:
        """The fencing token of the last leadership; 0 before the first."""
        leadership = self.leadership
        return leadership.token if leadership else 0

    def check(self) -> None:
        """Reads the clock, and fails unless this process leads. Raises `LockLost`, or `LockSuspended` while that may yet be resumed."""
        leadership = self.leadership
        if leadership is None:
            raise LockLost(self._election, 0, LostReason.UNKNOWN)
        leadership.check()

    def _process_jobs(self) -> float | None:
        """Takes the jobs that are due if this process leads. Returns the seconds until the next call."""
        with self._taking:
            if self._is_shut_down:
                # APScheduler looks once more, can't run what it finds, and notes in the store that it has run.
                return None
            if self._scheduler.state != STATE_PAUSED and not self.is_leader:
                # Perhaps the process was stopped for a while, and the candidate has not paused the scheduler yet.
                return _LOOK_AGAIN
            delay: float | None = self._take_due_jobs()
            return delay

    def _shutdown(self, *args: Any, **kwargs: Any) -> None:
        """Shuts the scheduler down between two looks for jobs.

        During one, APScheduler would leave a job that is to run once in the store, although it has run.
        """
        self._is_shut_down = True
        with self._taking:
            pass
        self._shut_down(*args, **kwargs)

    def _on_event(self, event: Any) -> None:
        if event.code == EVENT_SCHEDULER_STARTED:
            # Whoever started it.
            self._scheduler.pause()
            self._is_shut_down = False
            self._candidate = Candidate(self._client, self._election, self._value, self._on_change, is_working=self._is_working)
            self._candidate.start()
        elif self._candidate:
            self._candidate.stop()

    def _is_working(self) -> bool:
        """Returns whether a job runs, or is about to."""
        if not self._taking.acquire(blocking=False):
            return True
        try:
            return any(any(executor._instances.values()) for executor in list(self._scheduler._executors.values()))
        finally:
            self._taking.release()

    def _on_change(self, is_leader: bool) -> None:
        try:
            if is_leader:
                self._scheduler.resume()
            else:
                self._scheduler.pause()
        except SchedulerNotRunningError:
            # It is being shut down.
            log.debug("the scheduler is shut down")
