"""A coordinator that asks a session to move and goes on serving it, while no other connection can be made."""

from __future__ import annotations

import asyncio

import pytest
from conftest import Start
from relay import Relay

import leasehold_client
from leasehold_client._clock import SECOND


class Narrow(Relay):
    """Proxy that lets one connection through, and further ones only when it is told to."""

    def __init__(self, port: int) -> None:
        """Makes a proxy to this port."""
        super().__init__(port)
        self._lets_through = 1
        self.refused = 0

    def widen(self) -> None:
        """Lets every connection through from now on."""
        self._lets_through = 1_000_000

    def takes(self) -> bool:
        """Counts the connection."""
        if self._lets_through == 0:
            self.refused += 1
            return False
        self._lets_through -= 1
        return True


async def test_a_session_that_cannot_move_when_asked_goes_on_where_it_is(start: Start, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold_client._machine.moving.MOVE_AGAIN", 2 * SECOND)
    coordinator = start("memory:", "--max-stream-size", "65536")
    proxy = Narrow(coordinator.port)
    client = leasehold_client.connect(await proxy.serve(), ttl=60)
    try:
        await client.open()
        assert client.info
        before = client.info.session_id
        async with client.lock(name) as lock:
            # It is asked to move after about 16 of these, and again after 16 more.
            acquired = 0
            while acquired < 60 or not proxy.refused:
                async with client.lock(name + "2", value=b"v" * 4096):
                    acquired += 1
            lock.check()
            assert client.info and client.info.session_id == before
            assert client.session.drains_in is None
            proxy.widen()
            # The next attempt comes after the pause.
            while client.info is None or client.info.session_id == before:
                lock.check()
                async with client.lock(name + "2", wait=5):
                    pass
                await asyncio.sleep(0.02)
            lock.check()
            assert await client.admin.check_token(name, lock.token)
    finally:
        await client.close()
        await proxy.close()
