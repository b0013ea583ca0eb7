"""Measures this library, and redis-py beside it, for the benchmark "libraries" of the repository.

    benchmark.py LIBRARY WORK ENDPOINT CLIENTS SECONDS

LIBRARY is leasehold, leasehold-sync or redis-py; ENDPOINT is the URL of what it talks to. With the WORK cycles, each of the CLIENTS tasks
or threads acquires and releases a lock of its own; with handoff, all want one lock. They share one client. After half a second of warm-up
it measures for so many SECONDS, and prints one JSON object: the times of all cycles in microseconds, or [token, granted, releasing] of
each hold, in microseconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import leasehold_client
import leasehold_client.sync

WARM_UP = 500_000
"""In microseconds."""
TTL = 300
"""Longer than any run, in seconds, so that no renewal is among what is measured."""

Acquire = Callable[[str], Awaitable[tuple[int, Callable[[], Awaitable[object]]]]]
"""Acquires a lock, and returns its token and what releases it."""


def now() -> int:
    """Returns the time in microseconds on the clock that all processes of the machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


@asynccontextmanager
async def opened(library: str, endpoint: str, clients: int) -> AsyncIterator[Acquire]:
    """Opens a library for asyncio."""
    if library == "leasehold":
        async with leasehold_client.connect(endpoint, ttl=TTL) as client:

            async def acquire(name: str) -> tuple[int, Callable[[], Awaitable[object]]]:
                hold = await client.lock(name).acquire()
                return hold.token, hold.release

            yield acquire
        return
    from redis.asyncio import Redis

    # As many connections as it asks for: each waits for one answer at a time.
    redis = Redis.from_url(endpoint, max_connections=clients)
    try:

        async def acquire_redis(name: str) -> tuple[int, Callable[[], Awaitable[object]]]:
            # Its pause between attempts is 0.1 s by default.
            lock = redis.lock(name, timeout=TTL)
            await lock.acquire()
            return 0, lock.release

        yield acquire_redis
    finally:
        await redis.aclose()


async def cycles(acquire: Acquire, name: str, start: int, end: int) -> list[int]:
    """Measures acquires with their releases on a lock of its own. Returns their times."""
    times = []
    while True:
        began = now()
        _, release = await acquire(name)
        await release()
        ended = now()
        if ended >= end:
            return times
        if ended >= start:
            times.append(ended - began)


async def hand_offs(acquire: Acquire, name: str, start: int, end: int) -> list[tuple[int, int, int]]:
    """Wants one lock with the others. Returns the token of each hold, when it was granted, and when its release began."""
    holds = []
    while (left := end - now()) > 0:
        try:
            async with asyncio.timeout(left / 1e6):
                token, release = await acquire(name)
        except TimeoutError:
            break
        granted = now()
        await release()
        if granted >= start:
            holds.append((token, granted, granted))
    return holds


async def run_tasks(library: str, work: str, endpoint: str, clients: int, seconds: float) -> list[object]:
    """Runs the work in tasks."""
    async with opened(library, endpoint, clients) as acquire:
        start = now() + WARM_UP
        end = start + int(seconds * 1e6)
        parts: list[list[object]]
        if work == "cycles":
            own = [f"bench/{os.getpid()}/{client}" for client in range(clients)]
            parts = await asyncio.gather(*(cycles(acquire, name, start, end) for name in own))  # type: ignore[assignment]
        else:
            every = (hand_offs(acquire, "bench/contended", start, end) for _ in range(clients))
            parts = await asyncio.gather(*every)  # type: ignore[assignment]
        return [one for part in parts for one in part]


def run_threads(work: str, endpoint: str, clients: int, seconds: float) -> list[object]:
    """Runs the work in threads."""
    with leasehold_client.sync.connect(endpoint, ttl=TTL) as client:
        start = now() + WARM_UP
        end = start + int(seconds * 1e6)
        parts: list[list[object]] = [[] for _ in range(clients)]

        def cycle(number: int) -> None:
            name = f"bench/{os.getpid()}/{number}"
            while True:
                began = now()
                client.lock(name).acquire().release()
                ended = now()
                if ended >= end:
                    return
                if ended >= start:
                    parts[number].append(ended - began)

        def hand_off(number: int) -> None:
            while (left := end - now()) > 0:
                try:
                    hold = client.lock("bench/contended", wait=left / 1e6).acquire()
                except leasehold_client.TimedOut:
                    return
                granted = now()
                hold.release()
                if granted >= start:
                    parts[number].append((hold.token, granted, granted))

        run = cycle if work == "cycles" else hand_off
        threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [one for part in parts for one in part]


def main(library: str, work: str, endpoint: str, clients: str, seconds: str) -> None:
    """Measures, and prints the result."""
    if library == "leasehold-sync":
        result = run_threads(work, endpoint, int(clients), float(seconds))
    else:
        result = asyncio.run(run_tasks(library, work, endpoint, int(clients), float(seconds)))
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
