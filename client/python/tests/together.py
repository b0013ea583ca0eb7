"""What tests with several clients share."""

from __future__ import annotations

import asyncio

import leasehold_client


async def waits(client: leasehold_client.Client, name: str, count: int = 1) -> None:
    """Waits until so many wait for a lock."""
    while (await client.admin.get_lock(name)).waiter_count < count:
        await asyncio.sleep(0.005)


forcing: set[asyncio.Task[bool]] = set()


def force(client: leasehold_client.Client, name: str) -> None:
    """Takes a lock away, in a task of its own, so that its loss does not cancel the call."""
    task = asyncio.create_task(client.admin.force_release(name))
    forcing.add(task)
    task.add_done_callback(forcing.discard)
