"""Silence that is shorter than the TTL. It takes more than a minute, so that these tests run beside all others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import Coordinator
from relay import Relay

import leasehold_client

CUT_OFF = 75
"""Seconds for which nothing gets through: longer than C core waits for the answer to a ping on a connection that it probes."""
STOPPED = 15
"""Seconds for which a process is stopped."""

pytestmark = [pytest.mark.beside, pytest.mark.timeout(300)]


class Swallowing(Relay):
    """Proxy that can swallow what both sides send. It closes nothing meanwhile."""

    def __init__(self, port: int) -> None:
        """Makes a proxy to this port."""
        super().__init__(port)
        self._passes = asyncio.Event()
        self._passes.set()
        self._passed_at = time.monotonic()

    async def swallow(self) -> None:
        """Passes nothing on from now on, once both sides are quiet. It keeps what they send, as TCP does."""
        while time.monotonic() < self._passed_at + 1:
            await asyncio.sleep(0.1)
        self._passes.clear()

    def go_on(self) -> None:
        """Passes everything on."""
        self._passes.set()

    async def may_pass(self) -> None:
        """Waits while everything is swallowed."""
        await self._passes.wait()
        self._passed_at = time.monotonic()


async def _cut_off(coordinator: Coordinator) -> None:
    proxy = Swallowing(coordinator.port)
    try:
        await _lives_through(proxy, await proxy.serve(), coordinator.url)
    finally:
        await proxy.close()


async def _lives_through(proxy: Swallowing, cut: str, url: str) -> None:
    async with (
        leasehold_client.connect(cut, ttl=150) as client,
        leasehold_client.connect(url, ttl=10) as other,
        client.lock("cut-off") as lock,
    ):
        waiting = asyncio.create_task(other.lock("cut-off").acquire())
        await proxy.swallow()
        until = time.monotonic() + CUT_OFF
        while time.monotonic() < until:
            lock.check()
            await asyncio.sleep(0.1)
        proxy.go_on()
        # The session is heard again.
        await (await client.lock("another").acquire()).release()
        lock.check()
        assert not waiting.done()
        assert await other.admin.check_token("cut-off", lock.token)
        await lock.release()
        assert (await waiting).token > lock.token


def test_a_cut_that_is_shorter_than_the_ttl_loses_nothing() -> None:
    coordinator = Coordinator()
    try:
        asyncio.run(_cut_off(coordinator))
    finally:
        coordinator.close()


PROGRAM = """
    import sys, time
    import leasehold_client.sync

    with leasehold_client.sync.connect(sys.argv[1], ttl=60) as client, client.lock("stopped") as lock:
        print("held", flush=True)
        sys.stdin.readline()
        lock.check()
        client.lock("another").acquire().release()
        lock.check()
        print("still held", flush=True)
"""


def test_a_process_that_is_stopped_for_less_than_its_ttl_loses_nothing() -> None:
    coordinator = Coordinator()
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), coordinator.url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "held\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate("go on\n")
        assert out == "still held\n" and process.returncode == 0
    finally:
        process.kill()
        process.communicate()
        coordinator.close()
