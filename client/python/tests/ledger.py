"""Ledger of jobs in a file, which nothing but a lock protects: where two write at once, a line is missing, or there twice."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import leasehold_client
import leasehold_client.sync

PAUSE = 0.003
"""Seconds between the look at the ledger and the change of it."""
RAN, HAD_RUN = "ran", "had run"
MOST_AGAIN = 500
"""Requests that may fail before no more are made."""


@dataclass(frozen=True)
class Line:
    """A job that has run: in which process, and under which fencing token."""

    job: str
    pid: int
    token: int


class Ledger:
    """The file. Whoever reads or writes holds the lock."""

    def __init__(self, path: Path) -> None:
        """Makes it of a file, which need not be there yet."""
        self._path = path

    def lines(self) -> list[Line]:
        """Returns all jobs, in order."""
        if not self._path.exists():
            return []
        fields = (line.split() for line in self._path.read_text().splitlines())
        return [Line(job, int(pid), int(token)) for job, pid, token in fields]

    def _write(self, lines: list[Line], job: str, token: int) -> None:
        """Writes all of it anew, with one job more. A process that is killed has written all or nothing."""
        text = "".join(f"{one.job} {one.pid} {one.token}\n" for one in [*lines, Line(job, os.getpid(), token)])
        draft = self._path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        draft.write_text(text)
        draft.replace(self._path)

    def run(self, job: str, hold: leasehold_client.sync.Hold) -> str:
        """Runs a job, unless it has run: whoever asks may ask again, as brokers and clients of HTTP do."""
        lines = self.lines()
        time.sleep(PAUSE)
        hold.check()
        if any(one.job == job for one in lines):
            return HAD_RUN
        self._write(lines, job, hold.token)
        return RAN

    async def run_in_task(self, job: str, hold: leasehold_client.Hold) -> str:
        """Runs a job as `run` does, and lets other tasks run meanwhile."""
        lines = self.lines()
        await asyncio.sleep(PAUSE)
        hold.check()
        if any(one.job == job for one in lines):
            return HAD_RUN
        self._write(lines, job, hold.token)
        return RAN

    def check(self, jobs: set[str]) -> None:
        """Fails unless each of these jobs has run once, and nothing else, one after the other."""
        lines = self.lines()
        ran = [one.job for one in lines]
        twice, never = {job for job in ran if ran.count(job) > 1}, jobs - set(ran)
        assert not twice and not never, f"of {len(jobs)} jobs, {sorted(twice)} ran twice, and {sorted(never)} never"
        assert set(ran) == jobs
        tokens = [one.token for one in lines]
        assert tokens == sorted(set(tokens)), "two held the lock at once"


class Log:
    """File to which processes append lines, each with its time and process id, without a lock."""

    def __init__(self, path: Path) -> None:
        """Makes it of a file, which need not be there yet."""
        self._path = path

    def write(self, *words: str) -> None:
        """Appends a line with one system call."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, f"{time.monotonic()} {os.getpid()} {' '.join(words)}\n".encode())
        finally:
            os.close(file)

    def lines(self) -> list[tuple[float, int, list[str]]]:
        """Returns all lines, in order."""
        if not self._path.exists():
            return []
        fields = (line.split() for line in self._path.read_text().splitlines())
        return [(float(at), int(pid), words) for at, pid, *words in fields]


class Load:
    """Threads that have jobs run until they are told to stop. Each job is asked for by two of them at about the same time."""

    def __init__(self, ask: Callable[[str], str], pairs: int = 2) -> None:
        """Makes the threads. `ask` has a job run, and returns what was said of it."""
        self._ask = ask
        self._stop = threading.Event()
        self.answers: list[tuple[str, str]] = []
        self.again: list[tuple[str, Exception]] = []
        self._threads = [threading.Thread(target=self._work, args=(str(one % pairs),)) for one in range(2 * pairs)]

    def _work(self, kind: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            self._have_run(f"{kind}-{number}")

    def _have_run(self, job: str) -> None:
        while len(self.again) < MOST_AGAIN:
            try:
                self.answers.append((job, self._ask(job)))
                return
            except Exception as error:
                # Whether it has run is not known: it is asked for again.
                self.again.append((job, error))
                time.sleep(random.uniform(0.02, 0.1))

    def begin(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def goes_on(self, jobs: int = 20) -> None:
        """Waits until so many more requests were answered."""
        until, end = len(self.answers) + jobs, time.monotonic() + 240
        while len(self.answers) < until:
            assert time.monotonic() < end, f"nothing goes on: {self.again[-3:]}"
            time.sleep(0.01)

    def end(self) -> set[str]:
        """Lets each thread finish its job. Returns the jobs that were asked for."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident:
                thread.join()
        return {job for job, _ in self.answers}
