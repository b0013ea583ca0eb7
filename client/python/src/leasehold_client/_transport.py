"""Channels to coordinators. Each session's stream has a connection of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from . import _fork
from ._clock import SECOND
from ._credentials import Credentials
from ._endpoints import Candidate, Endpoint
from ._failure import Failure, from_rpc
from ._patched import check_threads
from ._probe import mismatch_at
from ._version import VERSION
from .errors import ConnectError, Forked

log = logging.getLogger("leasehold_client")

TraceSource = Callable[[], str | None]
"""Function that returns the present trace context as a `traceparent`, or none."""

KEEP_ALIVE_MS = 10_000
"""Interval of probes on a quiet connection for calls and events, and time limit of their answers."""
LONGEST_TRACE = 256
"""Longest trace context that is passed on."""
UNREAD = 64 << 10
"""Most bytes of a stream of events that may lie here unread; the coordinator keeps the rest."""

EOF: Any = grpc.aio.EOF  # pyright: ignore[reportAttributeAccessIssue]
"""Result of a read at the end of a stream."""

Options = list[tuple[str, Any]]
Stream = Any


@dataclass(frozen=True)
class Settings:
    """Connection settings. Times are nanoseconds."""

    endpoints: list[Endpoint]
    credentials: Credentials
    connect_timeout: int
    backoff_min: int
    backoff_max: int
    traces: TraceSource | None

    @property
    def urls(self) -> str:
        """The coordinators' URLs, for messages."""
        return ",".join(endpoint.url for endpoint in self.endpoints)

    def trace(self) -> str:
        """Returns the caller's present trace context; empty if there is none."""
        try:
            trace = self.traces() if self.traces else None
        except Exception:
            # A trace is not worth a release that is never sent.
            log.debug("the source of traces failed", exc_info=True)
            return ""
        # It becomes a field of a message, or a header.
        is_usable = isinstance(trace, str) and len(trace) <= LONGEST_TRACE and trace.isascii() and trace.isprintable()
        return trace if trace and is_usable else ""

    def channel(self, endpoint: Endpoint, target: str | None = None, *, probed: bool = False) -> grpc.aio.Channel:
        """Returns a channel to an endpoint, or to one of its addresses, where the one that the URL names must answer.

        The connection of a session is not probed: the session misses answers to its heartbeats, and lives as long as its TTL says.
        """
        check_process()
        authority = endpoint.authority
        if endpoint.is_encrypted and self.credentials.server_name:
            # C core refuses a call to another name than the one that it verifies.
            authority = f"{self.credentials.server_name}:{endpoint.port}"
        options: Options = [
            # Without a pool of its own, a channel shares connections, and their pauses, with earlier ones to the same address.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.default_authority", authority),
            ("grpc.primary_user_agent", f"leasehold-python/{VERSION}"),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.initial_reconnect_backoff_ms", 100),
        ]
        if probed:
            options += [
                ("grpc.keepalive_time_ms", KEEP_ALIVE_MS),
                ("grpc.keepalive_timeout_ms", KEEP_ALIVE_MS),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.keepalive_permit_without_calls", 1),
            ]
        target = target or f"dns:///{endpoint.authority}"
        if not endpoint.is_encrypted:
            return grpc.aio.insecure_channel(target, options=options)
        _, (ca, cert, key) = self.credentials.certificates()
        credentials = grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)
        options.append(("grpc.ssl_target_name_override", self.credentials.server_name or endpoint.host))
        return grpc.aio.secure_channel(target, credentials, options=options)

    def metadata(self, trace: str = "") -> list[tuple[str, str]]:
        """Returns the metadata of a call: the token by its file's present contents, and the trace."""
        metadata = [("traceparent", trace)] if trace else []
        authorization = self.credentials.authorization()
        if authorization:
            metadata.append(("authorization", authorization))
        return metadata


def check_process() -> None:
    """Fails where gRPC can't be used: without real threads, and in the fork of a process that used it, whose threads did not come along."""
    check_threads()
    if not _fork.uses_grpc():
        what = "connect after the fork only, or start processes by spawn or forkserver"
        raise Forked(f"gRPC can't be used in the fork of a process that used it: {what}")


async def connect(channel: grpc.aio.Channel, candidate: Candidate, limit: int) -> None:
    """Waits until a channel to an address is connected. Fails at its first failure, or after so many nanoseconds."""
    endpoint = candidate.endpoint
    try:
        async with asyncio.timeout(limit / SECOND):
            while True:
                state = channel.get_state(try_to_connect=True)
                if state is grpc.ChannelConnectivity.READY:
                    return
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    raise ConnectError.broke(endpoint.url, await _why(channel, candidate))
                await channel.wait_for_state_change(state)
    except TimeoutError:
        raise ConnectError.timed_out(endpoint.url, limit) from None


async def _why(channel: grpc.aio.Channel, candidate: Candidate) -> Failure:
    """Returns why a channel can't connect: a call fails at once, and says so."""
    call: Any = channel.unary_unary("/leasehold.v1.AdminService/GetStatus")
    failure = Failure("UNAVAILABLE", message="the connection broke", is_transport=True)
    try:
        await call(b"", timeout=1)
    except grpc.aio.AioRpcError as error:
        failure = from_rpc(error)
    if failure.is_transport and not failure.is_mismatch and not candidate.endpoint.is_encrypted:
        mismatch = await mismatch_at(*candidate.address)
        if mismatch:
            return Failure(failure.code, message=mismatch, is_transport=True)
    return failure
