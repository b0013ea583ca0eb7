"""The runner's protocol: lines, requests, states and errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import leasehold_client
import leasehold_client.sync
from leasehold_client import _clock
from leasehold_client.errors import ConnectErrorKind

Json = dict[str, Any]

COMMON = ["suspended_event", "cleanup", "fail_with", "backoff", "tls", "clock", "skew_clock", "block", "fork"]


class BodyFailed(Exception):
    """Error of a body's own."""


class Unsupported(Exception):
    """The driver can't do this."""


_out = threading.Lock()


def write(line: Json) -> None:
    """Writes a line, whole and at once."""
    with _out:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def boot_ns() -> str:
    """Returns the driver's own reading of the clock."""
    return str(time.clock_gettime_ns(time.CLOCK_BOOTTIME))


class Skewed:
    """Clock of the library, which can be set forward."""

    def __init__(self) -> None:
        """Puts itself between the library and the system."""
        self.by = 0
        shim = SimpleNamespace(CLOCK_BOOTTIME=time.CLOCK_BOOTTIME, clock_gettime_ns=self._read)
        vars(_clock)["time"] = shim

    def _read(self, clock: int) -> int:
        return time.clock_gettime_ns(clock) + self.by


def seconds(request: Json, field: str) -> float | None:
    """Returns a duration of a request."""
    return None if request.get(field) is None else request[field] / 1000


def options(request: Json) -> Json:
    """Returns the arguments of `connect`."""
    given: Json = {"client_name": request.get("client_name"), "allow_plaintext_token": True}
    for field, argument in (("ttl_ms", "ttl"), ("grace_ms", "disconnect_grace"), ("connect_timeout_ms", "connect_timeout")):
        if request.get(field) is not None:
            given[argument] = request[field] / 1000
    shortest, longest = seconds(request, "backoff_min_ms"), seconds(request, "backoff_max_ms")
    given["backoff"] = (0.05 if shortest is None else shortest, 2 if longest is None else longest)
    if tls := request.get("tls"):
        given["tls"] = leasehold_client.Tls(tls.get("ca"), tls.get("cert"), tls.get("key"), tls.get("server_name"))
    if request.get("token_file"):
        given["token_file"] = request["token_file"]
    return given


def asked(client: Any, request: Json, actors: dict[str, leasehold_client.Actor]) -> Any:
    """Returns the library's request for the acquire fields."""
    given: Json = {
        "wait": seconds(request, "wait_ms"),
        "value": request.get("value") or "",
        "lock_delay": seconds(request, "lock_delay_ms") or 0,
        "reentrant": bool(request.get("reentrant")),
    }
    if request.get("actor"):
        given["actor"] = actors.setdefault(request["actor"], leasehold_client.Actor())
    names, shared = request["names"], request.get("mode") == "shared"
    if request.get("permits") is not None or request.get("limit") is not None:
        permits, limit = request.get("permits"), request.get("limit")
        return client.semaphore(names[0], limit).permits(permits, **given)
    if len(names) == 1:
        return client.lock(names[0], shared=shared, **given)
    specs = [leasehold_client.LockSpec.shared(name) if shared else leasehold_client.LockSpec.exclusive(name) for name in names]
    return client.lock_all(specs, **given)


def parts(hold: Any) -> list[Any]:
    """Returns the holds of one or several locks."""
    return list(hold) if isinstance(hold, leasehold_client.Holds | leasehold_client.sync.Holds) else [hold]


def granted(hold: Any) -> Json:
    """Returns the reply to an acquire."""
    holds = [{"name": one.name, "token": str(one.token), "count": one.hold_count} for one in parts(hold)]
    return {"holds": holds, "boot_ns": boot_ns()}


def state(hold: Any) -> Json:
    """Returns what the library says of a hold now."""
    stamp = boot_ns()
    found: list[Json] = []
    for one in parts(hold):
        reason = one.lost_reason
        if reason is leasehold_client.LostReason.RELEASED:
            found.append({"state": "released"})
        elif reason:
            listed = "unknown" if reason is leasehold_client.LostReason.FORKED else reason.value
            found.append({"state": "lost", "reason": listed, "name": one.name})
        else:
            found.append({"state": "held" if one.is_held else "suspended"})
    for which in ("lost", "released", "suspended"):
        for one_state in found:
            if one_state["state"] == which:
                return {**one_state, "boot_ns": stamp}
    return {**found[0], "boot_ns": stamp}


def in_child(hold: Any) -> Json:
    """Returns what the library says of a hold in the child of a fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(writer, json.dumps(state(hold)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said: Json = json.loads(pipe.read())
    os.waitpid(child, 0)
    return said


def of_failure(failure: leasehold_client.Failure) -> Json:
    """Returns the error of a coordinator's answer."""
    kinds = {"INVALID_ARGUMENT": "invalid", "UNAUTHENTICATED": "unauthenticated", "PERMISSION_DENIED": "permission_denied"}
    if failure.is_transport:
        return {"kind": "unavailable", "message": str(failure)}
    error: Json = {"kind": kinds.get(failure.code, "refused"), "reason": failure.reason, "message": str(failure)}
    if failure.code == "RESOURCE_EXHAUSTED":
        error["kind"] = "limit_reached"
        if failure.retry_after is not None:
            error["retry_after_ms"] = round(failure.retry_after * 1000)
    return error


def err(error: BaseException) -> Json:
    """Returns an error of the library as the protocol has it."""
    lost, body, seen = None, None, error
    chain: list[BaseException] = []
    following: BaseException | None = seen
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    for one in chain:
        lost = lost or (one if isinstance(one, leasehold_client.LockLost) else None)
        body = body or (one if isinstance(one, BodyFailed) else None)
    if lost and isinstance(error, leasehold_client.LockLost | BodyFailed):
        found = {"kind": "lost", "reason": lost.reason.value, "name": lost.name, "message": str(lost)}
        return {**found, "body": str(body)} if body else found
    simple: list[tuple[type[BaseException], str]] = [
        (leasehold_client.Busy, "busy"),
        (leasehold_client.TimedOut, "timeout"),
        (asyncio.CancelledError, "cancelled"),
        (leasehold_client.AlreadyCandidate, "already_candidate"),
        (leasehold_client.Unavailable, "unavailable"),
        (leasehold_client.SessionClosed, "closed"),
        (leasehold_client.Unconfirmed, "unconfirmed"),
        (Unsupported, "unsupported"),
    ]
    for kind, word in simple:
        # A store that is down is a coordinator's answer, with a reason.
        if isinstance(error, kind) and not isinstance(error, leasehold_client.Refused):
            return {"kind": word, "message": str(error)}
    if isinstance(error, BodyFailed):
        return {"kind": "body", "body": str(error)}
    if isinstance(error, leasehold_client.ConnectError):
        if error.kind in (ConnectErrorKind.INVALID_ENDPOINT, ConnectErrorKind.CREDENTIALS):
            return {"kind": "invalid", "message": str(error)}
        return of_failure(error.failure) if error.failure else {"kind": "unavailable", "message": str(error)}
    failure = getattr(error, "failure", None)
    if isinstance(failure, leasehold_client.Failure):
        found = of_failure(failure)
        refusals: list[tuple[type[BaseException], str]] = [
            (leasehold_client.Deadlock, "deadlock"),
            (leasehold_client.SelfDeadlock, "self_deadlock"),
            (leasehold_client.UpgradeRefused, "upgrade_refused"),
            (leasehold_client.ForceReleased, "force_released"),
            (leasehold_client.LimitMismatch, "limit_mismatch"),
        ]
        for kind, word in refusals:
            if isinstance(error, kind):
                found["kind"] = word
        return {**found, "limit": error.limit} if isinstance(error, leasehold_client.LimitMismatch) else found
    if isinstance(error, ValueError):
        return {"kind": "invalid", "message": str(error)}
    return {"kind": "internal", "message": f"{type(error).__name__}: {error}"}


def hello(kind: str, more: list[str]) -> Json:
    """Returns the reply to `hello`."""
    return {
        "protocol": 1,
        "library": f"python-{kind}",
        "version": leasehold_client.__version__,
        "capabilities": COMMON + more,
    }


def leader(observer: str, change: leasehold_client.LeaderChange) -> None:
    """Writes the event of a change of leaders."""
    known: Json | None = None
    if change.leader:
        known = {"value": change.leader.value.decode("utf-8", "replace")}
        if change.leader.fencing_token:
            known["token"] = str(change.leader.fencing_token)
    write({"ev": "leader", "o": observer, "leader": known, "skipped": change.skipped, "boot_ns": boot_ns()})


def body_event(name: str, what: str, **more: str) -> None:
    """Writes an event of a body."""
    write({"ev": "body", "h": name, "what": what, "boot_ns": boot_ns(), **more})


class Told:
    """What a body has been told to do."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.finished = False
        self.failed: str | None = None
        self.wake: Callable[[], object] = lambda: None
