"""A coordinator that asks a session to move and goes on serving it, while no other connection can be made."""

from __future__ import annotations

import asyncio

import pytest
from conftest import Start

import leasehold
from leasehold._clock import SECOND


class Narrow:
    """Proxy that lets one connection through, and further ones only when it is told to."""

    def __init__(self, port: int) -> None:
        """Makes a proxy to this port."""
        self._port = port
        self._lets_through = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0

    async def serve(self) -> str:
        """Begins to serve, and returns the URL."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def widen(self) -> None:
        """Lets every connection through from now on."""
        self._lets_through = 1_000_000

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._lets_through == 0:
            self.refused += 1
            writer.transport.abort()
            return
        self._lets_through -= 1
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        ends = [writer]
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._port)
            ends.append(forth)
            await asyncio.gather(self._pump(reader, forth), self._pump(back, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
        writer.close()

    async def close(self) -> None:
        """Ends the proxy."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_session_that_cannot_move_when_asked_goes_on_where_it_is(start: Start, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold._machine.moving.MOVE_AGAIN", 2 * SECOND)
    coordinator = start("memory:", "--max-stream-size", "65536")
    proxy = Narrow(coordinator.port)
    client = leasehold.connect(await proxy.serve(), ttl=60)
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
