"""Client of the torture run: takes locks in several tasks, writes to their registers, and records what it believes.

It takes the arguments of the Rust client torture-client and draws cycles of the same kinds; `tests/checker/HISTORY.md` describes what it
writes:

    torture.py NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]

A task writes to the register of a lock without a look at its hold: fencing has to stop what comes late.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import leasehold_client

LIMIT = 4
"""Permits of each semaphore."""
LOOK = 0.04
"""Longest time between two looks at a hold, in seconds."""
PAUSE = 0.2
"""Pause after an error, in seconds."""
ENDING = 10
"""Longest time for closing at the end, in seconds. What it still has then, it loses with the process."""
MOVED = 10_000
"""A deadline that moved by less is not recorded, in microseconds."""
NAP = 0.02
"""Time between two looks for stalls, in seconds."""
LATE = 100_000
"""A look that comes later by this much is recorded, in microseconds."""


def now() -> int:
    """Returns the time in microseconds on the clock that all processes of the machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


class History:
    """A file. Each line is written with one system call before the caller goes on."""

    def __init__(self, path: Path) -> None:
        """Makes the file."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)

    def line(self, kind: str, *, at: int | None = None, **fields: Any) -> None:
        """Writes a line, by default about this moment."""
        fields |= {"at": now() if at is None else at, "kind": kind}
        os.write(self._file, json.dumps(fields).encode() + b"\n")


def watch_stalls(name: str, path: Path) -> None:
    """Records the times in which this process or its event loop got no processor, in a file beside its history.

    Without that, a busy machine would be taken for a broken promise.
    """
    history = History(path.with_suffix(".stalls.jsonl"))

    def thread() -> None:
        while True:
            since = now()
            time.sleep(NAP)
            if (at := now()) - since > LATE:
                history.line("stalled", at=at, process=name, since=since)

    threading.Thread(target=thread, daemon=True).start()


@dataclass(frozen=True)
class Cycle:
    """One cycle of a task, with the locks, times and frequencies of the Rust client's (`tests/torture/src/locks.rs`)."""

    lock: str
    mode: str
    permits: int
    wait: float | None
    give_up: float | None
    lock_delay: float
    hold: float
    pause: float

    @staticmethod
    def draw(random: Random, quorum: bool) -> Cycle:
        """Draws a cycle. A quorum has exclusive locks alone."""
        mode, permits = "exclusive", 0
        kind = random.randrange(5 if quorum else 11)
        if kind < 5:
            lock = f"torture/exclusive/{random.randrange(4)}"
        elif kind < 8:
            lock = f"torture/mixed/{random.randrange(2)}"
            mode = "shared" if random.random() < 0.7 else mode
        elif kind == 10:
            lock = f"torture/beside/{random.randrange(2)}"
        else:
            lock = f"torture/permits/{random.randrange(2)}"
            mode, permits = "permits", random.randrange(1, LIMIT)

        def seconds(least: int, most: int) -> float:
            return random.randrange(least, most) / 1000

        waits = random.randrange(10)
        return Cycle(
            lock,
            mode,
            permits,
            wait=0 if waits == 0 else seconds(50, 20_000) if waits < 4 else None,
            give_up=seconds(1, 3000) if random.random() < 0.05 else None,
            lock_delay=seconds(100, 500) if random.random() < 0.1 else 0,
            hold=seconds(1000, 6000) if random.random() < 0.05 else seconds(1, 300),
            pause=seconds(0, 200),
        )

    def request(self, client: leasehold_client.Client) -> leasehold_client.LockRequest[leasehold_client.Hold]:
        """Returns the request."""
        if self.mode == "permits":
            semaphore = client.semaphore(self.lock, LIMIT)
            return semaphore.permits(self.permits, wait=self.wait, lock_delay=self.lock_delay)
        return client.lock(self.lock, shared=self.mode == "shared", wait=self.wait, lock_delay=self.lock_delay)

    @property
    def has_register(self) -> bool:
        """Whether a register belongs to the lock: if it is only ever held exclusively."""
        return self.lock.startswith("torture/exclusive/")


class Registers:
    """A task's connection to the harness's registers."""

    def __init__(self, address: str, name: str) -> None:
        """Makes it; it connects when it is used."""
        self._address = address
        self._name = name
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def write(self, cycle: Cycle, token: int) -> None:
        """Writes to the register of a lock, if it has one, and waits for the answer, which only the register records."""
        if not cycle.has_register:
            return
        try:
            if self._open is None:
                host, port = self._address.rsplit(":", 1)
                self._open = await asyncio.open_connection(host, int(port))
            answers, lines = self._open
            lines.write(f"{self._name} {cycle.lock} {token}\n".encode())
            if not await answers.readline():
                self._open = None
        except OSError:
            self._open = None


class World:
    """What all tasks share."""

    def __init__(self, client: leasehold_client.Client, name: str, history: History, registers: str, *, quorum: bool, moves: bool) -> None:
        """Makes it. `moves` means that sessions move to other coordinators at any time, to show newer credentials."""
        self.client = client
        self.name = name
        self.history = history
        self.registers = registers
        self.quorum = quorum
        self.moves = moves
        self.stop = asyncio.Event()
        self._asks = 0

    async def pause(self, seconds: float) -> None:
        """Waits, or until the client is asked to end."""
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            pass

    async def live(self, random: Random) -> None:
        """Runs cycles until the client is asked to end."""
        registers = Registers(self.registers, self.name)
        while not self.stop.is_set():
            cycle = Cycle.draw(random, self.quorum)
            await self.run(cycle, registers)
            await self.pause(cycle.pause)

    def _queue(self) -> str:
        if not self.quorum:
            return ""
        info = self.client.info
        # Where it may join another queue meanwhile, it is in line with nobody.
        return info.coordinator if info and not self.moves else f"{info and info.coordinator} {now()}"

    async def run(self, cycle: Cycle, registers: Registers) -> None:
        """Runs one cycle."""
        self._asks += 1
        ask: dict[str, Any] = {"client": self.name, "ask": self._asks}
        asked: dict[str, Any] = {"lock": cycle.lock, "mode": cycle.mode, "queue": self._queue()}
        if cycle.mode == "permits":
            asked |= {"permits": cycle.permits, "limit": LIMIT}
        if cycle.wait is not None:
            asked["wait"] = round(cycle.wait * 1e6)
        self.history.line("asked", **ask, **asked)
        outcome, why = "failed", ""
        try:
            async with asyncio.timeout(cycle.give_up):
                hold = await cycle.request(self.client).acquire()
        except leasehold_client.TimedOut:
            outcome = "timed_out"
        except leasehold_client.Busy:
            outcome = "busy"
        except TimeoutError:
            outcome = "cancelled"
        except (leasehold_client.Unauthenticated, leasehold_client.PermissionDenied) as error:
            outcome, why = "refused", str(error)
        except leasehold_client.AcquireError as error:
            why = str(error)
        else:
            await self.hold(ask, cycle, hold, registers)
            return
        self.history.line("ended", **ask, outcome=outcome, why=why)
        if why:
            await self.pause(PAUSE)

    async def hold(self, ask: dict[str, Any], cycle: Cycle, hold: leasehold_client.Hold, registers: Registers) -> None:
        """Holds a lock for the cycle's time or until it is lost, writes to its register, and records all that the hold says."""
        until = deadline(hold)
        self.history.line("granted", **ask, token=hold.token, until=until)
        end = time.monotonic() + cycle.hold
        last = leasehold_client.LockState.HELD
        while True:
            state = hold.state
            if state is leasehold_client.LockState.LOST:
                self.history.line("lost", **ask, why=str(hold.loss))
                # The late write of a client that does not know better.
                await registers.write(cycle, hold.token)
                return
            if state is leasehold_client.LockState.SUSPENDED:
                if last is not state:
                    self.history.line("suspended", **ask)
            elif last is leasehold_client.LockState.SUSPENDED:
                until = deadline(hold)
                self.history.line("resumed", **ask, until=until)
            else:
                later = deadline(hold)
                # It may have been lost since.
                if hold.is_held and later > until + MOVED:
                    until = later
                    self.history.line("extended", **ask, until=until)
            last = state
            left = end - time.monotonic()
            if left <= 0:
                break
            await registers.write(cycle, hold.token)
            try:
                await asyncio.wait_for(hold.changed(state), min(left, LOOK))
            except TimeoutError:
                pass
        self.history.line("releasing", **ask)
        try:
            held = await hold.release()
        except leasehold_client.HoldError:
            held = False
        self.history.line("released", **ask, held=held)


def deadline(hold: leasehold_client.Hold) -> int:
    """Returns the time until which a hold may be relied on. The clock is read first, so that it is never too late."""
    at = now()
    return at + int(hold.valid_for * 1e6)


def shown(folder: Path) -> dict[str, Any]:
    """Returns the options of a client that shows the credentials of a folder, whose files the harness replaces."""
    tls = leasehold_client.Tls(ca=folder / "ca.pem", cert=folder / "client.pem", key=folder / "client.key", server_name="localhost")
    token = folder / "token"
    return {"tls": tls, "token_file": token} if token.exists() else {"tls": tls}


async def main(
    name: str, endpoints: str, registers: str, history: str, seed: str, ttl: str, grace: str, tasks: str, store: str, credentials: str = ""
) -> None:
    """Runs the client until its standard input ends."""
    # Losses are what the run is about: the history has them.
    logging.disable()
    path = Path(history)
    record = History(path)
    watch_stalls(name, path)
    options = shown(Path(credentials)) if credentials else {}
    client = leasehold_client.connect(endpoints, client_name=name, ttl=int(ttl) / 1000, disconnect_grace=int(grace) / 1000, **options)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    while not stop.is_set():
        try:
            await client.open()
            break
        except leasehold_client.ConnectError:
            # A fault is on.
            await asyncio.sleep(PAUSE)
    else:
        record.line("finished", client=name)
        return
    world = World(client, name, record, registers, quorum=store == "quorum", moves=bool(credentials))
    world.stop = stop
    await asyncio.gather(*(world.live(Random(f"{seed} {task}")) for task in range(int(tasks))))
    try:
        await asyncio.wait_for(client.close(), ENDING)
    except TimeoutError:
        pass
    record.line("finished", client=name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
