"""The lock with redis-py's interface, beside redis-py's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("redis", reason="it needs the extra `redis`")

import redis as redis_py
from conftest import Coordinator, Start
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock as RedisLock

import leasehold_client.redis
import leasehold_client.sync

MakeLock = Callable[..., RedisLock]


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


@pytest.fixture
def server(redis: str) -> Iterator[redis_py.Redis]:
    """A client of the Redis server."""
    with redis_py.Redis.from_url(redis) as server:
        yield server


@pytest.fixture
def coordinator(redis: str, start: Start) -> Coordinator:
    """A coordinator that has the same keys as redis-py."""
    return start(redis, "--key-prefix", "")


@pytest.fixture
def client(coordinator: Coordinator) -> Iterator[leasehold_client.sync.Client]:
    """A client of the coordinator."""
    with leasehold_client.sync.connect(coordinator.url, ttl=2) as client:
        yield client


@pytest.fixture(params=["redis-py", "leasehold"])
def lock(request: pytest.FixtureRequest, server: redis_py.Redis, client: leasehold_client.sync.Client, name: str) -> MakeLock:
    """Makes locks of a name that no other test uses, of each kind."""
    kind = RedisLock if request.param == "redis-py" else leasehold_client.redis.lock_class(client)

    def make(**options: object) -> RedisLock:
        made = server.lock(name, lock_class=kind, **options)  # type: ignore[arg-type]
        assert isinstance(made, kind)
        return made

    return make


# Of both kinds: what holds for redis-py's lock holds for ours.


def test_acquire_and_release(lock: MakeLock) -> None:
    one, other = lock(), lock(blocking=False)
    assert not one.locked() and not one.owned()
    assert one.acquire()
    assert one.locked() and one.owned() and one.local.token
    assert other.locked() and not other.owned()
    assert not other.acquire()
    one.release()
    assert not one.owned() and one.local.token is None
    assert other.acquire(token="mine") and other.local.token == b"mine"
    other.release()


def test_waits_for_a_time(lock: MakeLock) -> None:
    with lock():
        began = time.monotonic()
        assert not lock(sleep=0.01).acquire(blocking_timeout=0.2)
        assert not lock(sleep=0.01, blocking_timeout=0).acquire()
        assert 0.15 <= time.monotonic() - began
        assert not lock().acquire(blocking=False)


def test_waits_for_a_release(lock: MakeLock) -> None:
    held = lock()
    held.acquire()
    got: list[bool] = []
    waiter = lock(sleep=0.01, thread_local=False)
    thread = threading.Thread(target=lambda: got.append(waiter.acquire()))
    thread.start()
    held.release()
    thread.join(10)
    assert got == [True]
    waiter.release()


def test_context_manager(lock: MakeLock) -> None:
    with lock() as held:
        assert held.owned()
        with pytest.raises(LockError, match="within the time"), lock(blocking=False):
            pass
    assert not held.locked()
    with pytest.raises(ZeroDivisionError), held:
        raise ZeroDivisionError
    assert not held.locked()


def test_release_of_nothing(lock: MakeLock) -> None:
    with pytest.raises(LockError, match="already unlocked"):
        lock().release()
    with pytest.raises(LockError, match="Cannot extend an unlocked"):
        lock(timeout=1).extend(1)
    with pytest.raises(LockError, match="Cannot reacquire an unlocked"):
        lock(timeout=1).reacquire()
    with lock() as held:
        with pytest.raises(LockError, match="no timeout"):
            held.extend(1)
        with pytest.raises(LockError, match="no timeout"):
            held.reacquire()


def test_ends_at_its_timeout(lock: MakeLock) -> None:
    held, other = lock(timeout=0.3), lock(sleep=0.01)
    began = time.monotonic()
    assert held.acquire() and other.acquire(blocking_timeout=30)
    assert 0.25 <= time.monotonic() - began
    assert not held.owned()
    for change in (lambda: held.extend(1), held.reacquire, held.release):
        with pytest.raises(LockNotOwnedError):
            change()
    assert other.owned()
    other.release()


def test_lost_in_the_body(lock: MakeLock) -> None:
    with pytest.raises(LockNotOwnedError), lock(timeout=0.1) as held:
        until(lambda: not held.owned())
    with lock(timeout=0.1, raise_on_release_error=False) as held:
        until(lambda: not held.owned())


def test_extend(lock: MakeLock) -> None:
    held, other = lock(timeout=1.6), lock(sleep=0.01)
    began = time.monotonic()
    assert held.acquire() and held.extend(1.6)
    assert not other.acquire(blocking_timeout=2) and held.owned()
    assert held.reacquire()
    assert not other.acquire(blocking_timeout=0.8) and held.owned()
    assert held.extend(0.1, replace_ttl=True)
    assert other.acquire(blocking_timeout=30)
    assert 2.8 <= time.monotonic() - began
    other.release()


def test_tokens_of_threads(lock: MakeLock) -> None:
    shared, own = lock(thread_local=False), lock()
    shared.acquire()
    thread = threading.Thread(target=shared.release)
    thread.start()
    thread.join(10)
    assert not shared.locked()
    own.acquire()
    failed: list[BaseException] = []

    def release() -> None:
        try:
            own.release()
        except (LockError, AttributeError) as error:
            # redis-py makes the attribute in one thread only.
            failed.append(error)

    thread = threading.Thread(target=release)
    thread.start()
    thread.join(10)
    assert failed and own.owned()
    own.release()


# Of ours alone.


def test_excludes_locks_of_redis_py(server: redis_py.Redis, client: leasehold_client.sync.Client, name: str) -> None:
    ours, theirs = server.lock(name, lock_class=leasehold_client.redis.lock_class(client)), server.lock(name, timeout=10)
    with ours:
        assert theirs.locked() and not theirs.acquire(blocking=False)
    with theirs:
        assert ours.locked() and not ours.acquire(blocking=False)


def test_a_block_that_waits_for_itself(client: leasehold_client.sync.Client, name: str) -> None:
    kind = leasehold_client.redis.lock_class(client)
    with kind(None, name):
        # With redis-py, it would wait for ever.
        with pytest.raises(LockError, match="holds"):
            kind(None, name).acquire()
        assert not kind(None, name).acquire(blocking_timeout=0.01)
        with kind(None, name + "2"), pytest.raises(leasehold_client.SelfDeadlock):
            client.lock(name).acquire()
    with client.lock(name):
        pass


def test_lives_longer_than_a_ttl(client: leasehold_client.sync.Client, name: str) -> None:
    held = leasehold_client.redis.lock_class(client)(None, name.encode(), timeout=60)
    assert held.acquire(token=b"t")
    assert held.hold and held.hold.token > 0
    view = client.admin.get_lock(name)
    # The key of a process that dies does not stay for the whole timeout.
    assert view.holders[0].ttl and view.holders[0].ttl <= 2 and view.holders[0].value == b"t"
    held.release()
    assert held.hold is None


def test_force_release(client: leasehold_client.sync.Client, name: str) -> None:
    held = leasehold_client.redis.lock_class(client)(None, name)
    held.acquire()
    assert client.admin.force_release(name)
    until(lambda: not held.owned())
    with pytest.raises(LockNotOwnedError):
        held.release()


def test_no_coordinator(start: Start, name: str) -> None:
    coordinator = start()
    with leasehold_client.sync.connect(coordinator.url, ttl=1) as client:
        held = leasehold_client.redis.lock_class(client)(None, name)
        assert held.acquire()
        coordinator.kill()
        until(lambda: not held.owned())
        with pytest.raises(RedisConnectionError):
            leasehold_client.redis.lock_class(client)(None, name).acquire(blocking_timeout=0.1)
        with pytest.raises(RedisConnectionError):
            held.locked()
        with pytest.raises(LockNotOwnedError):
            held.release()
