"""Second look at a port on which no connection could be made, because C core does not say what answered there."""

from __future__ import annotations

import asyncio
import contextlib

LIMIT = 2.0
"""Time limit of a look, in seconds."""

_HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What a client of HTTP/2 begins with, and empty settings."""
_HTTP_1 = b"GET / HTTP/1.1\r\nHost: leasehold\r\nConnection: close\r\n\r\n"
_SETTINGS = b"\x04"
_TLS_ALERT = b"\x15\x03"

SPEAKS_TLS = "what answers there speaks TLS: write https://"
NO_HTTP_2 = (
    "what answers there does not speak HTTP/2: it is no coordinator's port, but perhaps that of its page and metrics (admin port, 7421 by "
    "default); clients connect to the other one, 7420 by default"
)


async def mismatch_at(host: str, port: int) -> str | None:
    """Returns what else than a coordinator without TLS answers at an address; none if that is unknown."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(LIMIT):
            answer = await _answer(host, port, _HTTP_2)
            if answer.startswith(_TLS_ALERT):
                return SPEAKS_TLS
            if answer:
                return None if answer[3:4] == _SETTINGS else NO_HTTP_2
            # It hung up. A coordinator that stops does so too, but then it does not go on to serve HTTP/1.
            if (await _answer(host, port, _HTTP_1)).startswith(b"HTTP/1") and not await _answer(host, port, _HTTP_2):
                return NO_HTTP_2
    return None


async def _answer(host: str, port: int, request: bytes) -> bytes:
    """Returns the first bytes of the answer; none if the peer closes the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        return await reader.read(16)
    except (ConnectionResetError, BrokenPipeError):
        # It was closed before it had read all.
        return b""
    finally:
        writer.transport.abort()
