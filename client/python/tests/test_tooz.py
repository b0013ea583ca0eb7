"""The driver of tooz: tooz's own coordination tests, and what they do not look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# It warns of eventlet, where that is installed.
pytest.importorskip("tooz.coordination", reason="it needs the extra `tooz`")

import tooz
from conftest import Coordinator, Start
from tooz import coordination

from leasehold_client.tooz import LeaseholdDriver

HERE = Path(__file__).resolve().parent

SKIPPED = {
    # The client renews in the background, so that the driver has no heartbeat of its own.
    "test_heartbeat": "Test not applicable (heartbeating not required)",
    "test_heartbeat_loop": "Test not applicable (heartbeating not required)",
    # It expects that a member which does not call `heartbeat` is dropped.
    "test_timeout": "This driver is not based on timeout",
    # It asks for the class of another driver, and for a private method of it.
    "test_watch_join_group_disappear": "This test only works with coordinators that have the ability to destroy groups.",
}


def url(coordinator: Coordinator, query: str = "") -> str:
    """Returns the URL of tooz for a coordinator."""
    return coordinator.url.replace("http://", "leasehold://") + query


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


Make = Callable[..., LeaseholdDriver]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes drivers that are started, and stopped with the test."""
    made: list[LeaseholdDriver] = []

    def begin(url: str, member: bytes) -> LeaseholdDriver:
        driver = coordination.get_coordinator(url, member)
        assert isinstance(driver, LeaseholdDriver)
        driver.start()
        made.append(driver)
        return driver

    yield begin
    for driver in made:
        if driver.is_started:
            driver.stop()


@pytest.mark.timeout(660)
def test_suite_of_tooz(start: Start) -> None:
    for needed in ("etcd3gw", "fixtures", "pymemcache", "sysv_ipc", "testtools"):
        pytest.importorskip(needed, reason="it needs what tooz's own tests import")
    command = [sys.executable, str(HERE / "tooz_suite.py"), "tooz.tests.test_coordination"]
    environment = {**os.environ, "TOOZ_TEST_URL": url(start())}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    outcomes = [json.loads(line) for line in ran.stdout.splitlines()]
    failed = [f"{one['test']}: {one['text']}" for one in outcomes if one["outcome"] == "failed"]
    assert not failed, "\n".join(failed)
    assert {one["test"]: one["text"] for one in outcomes if one["outcome"] == "skipped"} == SKIPPED
    assert sum(one["outcome"] == "passed" for one in outcomes) >= 70, "tooz's tests were not found"


def test_names(shared: Coordinator, make: Make) -> None:
    driver = make(url(shared, "?namespace=names/"), b"me")
    lock = driver.get_lock(b"a/b \x00\xff")
    assert lock.acquire()
    assert driver._connected.admin.get_lock("names/lock/a/b %00%FF").holder_count == 1
    assert lock.token and lock.acquired
    driver.create_group(b"g/\xff").get()
    assert driver.get_groups().get() == [b"g/\xff"]


def test_waits(shared: Coordinator, make: Make) -> None:
    one, other = make(url(shared), b"one"), make(url(shared), b"other")
    held = one.get_lock(b"waits")
    with held:
        began = time.monotonic()
        assert not other.get_lock(b"waits").acquire(blocking=0.2)
        assert not other.get_lock(b"waits").acquire(timeout=0.2)
        assert time.monotonic() - began >= 0.4
        with pytest.raises(coordination.LockAcquireFailed):
            other.get_lock(b"waits")(blocking=False).__enter__()


def test_a_block_that_waits_for_itself(shared: Coordinator, make: Make) -> None:
    driver = make(url(shared), b"me")
    lock, same = driver.get_lock(b"itself"), driver.get_lock(b"itself")
    with lock:
        # With other drivers, it would wait for ever.
        with pytest.raises(tooz.ToozError, match="holds"):
            same.acquire()
        assert not same.acquire(blocking=False) and not same.acquire(timeout=0.01)
    with lock(shared=True), same(shared=True):
        pass
    with lock:
        pass


def test_lost_lock(shared: Coordinator, make: Make) -> None:
    one, other = make(url(shared), b"one"), make(url(shared), b"other")
    lock = one.get_lock(b"lost")
    assert not lock.is_still_owner() and lock.token is None
    assert lock.acquire()
    assert lock.heartbeat() and lock.is_still_owner()
    assert other.get_lock(b"lost").break_()
    until(lambda: not lock.heartbeat())
    assert not lock.is_still_owner()
    assert not other.get_lock(b"lost").break_()
    # It can be acquired again, and what was lost is not given back.
    assert lock.acquire(blocking=5) and lock.release() and not lock.release()


def test_not_started(shared: Coordinator) -> None:
    driver = coordination.get_coordinator(url(shared), b"me")
    with pytest.raises(tooz.ToozError, match="not started"):
        driver.get_lock(b"x").acquire()
    with pytest.raises(tooz.ToozError, match="not started"):
        driver.get_groups()


def test_stop_ends_everything(shared: Coordinator, make: Make) -> None:
    one, other = make(url(shared), b"one"), make(url(shared), b"other")
    one.create_group(b"stops").get()
    one.watch_elected_as_leader(b"stops", lambda event: None)
    one.run_watchers()
    assert one.is_leader(b"stops")
    lock = one.get_lock(b"stops")
    assert lock.acquire()
    one.stop()
    assert not lock.release() and not one.is_leader(b"stops")
    assert other.get_lock(b"stops").acquire(blocking=5)
    assert other.get_leader(b"stops").get() is None
    with pytest.raises(coordination.GroupNotCreated):
        other.get_members(b"stops").get()


def test_group_outlives_its_creator(shared: Coordinator, make: Make) -> None:
    one, other = make(url(shared), b"one"), make(url(shared), b"other")
    one.create_group(b"outlives").get()
    other.join_group(b"outlives").get()
    one.stop()
    other.leave_group(b"outlives").get()
    assert other.get_members(b"outlives").get() == set()
    # What another coordinator keeps in existence can be deleted as well.
    make(url(shared), b"third").delete_group(b"outlives").get()
    with pytest.raises(coordination.GroupNotCreated):
        other.get_members(b"outlives").get()


def test_members_return_after_a_loss(start: Start, make: Make) -> None:
    coordinator = start()
    driver = make(url(coordinator, "?ttl=1"), b"me")
    driver.join_group_create(b"returns", {"k": 1})
    lock = driver.get_lock(b"returns")
    assert lock.acquire()
    elected: list[coordination.LeaderElected] = []

    def on_elected(event: coordination.LeaderElected) -> None:
        elected.append(event)

    driver.watch_elected_as_leader(b"returns", on_elected)
    driver.run_watchers()
    assert len(elected) == 1 and driver.is_leader(b"returns")
    # Its locks end with it: they were in its memory.
    coordinator.kill()
    until(lambda: not driver.is_leader(b"returns"))
    assert not lock.is_still_owner()
    with pytest.raises(coordination.ToozConnectionError):
        driver.get_lock(b"another").acquire(blocking=0.1)
    coordinator.restart()

    def has_returned() -> bool:
        try:
            return driver.get_members_with_capabilities(b"returns").get() == {b"me": {"k": 1}}
        except (coordination.GroupNotCreated, coordination.ToozConnectionError):
            return False

    until(has_returned)
    driver.run_watchers()
    assert len(elected) == 2 and driver.is_leader(b"returns")
    assert not lock.release()


def test_one_leader(shared: Coordinator, make: Make) -> None:
    one, other = make(url(shared), b"one"), make(url(shared), b"other")
    events: list[bytes] = []

    def on_elected(event: coordination.LeaderElected) -> None:
        events.append(event.member_id)

    for driver in (one, other, one):
        if driver is other or not events:
            driver.watch_elected_as_leader(b"leads", on_elected)
        driver.run_watchers()
    assert events == [b"one"] and one.is_leader(b"leads") and not other.is_leader(b"leads")
    assert not other.stand_down_group_leader(b"leads")
    # Who no longer watches no longer leads.
    one.unwatch_elected_as_leader(b"leads", on_elected)
    other.run_elect_coordinator()
    assert events == [b"one", b"other"] and other.get_leader(b"leads").get() == b"other"


@pytest.mark.parametrize("query", ["?tls=perhaps", "?ttl=long", "?ca=/nowhere/ca.pem"])
def test_bad_options(shared: Coordinator, query: str) -> None:
    driver = coordination.get_coordinator(url(shared, query), b"me")
    with pytest.raises((tooz.ToozError, ValueError)):
        driver.start()


def test_stop_without_a_coordinator(start: Start, make: Make) -> None:
    coordinator = start()
    driver = make(url(coordinator), b"me")
    driver.join_group_create(b"alone")
    coordinator.kill()
    waits = driver.leave_group(b"alone")
    began = time.monotonic()
    driver.stop()
    assert time.monotonic() - began < 5
    with pytest.raises(tooz.ToozError):
        waits.get(timeout=1)
