"""Each recipe runs as it stands, against a real coordinator."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Coordinator
from together import waits

import leasehold_client

FILE = Path(__file__).parent.parent / "examples" / "recipes.py"
NAMES = ["lock", "try", "wait", "shared", "semaphore", "several", "election", "once-per-period", "fencing", "stop", "unit-test"]


def load() -> Any:
    """Returns the recipes' module."""
    spec = importlib.util.spec_from_file_location("recipes", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recipes = load()


def test_no_recipe_is_left_out() -> None:
    assert re.findall(r"^# recipe: (.*)\n(?:.*\n)*?# end recipe$", FILE.read_text(), re.MULTILINE) == NAMES


async def test_locks(client: leasehold_client.Client, other: leasehold_client.Client) -> None:
    saved: list[Any] = []

    async def save(order: int, token: int) -> None:
        assert await other.lock(f"orders/{order}").try_acquire() is None
        saved.append(token)

    await recipes.charge(client, 1, save)
    assert await recipes.charge_if_free(client, 1, save)
    assert await recipes.charge_within_5_seconds(client, 1, save) is None
    assert len(saved) == 3 and saved == sorted(set(saved))
    async with other.lock("orders/1"):
        assert not await recipes.charge_if_free(client, 1, save)
        waiting = asyncio.create_task(recipes.charge_within_5_seconds(client, 1, save))
        await waits(client, "orders/1")
    assert await waiting is None and len(saved) == 4


async def test_modes(client: leasehold_client.Client, other: leasehold_client.Client) -> None:
    async def reads() -> None:
        async with other.lock("catalogue", shared=True, wait=5):
            pass

    async def writes(token: int) -> None:
        assert await other.lock("catalogue", shared=True).try_acquire() is None

    await recipes.read_and_write(client, reads, writes)

    async def calls() -> None:
        assert (await client.admin.get_lock("api")).permits_taken == 1

    await recipes.call_api(client, calls)

    async def moves(one: int, two: int, tokens: list[int]) -> None:
        assert len(tokens) == 2 and await other.lock(f"accounts/{two}").try_acquire() is None

    await recipes.transfer(client, 1, 2, moves)


async def test_an_election(client: leasehold_client.Client) -> None:
    tokens: list[int] = []

    async def work(token: int) -> None:
        tokens.append(token)
        if len(tokens) == 2:
            raise ZeroDivisionError
        await client.admin.force_release("scheduler")
        await asyncio.sleep(60)

    with pytest.raises(ZeroDivisionError):
        await recipes.lead(client, work)
    assert tokens == sorted(set(tokens))


async def test_once_per_period(client: leasehold_client.Client, other: leasehold_client.Client) -> None:
    sent: list[int] = []

    async def send(customer: int) -> None:
        if not sent:
            sent.append(0)
            raise ZeroDivisionError
        sent.append(customer)

    with pytest.raises(ZeroDivisionError):
        await recipes.remind(client, 7, send)
    assert await recipes.remind(other, 7, send)
    assert not await recipes.remind(client, 7, send) and sent == [0, 7]


async def test_fencing() -> None:
    class Database:
        def __init__(self) -> None:
            self.connection = sqlite3.connect(":memory:")
            self.connection.execute("CREATE TABLE orders (id INTEGER, token INTEGER)")
            self.connection.execute("INSERT INTO orders VALUES (1, 0)")

        async def execute(self, statement: str, values: tuple[int, ...]) -> sqlite3.Cursor:
            return self.connection.execute(statement, values)

    database = Database()
    for token in (4, 5, 5):
        await recipes.save(database, 1, token)
    with pytest.raises(RuntimeError):
        await recipes.save(database, 1, 4)
    database.connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_stop(shared: Coordinator, name: str) -> None:
    seen: list[str] = []

    async def serve(client: leasehold_client.Client) -> None:
        async with client.lock(name):
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                seen.append("cleaned up")

    asyncio.run(recipes.main(shared.url, serve))
    assert seen == ["cleaned up"]


def test_a_unit_test() -> None:
    recipes.test_work_stops_when_its_lock_is_lost()
