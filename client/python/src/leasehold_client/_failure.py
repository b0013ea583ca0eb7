"""Failure of a request: a coordinator's answer, or the end of a connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from ._clock import SECOND, from_wire
from ._reasons import FINAL, RETRYABLE
from .v1 import session_pb2

_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
# What C core says of a connection that one of the two sides could not encrypt.
_TLS = ("CERTIFICATE", "certificate", "Ssl handshake failed", "SSL_ERROR", "Peer name", "ALPN", "Hostname")
_MISMATCH = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTP1", "Trying to connect an http1.x server", "what answers there")


@dataclass(frozen=True)
class FieldViolation:
    """Fault of one field of a request, in the coordinator's words."""

    field: str
    """The field's path in the request, for example `acquire.name`."""
    description: str
    """The fault, and the values that the coordinator accepts."""


@dataclass(frozen=True)
class Failure:
    """A request that the coordinator could not serve, with its answer; or a call whose connection failed."""

    code: str
    """The gRPC status code, for example `INVALID_ARGUMENT`."""
    reason: str = ""
    """The machine-readable reason that `docs/errors.md` lists; empty if there is none."""
    message: str = ""
    """The description for people."""
    field_violations: tuple[FieldViolation, ...] = ()
    """The invalid fields of the request."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Details of the reason, for example `limit` of `LIMIT_MISMATCH`."""
    retry_after: float | None = None
    """Seconds after which to ask again, if the coordinator named a time."""
    is_transport: bool = False
    """Whether the connection failed, rather than that a coordinator answered."""

    @property
    def is_tls(self) -> bool:
        """Whether the connection could not be encrypted, for example because a certificate is not trusted."""
        return self.is_transport and not self.is_mismatch and any(word in self.message for word in _TLS)

    @property
    def is_mismatch(self) -> bool:
        """Whether the server at the endpoint disagrees with the URL about TLS, or is no coordinator."""
        return self.is_transport and any(word in self.message for word in _MISMATCH)

    @property
    def is_foreign(self) -> bool:
        """Whether what answered an attempt to open a session knows nothing of sessions."""
        return self.code == "UNIMPLEMENTED" and not self.reason and not self.is_transport

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        if self.is_transport:
            return not self.is_tls and not self.is_mismatch
        # After a deadlock, the same request succeeds once the actor has released what it holds.
        if self.code == "ABORTED" or self.reason in RETRYABLE:
            return True
        if self.reason in FINAL:
            return False
        return self.code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED")

    @property
    def is_draining(self) -> bool:
        """Whether a coordinator answered that it is going away or has stopped."""
        return self.reason == "DRAINING"

    @property
    def is_unreadable(self) -> bool:
        """Whether a coordinator, or something before it, could not take a message as it is. It could not take it later either."""
        return not self.is_transport and (self.reason == "MESSAGE_TOO_LARGE" or self.code == "INVALID_ARGUMENT")

    @property
    def is_unauthenticated(self) -> bool:
        """Whether a coordinator answered that it does not know the client."""
        return self.code == "UNAUTHENTICATED" and not self.is_transport

    def __str__(self) -> str:
        """Returns the failure in words."""
        words = self.message or self.code
        if self.reason:
            words += f" ({self.reason})"
        for violation in self.field_violations:
            # Coordinators say the violation in the message too when there is only one.
            if violation.description not in self.message:
                words += f"; {violation.field}: {violation.description}"
        return words


def invalid_field(name: str, description: str) -> Failure:
    """Returns what a coordinator would answer to a mistake that it can't see."""
    violations = (FieldViolation(name, description),)
    return Failure("INVALID_ARGUMENT", "INVALID_FIELD", f"{name}: {description}", violations)


def protocol(message: str) -> Failure:
    """Returns the failure of a coordinator that broke the protocol."""
    return Failure("INTERNAL", message=message)


def from_session(answer: session_pb2.SessionFailure) -> Failure:
    """Returns the failure of a request on a lease stream."""
    return Failure(
        _NAMES.get(answer.code, "UNKNOWN"),
        answer.reason,
        answer.message,
        tuple(FieldViolation(one.field, one.description) for one in answer.field_violations),
        dict(answer.metadata),
        from_wire(answer.retry_after) / SECOND if answer.HasField("retry_after") else None,
    )


def from_rpc(error: grpc.aio.AioRpcError) -> Failure:
    """Returns the failure of a call that ended with this status."""
    return from_status(error.code(), error.details(), error.trailing_metadata())


def from_status(status: grpc.StatusCode, message: str | None, trailing: Iterable[tuple[str, str | bytes]] | None) -> Failure:
    """Returns the failure of a call that ended with this status."""
    code, message, details = status.name, message or "", None
    for key, value in trailing or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            details = value
    if details is None:
        # C core answers for a connection that failed with these codes. No coordinator does without details.
        return Failure(code, message=message, is_transport=code in ("UNAVAILABLE", "UNKNOWN", "CANCELLED", "INTERNAL"))
    return _from_details(code, message, details)


def _from_details(code: str, message: str, details: bytes) -> Failure:
    reason, metadata, violations, retry_after = "", {}, [], None
    status: Any = status_pb2.Status()
    try:
        status.ParseFromString(details)
        for detail in status.details:
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            retry = error_details_pb2.RetryInfo()
            if detail.Unpack(info) and info.domain == "leasehold":
                reason, metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(bad):
                violations += [FieldViolation(one.field, one.description) for one in bad.field_violations]
            elif detail.Unpack(retry):
                retry_after = from_wire(retry.retry_delay) / SECOND
    except ValueError:
        # A proxy's details that are none: the code still counts.
        pass
    return Failure(code, reason, message, tuple(violations), metadata, retry_after)
