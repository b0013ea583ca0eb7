"""Locks without a session, by single calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from conftest import Coordinator, Start
from together import waits

import leasehold_client
import leasehold_client.sync
from leasehold_client import LockSpec


async def test_a_detached_lock_lasts_for_its_ttl_unless_it_is_renewed(
    client: leasehold_client.Client, other: leasehold_client.Client, name: str
) -> None:
    request = client.detached_lock(name, ttl=1, value="v", client_name="nightly")
    lock = await request.acquire()
    assert lock.is_held and 0 < lock.valid_for <= 1 and lock.permits is None
    holder = (await client.admin.get_lock(name)).holders[0]
    assert (holder.client_name, holder.value, holder.session_id, holder.fencing_token) == ("nightly", b"v", "", lock.token)
    assert await other.detached_lock(name).try_acquire() is None
    with pytest.raises(leasehold_client.Busy) as busy:
        await other.detached_lock(name).acquire()
    assert busy.value.holder and busy.value.holder.client_name == "nightly"
    with pytest.raises(leasehold_client.TimedOut):
        await other.detached_lock(name, wait=600).acquire(timeout=0.01)
    await lock.renew(ttl=60)
    assert lock.valid_for > 30
    waiting = asyncio.create_task(other.detached_lock(name, wait=60).acquire())
    await waits(client, name)
    assert await lock.release() and not lock.is_held and not await lock.release()
    with pytest.raises(leasehold_client.LockLost):
        await lock.renew()
    following = await waiting
    assert following.token > lock.token and following.is_held
    await client.admin.force_release(name)
    with pytest.raises(leasehold_client.LockLost):
        await following.renew()
    assert not following.is_held and repr(following).count("token") == 1
    # It ends by itself.
    await request.acquire()
    async with other.lock(name, wait=30):
        pass


async def test_modes_and_keys(client: leasehold_client.Client, name: str) -> None:
    shared = client.detached_lock(LockSpec.shared(name))
    assert await (await shared.acquire()).release()
    permits = await client.detached_lock(LockSpec.of_permits(name + "s", 5, 3 + 2, at_least=1)).acquire()
    assert permits.permits == 5
    await permits.release()
    keyed = client.detached_lock(name, request_key="k" * 16)
    first, second = await keyed.acquire(), await keyed.acquire()
    assert first.token == second.token and not await first.release() and await second.release()


async def test_another_process_may_renew_and_release_it(client: leasehold_client.Client, shared: Coordinator, name: str) -> None:
    lock = await client.detached_lock(name, ttl=60).acquire()
    program = (
        "import sys, leasehold_client.sync\n"
        "with leasehold_client.sync.connect(sys.argv[1]) as client:\n"
        "    lock = client.attach_detached_lock(sys.argv[2], int(sys.argv[3]), bytes.fromhex(sys.stdin.read()), ttl=30)\n"
        "    assert not lock.is_held\n"
        "    lock.renew()\n"
        "    assert lock.is_held and lock.token == int(sys.argv[3])\n"
        "    print(lock.release())\n"
    )
    command = [sys.executable, "-c", program, shared.url, name, str(lock.token)]
    done = await asyncio.to_thread(subprocess.run, command, input=lock.owner_id.hex(), capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
    with pytest.raises(leasehold_client.LockLost):
        await lock.renew()


def test_threads(shared: Coordinator, name: str) -> None:
    client = leasehold_client.sync.connect(shared.url)
    request = client.detached_lock(name, ttl=30)
    # Once in a period: it is not released when it is done.
    lock = request.try_acquire()
    assert lock and lock.is_held and request.try_acquire() is None
    lock.renew(ttl=60)
    assert lock.valid_for > 30 and lock.release() and request.name == name
    client.close()
    with pytest.raises(leasehold_client.SessionClosed):
        request.acquire()


async def test_the_calls_go_to_every_address(start: Start, redis: str, name: str) -> None:
    first, second = start(redis), start(redis)
    async with leasehold_client.connect([first.url, second.url]) as client:
        lock = await client.detached_lock(name, ttl=60).acquire()
        first.kill()
        for _ in range(3):
            await lock.renew()
        assert await lock.release()
        second.kill()
        with pytest.raises(leasehold_client.Unavailable):
            await client.detached_lock(name).acquire()
        with pytest.raises(leasehold_client.Unconfirmed):
            await lock.renew()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"lock": b"x"}, TypeError),
        ({"lock": ""}, ValueError),
        ({"lock": "x", "ttl": -1}, ValueError),
        ({"lock": "x", "wait": "5"}, TypeError),
        ({"lock": "x", "value": "v" * 4097}, ValueError),
        ({"lock": "x", "client_name": 5}, TypeError),
        ({"lock": "x", "request_key": "short"}, ValueError),
        ({"lock": "x", "shared": True}, TypeError),
    ],
)
def test_arguments(given: dict[str, Any], kind: type[Exception]) -> None:
    for connect in (leasehold_client.connect, leasehold_client.sync.connect):
        with pytest.raises(kind):
            connect("http://127.0.0.1:1").detached_lock(**given)
    for owner_id, token in ((b"x", 1), (b"x" * 16, 0)):
        with pytest.raises(leasehold_client.InvalidArgument):
            leasehold_client.connect("http://127.0.0.1:1").attach_detached_lock("x", token, owner_id)
