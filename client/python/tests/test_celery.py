"""The leader among several processes of Celery beat."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("celery", reason="it needs the extra `celery`")
pytest.importorskip("redis", reason="the broker of the test is Redis")

import redis as redis_py
from celery import Celery
from celery.beat import Scheduler
from celery.schedules import crontab
from conftest import Coordinator, Start

import leasehold_client.sync
from leasehold_client.celery import LeaderMixin

HERE = Path(__file__).resolve().parent


def until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come true: {what}"
        time.sleep(0.02)


class Beats:
    """Processes of beat, and what they have sent."""

    def __init__(self, redis: str, coordinator: Coordinator, directory: Path) -> None:
        """Makes it without a process."""
        self._redis = redis_py.Redis.from_url(redis)
        self._redis.flushall()
        given = {"BEAT_BROKER": redis, "BEAT_ENDPOINT": coordinator.url, "BEAT_DATABASE": str(directory / "database")}
        self.environment = {**os.environ, **given, "PYTHONPATH": str(HERE)}
        self._directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, app: str = "beat_app", scheduler: str = "leasehold_client.celery:LeaderScheduler") -> subprocess.Popen[bytes]:
        """Starts a process."""
        number = len(self.processes)
        files = ["-s", str(self._directory / f"schedule{number}"), "--pidfile="]
        command = [sys.executable, "-m", "celery", "-A", app, "beat", "-S", scheduler, *files, "-l", "info"]
        with open(self._directory / f"log{number}", "wb") as log:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))
        return self.processes[-1]

    def logs(self) -> str:
        """Returns what all of them have logged."""
        return "\n".join((self._directory / f"log{number}").read_text() for number in range(len(self.processes)))

    def headers(self) -> list[Any]:
        """Returns the headers of the tasks that were sent, in order."""
        messages: Any = self._redis.lrange("celery", 0, -1)
        return [json.loads(message)["headers"] for message in reversed(messages)]

    def senders(self) -> list[int]:
        """Returns the process ids of those who sent the tasks, in order."""
        origins = [header["origin"] for header in self.headers()]
        return [int(origin.removeprefix("gen").partition("@")[0]) for origin in origins]

    def sent(self, process: subprocess.Popen[bytes]) -> int:
        """Returns how many tasks a process has sent."""
        return self.senders().count(process.pid)

    def close(self) -> None:
        """Ends all processes."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._redis.close()


@pytest.fixture
def coordinator(start: Start) -> Coordinator:
    """The coordinator of the beats."""
    return start()


@pytest.fixture
def beats(redis: str, coordinator: Coordinator, tmp_path: Path) -> Iterator[Beats]:
    """Processes of beat."""
    beats = Beats(redis, coordinator, tmp_path)
    yield beats
    beats.close()


def leader(coordinator: Coordinator) -> str:
    """Returns the client name of the leader, and empty text if there is none."""
    with leasehold_client.sync.connect(coordinator.url) as client:
        return next((holder.client_name for holder in client.admin.get_lock("celery-beat").holders), "")


def test_one_of_two_beats_sends(beats: Beats, coordinator: Coordinator) -> None:
    first = beats.start()
    until(lambda: beats.sent(first) > 2, "the only process sends")
    second = beats.start()
    with leasehold_client.sync.connect(coordinator.url) as client:
        until(lambda: client.admin.get_lock("celery-beat").waiter_count == 1, "the second one campaigns")
    count = beats.sent(first)
    until(lambda: beats.sent(first) > count + 3, "the first one goes on")
    assert set(beats.senders()) == {first.pid}

    # A killed leader is followed at once, by one that sends what is due, and not what was sent.
    first.kill()
    killed_at = time.monotonic()
    until(lambda: beats.sent(second) > 0, "the second one takes over")
    assert time.monotonic() - killed_at < 5
    senders = beats.senders()
    assert senders == sorted(senders, key=[first.pid, second.pid].index), "both sent at the same time"

    # A coordinator that is away takes no scheduler down.
    coordinator.kill()
    until(lambda: "sending no tasks" in beats.logs(), "the second one stops to send")
    count = beats.sent(second)
    third = beats.start()
    until(lambda: "failed to campaign" in beats.logs(), "the third one can't campaign yet")
    assert beats.sent(second) == count and third.poll() is None and second.poll() is None
    coordinator.restart()
    until(lambda: beats.sent(second) > count or beats.sent(third) > 0, "one of them leads again")

    # An end in order lets the other one lead at once.
    (ends, stays) = (second, third) if leader(coordinator).endswith(f"/{second.pid}") else (third, second)
    with leasehold_client.sync.connect(coordinator.url) as client:
        until(lambda: client.admin.get_lock("celery-beat").waiter_count == 1, "the other one campaigns")
    count = beats.sent(stays)
    ends.send_signal(signal.SIGTERM)
    assert ends.wait(10) == 0
    until(lambda: beats.sent(stays) > count, "the other one leads")
    assert "Traceback" not in beats.logs()


def test_schedule_in_the_database_of_django(beats: Beats, coordinator: Coordinator) -> None:
    pytest.importorskip("django_celery_beat", reason="its scheduler keeps the schedule in a database")
    subprocess.run([sys.executable, "-m", "django_beat_app"], env=beats.environment, check=True)

    def start() -> subprocess.Popen[bytes]:
        return beats.start("django_beat_app", "django_beat_app:LeaderScheduler")

    def counts(task: str) -> int:
        return sum(header["task"] == task for header in beats.headers())

    first = start()
    until(lambda: beats.sent(first) > 2 and counts("hourly") > 0, "the only process sends", 60)
    second = start()
    with leasehold_client.sync.connect(coordinator.url) as client:
        until(lambda: client.admin.get_lock("celery-beat").waiter_count == 1, "the second one campaigns", 60)
        count = beats.sent(first)
        until(lambda: beats.sent(first) > count + 1, "the first one goes on", 60)
    # It tells its database of what it has sent every three minutes only.
    first.kill()
    until(lambda: beats.sent(second) > 1, "the second one takes over", 60)
    assert (counts("hourly"), counts("once")) == (1, 1)
    assert "Traceback" not in beats.logs()


class Recording(LeaderMixin, Scheduler):  # type: ignore[misc]
    """Scheduler that notes instead of sending."""

    standby_interval = 0.01

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Makes it, with nothing sent."""
        self.sent: list[str] = []
        self.producer = None
        super().__init__(*args, **kwargs)

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **kwargs: Any) -> Any:
        """Notes a task. Celery before 5.3.5 logs the id of what it is told."""
        self.sent.append(entry.name)
        return SimpleNamespace(id=entry.name)


@pytest.fixture
def make(shared: Coordinator, name: str) -> Iterator[Callable[[], Recording]]:
    """Makes schedulers that ended up in one election, with tasks that are long due."""
    made: list[Recording] = []
    app = Celery("x")
    app.conf.update(
        leasehold_endpoints=shared.url,
        leasehold_election=name,
        beat_schedule={
            "daily": {"task": "t", "schedule": crontab(minute="0", hour="0")},
            "hourly": {"task": "t", "schedule": timedelta(hours=1)},
        },
    )

    def begin() -> Recording:
        scheduler = Recording(app)
        for entry in scheduler.schedule.values():
            entry.last_run_at = entry.default_now() - timedelta(days=2)
        made.append(scheduler)
        return scheduler

    yield begin
    for scheduler in made:
        scheduler.close()


def ticks(scheduler: Recording, condition: Callable[[], bool]) -> None:
    """Has a scheduler tick until a condition holds."""

    def tick() -> bool:
        assert scheduler.tick() >= 0
        return condition()

    until(tick, "it ticks")


def test_next_leader_sends_nothing_twice(make: Callable[[], Recording]) -> None:
    one, other = make(), make()
    ticks(one, lambda: len(one.sent) == 2)
    # The leader says so at its next tick.
    one.tick()

    def is_noted() -> bool:
        now = other.schedule["daily"].default_now()
        return all(now - entry.last_run_at < timedelta(hours=1) for entry in other.schedule.values())

    ticks(other, is_noted)
    one.close()
    ticks(other, lambda: other._led)
    assert one.sent and other.sent == []
    # What falls due under the new leader is sent.
    other.schedule["hourly"].last_run_at -= timedelta(hours=2)
    other._heap = None
    ticks(other, lambda: other.sent == ["hourly"])


def test_next_leader_sends_what_was_not_sent(make: Callable[[], Recording]) -> None:
    one, other = make(), make()
    one.apply_entry = lambda entry, producer=None: None  # type: ignore[method-assign]
    ticks(one, lambda: one._led)
    ticks(other, lambda: other._candidate is not None)
    one.close()
    ticks(other, lambda: sorted(other.sent) == ["daily", "hourly"])


def test_loss_before_the_broker_is_reached(make: Callable[[], Recording], shared: Coordinator, name: str) -> None:
    one = make()
    ticks(one, lambda: len(one.sent) == 2)
    candidate = one._candidate
    assert candidate and candidate.leadership
    lost = candidate.leadership
    with leasehold_client.sync.connect(shared.url) as client:
        assert client.admin.force_release(name)
    until(lambda: not lost.is_leader, "the loss is known")
    # Elected again, without a word of the user's.
    ticks(one, lambda: candidate.is_leader and candidate.leadership is not lost)
    candidate.stop()
    one.apply_entry(one.schedule["daily"])
    assert len(one.sent) == 2


def test_bad_settings_do_not_end_the_scheduler() -> None:
    app = Celery("x")
    app.conf.update(leasehold_endpoints="no url", beat_schedule={"a": {"task": "t", "schedule": 0.01}})
    scheduler = Recording(app)
    for _ in range(3):
        assert scheduler.tick() > 0
    assert scheduler.sent == []
    scheduler.close()
