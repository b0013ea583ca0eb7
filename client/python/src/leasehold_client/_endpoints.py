"""URLs of coordinators, completed as people write them, and the addresses that they stand for."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._clock import SECOND
from .errors import ConnectError, ConnectErrorKind

DEFAULT_PORT = 7420
"""The port of a coordinator, if an endpoint names none."""


@dataclass(frozen=True)
class Endpoint:
    """The URL of a coordinator, or of several that a name stands for."""

    url: str
    is_encrypted: bool
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The host and port, as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether messages to there stay on this machine. Names are not looked up, because the answer could be a lie."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse(endpoints: str | Iterable[str]) -> list[Endpoint]:
    """Returns the endpoints of one or several URLs, given as a list or separated by commas. Fails if one is no URL."""
    if isinstance(endpoints, bytes | bytearray):
        raise TypeError(f"endpoints: expected str, got {type(endpoints).__name__}; decode it")
    parts = [endpoints] if isinstance(endpoints, str) else list(endpoints)
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"endpoints: expected str, got {type(part).__name__}")
    urls = [url.strip() for part in parts for url in part.split(",")]
    parsed = [_parse(url) for url in urls]
    if not parsed:
        raise _invalid("")
    return parsed


def _invalid(url: str) -> ConnectError:
    what = "expected a URL such as https://locks.example:7420, or HOST:PORT for an unencrypted connection"
    return ConnectError(ConnectErrorKind.INVALID_ENDPOINT, url, f"invalid endpoint {url!r}: {what}")


def _parse(url: str) -> Endpoint:
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError:
        raise _invalid(url) from None
    host = parts.hostname or ""
    has_more = "@" in parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment
    is_wrong = parts.scheme not in ("http", "https") or not host or " " in host or parts.netloc.endswith(":") or port == 0
    if is_wrong or has_more:
        raise _invalid(url)
    endpoint = Endpoint("", parts.scheme == "https", host, DEFAULT_PORT if port is None else port)
    return Endpoint(f"{parts.scheme}://{endpoint.authority}", endpoint.is_encrypted, host, endpoint.port)


@dataclass(frozen=True)
class Candidate:
    """One coordinator, as far as this client can tell: one address of an endpoint, as gRPC writes it."""

    endpoint: Endpoint
    target: str

    @property
    def address(self) -> tuple[str, int]:
        """The address and the port."""
        host, _, port = self.target.partition(":")[2].rpartition(":")
        return host.strip("[]"), int(port)


async def addresses(endpoint: Endpoint, limit: int) -> list[Candidate]:
    """Looks up the addresses that an endpoint stands for, within so many nanoseconds."""
    loop = asyncio.get_running_loop()
    looking_up = loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.wait_for(looking_up, limit / SECOND)
    except TimeoutError:
        raise ConnectError.timed_out(endpoint.url, limit) from None
    except OSError as error:
        what = f"failed to look up {endpoint.host!r}: {error}"
        raise ConnectError(ConnectErrorKind.UNREACHABLE, endpoint.url, what) from error
    targets = []
    for family, _, _, _, address in found:
        host, port = str(address[0]), int(address[1])
        if family == socket.AF_INET:
            targets.append(f"ipv4:{host}:{port}")
        elif family == socket.AF_INET6:
            targets.append(f"ipv6:[{host}]:{port}")
    return [Candidate(endpoint, target) for target in dict.fromkeys(targets)]
