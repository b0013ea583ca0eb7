"""Hostile callers: random public calls with random arguments beside a lock that must live, with its token, until the end.

`HOSTILE_SECONDS` says for how long, and `HOSTILE_SEED` draws the calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from conftest import Coordinator

import leasehold_client
import leasehold_client.sync
from leasehold_client import LockMode, LockSpec

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "3"))
SEED = int(os.environ.get("HOSTILE_SEED", "1"))
HANGS = 60
"""Seconds after which a call hangs. It says no more than that: calls that wait are given milliseconds."""

pytestmark = [pytest.mark.timeout(SECONDS + 3 * HANGS), pytest.mark.filterwarnings("ignore::ResourceWarning")]

JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**64,
    10**400,
    0.0,
    -0.5,
    1e300,
    float("nan"),
    float("inf"),
    1j,
    "",
    "x",
    "a\x00b",
    "\ud800",
    "é" * 600,
    "x" * 5_000_000,
    b"",
    b"x",
    b"\xff" * 5_000_000,
    bytearray(b"x"),
    [],
    ["a"],
    [None],
    ("a", b"b"),
    {},
    {"a": 1},
    object(),
    int,
    ...,
    LockSpec("x"),
    LockSpec(None),  # type: ignore[arg-type]
    LockMode.SHARED,
    timedelta(days=-1),
    timedelta.max,
    lambda *_: 1 / 0,
]

ALLOWED = (leasehold_client.LeaseholdError, TypeError, ValueError)


class Hostile:
    """Source of calls and arguments."""

    def __init__(self, seed: int) -> None:
        """Draws by this seed."""
        self.random = random.Random(seed)

    def pick(self, *good: Any) -> Any:
        """Returns one of the good values, or something else."""
        return self.random.choice(good) if good and self.random.random() < 0.6 else self.random.choice(JUNK)

    def name(self) -> Any:
        """Returns a name, more or less. Few are good, so that callers meet."""
        return self.pick("h1", "h2", "h3")

    def some(self, **values: Any) -> dict[str, Any]:
        """Returns some of the arguments."""
        return {name: value for name, value in values.items() if self.random.random() < 0.4}

    def common(self) -> dict[str, Any]:
        """Returns arguments of every request."""
        return self.some(
            wait=self.pick(0, 0.01, timedelta(milliseconds=5)),
            value=self.pick(b"v", "v"),
            lock_delay=self.pick(0, 0.01),
            max_hold=self.pick(1, 5, None),
            actor=self.pick(None, leasehold_client.Actor()),
            reentrant=self.pick(True, False),
        )

    def request(self, client: Any) -> Any:
        """Returns a request for locks."""
        match self.random.randrange(3):
            case 0:
                return client.lock(self.name(), **self.common(), **self.some(shared=self.pick(True, False)))
            case 1:
                locks = self.pick([self.name(), self.name()], [LockSpec(self.name(), self.pick(*LockMode), self.pick(1), self.pick(2))])
                return client.lock_all(locks, **self.common())
            case _:
                semaphore = client.semaphore(self.pick("hs1", "hs2"), self.pick(3), **self.some(limit_revision=self.pick(0)))
                return semaphore.permits(self.pick(1, 2), **self.common(), **self.some(at_least=self.pick(1)))

    def change(self, hold: Any) -> Any:
        """Calls something of a hold."""
        match self.random.randrange(8):
            case 0 | 1 | 2:
                return hold.release()
            case 3:
                return hold.set_value(self.pick("w"))
            case 4:
                return hold.keep(self.pick(1))
            case 5:
                return hold.downgrade()
            case 6:
                # Without a state, it would wait for a change.
                return hold.changed(self.pick(leasehold_client.LockState.SUSPENDED) or leasehold_client.LockState.SUSPENDED)
            case _:
                return hold.settled()

    def administer(self, client: Any) -> Any:
        """Calls something of an operator's, on other names than the one that must live."""
        admin = client.admin
        match self.random.randrange(6):
            case 0:
                return admin.get_lock(self.name())
            case 1:
                return admin.force_release(self.name(), **self.some(token=self.pick(1), waiter=self.pick(1)))
            case 2:
                return admin.request_release(self.name(), **self.some(token=self.pick(0), reason=self.pick("r"), within=self.pick(1)))
            case 3:
                return admin.end_session(self.pick("nobody"))
            case 4:
                return admin.check_token(self.name(), self.pick(1))
            case _:
                return admin.status()

    def connect(self, module: Any, url: str) -> None:
        """Makes a client, which is not opened."""
        module.connect(
            self.pick(url, [url]),
            **self.some(
                client_name=self.pick("n"),
                ttl=self.pick(2),
                disconnect_grace=self.pick(0),
                metadata=self.pick({"a": "b"}),
                connect_timeout=self.pick(5),
                backoff=self.pick((0.1, 1)),
                tls=self.pick(None),
                token=self.pick(None),
                token_file=self.pick(None),
                allow_plaintext_token=self.pick(True),
                trace_context=self.pick(None),
            ),
        )


async def _asked(hostile: Hostile, client: leasehold_client.Client, url: str, holds: list[Any]) -> None:
    """Makes one call, of whatever kind."""
    dice = hostile.random.random()
    if dice < 0.5:
        request = hostile.request(client)
        if hostile.random.random() < 0.2:
            async with asyncio.timeout(0.05), request as hold:
                hold.check()
                if hostile.random.random() < 0.3:
                    await hold.release()
        else:
            # Often given up, at any moment.
            patience = hostile.random.choice([0, 0.002, 0.05])
            granted = await asyncio.wait_for(request.acquire() if hostile.random.random() < 0.5 else request.try_acquire(), patience)
            if granted:
                holds += list(granted) if isinstance(granted, leasehold_client.Holds) else [granted]
    elif dice < 0.75 and holds:
        called = hostile.change(hostile.random.choice(holds))
        if called:
            await called
    elif dice < 0.8:
        election = client.election(hostile.pick("he"), **hostile.some(value=hostile.pick("v"), wait=hostile.pick(0)))
        holds.append(await asyncio.wait_for(election.campaign(hostile.pick(None, "me")), 0.01))
    elif dice < 0.85 and holds:
        # In another loop, and in another thread.
        called = hostile.change(hostile.random.choice(holds))
        if called:
            with contextlib.suppress(RuntimeError):
                await asyncio.to_thread(asyncio.run, called)
    elif dice < 0.9:
        hostile.connect(leasehold_client, url)
    else:
        await hostile.administer(client)


async def test_nothing_that_tasks_do_wrong_hangs_or_costs_another_lock(shared: Coordinator, name: str) -> None:
    threads = set(threading.enumerate())
    hostile = Hostile(SEED)
    until = time.monotonic() + SECONDS
    calls = 0
    async with leasehold_client.connect(shared.url, client_name=name, ttl=10) as client, client.lock(name) as kept:
        holds: list[Any] = []
        while time.monotonic() < until or calls < 300:
            calls += 1

            async def one() -> None:
                # A call that was given up times out.
                with contextlib.suppress(*ALLOWED, TimeoutError):
                    await _asked(hostile, client, shared.url, holds)

            async with asyncio.timeout(HANGS):
                await asyncio.gather(*(one() for _ in range(hostile.random.randrange(1, 5))))
            kept.check()
            del holds[:-8]
        holds.clear()
        assert await client.admin.check_token(name, kept.token)
    # A cancelled call may have left a task that is about to end.
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0.01)
    while set(threading.enumerate()) - threads - _of_the_loop():
        await asyncio.sleep(0.01)
    async with leasehold_client.connect(shared.url) as other:
        while any(one.client_name == name for one in await other.admin.list_sessions()):
            await asyncio.sleep(0.01)


def _of_the_loop() -> set[threading.Thread]:
    """Returns the threads of the loop's own pool, and C core's poller, which live on."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("asyncio_") or "_poll_wrapper" in thread.name}


def _asked_of_threads(hostile: Hostile, client: leasehold_client.sync.Client, url: str, holds: list[Any]) -> None:
    """Makes one call, of whatever kind."""
    dice = hostile.random.random()
    if dice < 0.5:
        request = hostile.request(client)
        granted = request.try_acquire()
        if granted and hostile.random.random() < 0.3:
            with granted:
                granted.check()
        elif granted:
            holds += list(granted) if isinstance(granted, leasehold_client.sync.Holds) else [granted]
    elif dice < 0.8 and holds:
        hostile.change(hostile.random.choice(holds))
    elif dice < 0.85:
        holds.append(client.election(hostile.pick("he"), wait=hostile.pick(0) or 0).campaign(hostile.pick(None, "me")))
    elif dice < 0.9:
        hostile.connect(leasehold_client.sync, url)
    else:
        hostile.administer(client)


def test_nothing_that_threads_do_wrong_hangs_or_costs_another_lock(shared: Coordinator, name: str) -> None:
    before = set(threading.enumerate())
    until = time.monotonic() + SECONDS
    with leasehold_client.sync.connect(shared.url, client_name=name, ttl=10) as client, client.lock(name) as kept:

        def work(seed: int) -> None:
            hostile = Hostile(seed)
            holds: list[Any] = []
            calls = 0
            while time.monotonic() < until or calls < 100:
                calls += 1
                with contextlib.suppress(*ALLOWED):
                    _asked_of_threads(hostile, client, shared.url, holds)
                kept.check()
                del holds[:-4]

        with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
            warnings.simplefilter("ignore")
            for done in [pool.submit(work, SEED * 1000 + number) for number in range(4)]:
                done.result(SECONDS + HANGS)
        gc.collect()
        kept.check()
        assert client.admin.check_token(name, kept.token)
    with leasehold_client.sync.connect(shared.url) as other:
        while any(one.client_name == name for one in other.admin.list_sessions()):
            time.sleep(0.01)
    while {thread for thread in threading.enumerate() if thread.name == "leasehold"} - before:
        time.sleep(0.01)
