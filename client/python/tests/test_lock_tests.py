"""CPython's own tests of locks and semaphores (`test.lock_tests`), over the interface for threads."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from conftest import Coordinator

import leasehold_client.sync

lock_tests: Any = pytest.importorskip("test.lock_tests", reason="this Python comes without its tests")

# They drop locks that they hold.
pytestmark = pytest.mark.filterwarnings("ignore:the hold of lock:ResourceWarning")

_numbers = itertools.count()


def wait_of(blocking: bool, timeout: float) -> float | None:
    """Returns a wait of Leasehold for the arguments of `threading.Lock.acquire`."""
    if not blocking:
        if timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        return 0
    if timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > threading.TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
    # A day is the longest wait that a coordinator takes.
    return None if timeout == -1 else min(timeout, 86_400.0)


class Primitive:
    """What is common to the primitives: a fresh name, and a stack of holds from which any thread may release."""

    client: ClassVar[leasehold_client.sync.Client]

    def __init__(self) -> None:
        """Makes it with a name that no other has."""
        self.name = f"lock-tests-{os.getpid()}-{next(_numbers)}"
        self.holds: list[leasehold_client.sync.Hold] = []

    def request(self, wait: float | None) -> leasehold_client.sync.LockRequest[leasehold_client.sync.Hold]:
        """Returns the request to acquire it."""
        raise NotImplementedError

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquires it, as `threading.Lock.acquire`."""
        try:
            self.holds.append(self.request(wait_of(blocking, timeout)).acquire())
        except (leasehold_client.Busy, leasehold_client.TimedOut):
            return False
        return True

    def release(self) -> None:
        """Releases what was acquired last."""
        if not self.holds:
            raise RuntimeError("release unlocked lock")
        assert self.holds.pop().release()

    def locked(self) -> bool:
        """Whether anybody holds it."""
        return self.client.admin.get_lock(self.name).holder_count > 0

    def __enter__(self) -> bool:
        """Acquires it."""
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        """Releases it."""
        self.release()


class Lock(Primitive):
    """Form of `threading.Lock`."""

    def request(self, wait: float | None) -> leasehold_client.sync.LockRequest[leasehold_client.sync.Hold]:
        """Returns the request of the lock."""
        return self.client.lock(self.name, wait=wait)


class RLock(Primitive):
    """Form of `threading.RLock`: the running thread is the actor."""

    def request(self, wait: float | None) -> leasehold_client.sync.LockRequest[leasehold_client.sync.Hold]:
        """Returns the request of the lock, which the thread may hold already."""
        return self.client.lock(self.name, wait=wait, reentrant=True)

    def _recursion_count(self) -> int:
        # The coordinator counts, by the actor of the running thread.
        probe = self.client.lock(self.name, reentrant=True).try_acquire()
        if probe is None:
            return 0
        assert probe.release()
        return probe.hold_count - 1

    def _is_owned(self) -> bool:
        return self._recursion_count() > 0


class BoundedSemaphore(Primitive):
    """Form of `threading.BoundedSemaphore`."""

    def __init__(self, value: int = 1) -> None:
        """Makes a semaphore with so many permits."""
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        super().__init__()
        self.value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Takes a permit, as `threading.Semaphore.acquire`."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        return super().acquire(blocking, -1 if timeout is None else timeout)

    def request(self, wait: float | None) -> leasehold_client.sync.LockRequest[leasehold_client.sync.Hold]:
        """Returns the request of a permit."""
        return self.client.semaphore(self.name, self.value).permits(1, wait=wait)

    def release(self, permits: int = 1) -> None:
        """Gives permits back."""
        if len(self.holds) < permits:
            raise ValueError("semaphore released too many times")
        for _ in range(permits):
            super().release()


@pytest.fixture(autouse=True)
def client(shared: Coordinator) -> Iterator[None]:
    """The client of the primitives, whose thread is there before a test counts threads."""
    with leasehold_client.sync.connect(shared.url, client_name="lock-tests") as Primitive.client:
        yield


# Tests that are set to none do not apply: they are about the text of `repr`, weak references to an object of `threading`, and a private
# method by which `threading` mends its locks after a fork. A child of a fork holds nothing here, which other tests look at.


class TestLock(lock_tests.LockTests):  # type: ignore[misc]
    """Tests of `threading.Lock`."""

    locktype = Lock
    test_repr: Any = None
    test_locked_repr: Any = None
    test_weakref_exists: Any = None
    test_weakref_deleted: Any = None
    test_at_fork_reinit: Any = None


class TestRLock(lock_tests.RLockTests):  # type: ignore[misc]
    """Tests of `threading.RLock`."""

    locktype = RLock
    test_repr: Any = None
    test_locked_repr: Any = None
    test_weakref_exists: Any = None
    test_weakref_deleted: Any = None
    # A private method by which `threading.Condition` releases all of a lock's levels.
    test_release_save_unacquired: Any = None
    # A hold may be released by another thread than the one that acquired it.
    test_different_thread: Any = None


class TestBoundedSemaphore(lock_tests.BoundedSemaphoreTests):  # type: ignore[misc]
    """Tests of `threading.BoundedSemaphore`."""

    semtype = BoundedSemaphore
    test_repr: Any = None
