"""A TCP proxy before a coordinator, for tests that have it do what networks do."""

from __future__ import annotations

import asyncio


class Relay:
    """Passes on what both sides send. Others override when it does, and which connections it takes."""

    def __init__(self, port: int) -> None:
        """Makes a proxy to this port."""
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> str:
        """Begins to serve, and returns the URL."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def takes(self) -> bool:
        """Returns whether it takes one more connection."""
        return True

    async def may_pass(self) -> None:
        """Waits until something may be passed on."""

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.takes():
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        ends = [writer]
        try:
            await self.may_pass()
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
            await self.may_pass()
            writer.write(part)
            await writer.drain()
        await self.may_pass()
        writer.close()

    async def close(self) -> None:
        """Ends the proxy."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
