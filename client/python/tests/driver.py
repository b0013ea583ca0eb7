"""Driver of this library for the conformance runner: JSON lines on stdin and stdout, as the runner's protocol has them.

python driver.py asyncio
python driver.py sync
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import leasehold
import leasehold.sync
from leasehold import _clock
from leasehold.errors import ConnectErrorKind

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
    given: Json = {"client_name": request.get("client_name") or "", "allow_plaintext_token": True}
    for field, argument in (("ttl_ms", "ttl"), ("grace_ms", "disconnect_grace"), ("connect_timeout_ms", "connect_timeout")):
        if request.get(field) is not None:
            given[argument] = request[field] / 1000
    shortest, longest = seconds(request, "backoff_min_ms"), seconds(request, "backoff_max_ms")
    given["backoff"] = (0.05 if shortest is None else shortest, 2 if longest is None else longest)
    if tls := request.get("tls"):
        given["tls"] = leasehold.Tls(tls.get("ca"), tls.get("cert"), tls.get("key"), tls.get("server_name"))
    if request.get("token_file"):
        given["token_file"] = request["token_file"]
    return given


def asked(client: Any, request: Json, actors: dict[str, leasehold.Actor]) -> Any:
    """Returns the library's request for the acquire fields."""
    given: Json = {
        "wait": seconds(request, "wait_ms"),
        "value": request.get("value") or "",
        "lock_delay": seconds(request, "lock_delay_ms") or 0,
        "reentrant": bool(request.get("reentrant")),
    }
    if request.get("actor"):
        given["actor"] = actors.setdefault(request["actor"], leasehold.Actor())
    names, shared = request["names"], request.get("mode") == "shared"
    if request.get("permits") is not None or request.get("limit") is not None:
        permits, limit = request.get("permits"), request.get("limit")
        return client.semaphore(names[0], limit).permits(permits, **given)
    if len(names) == 1:
        return client.lock(names[0], shared=shared, **given)
    specs = [leasehold.LockSpec.shared(name) if shared else leasehold.LockSpec.exclusive(name) for name in names]
    return client.lock_all(specs, **given)


def parts(hold: Any) -> list[Any]:
    """Returns the holds of one or several locks."""
    return list(hold) if isinstance(hold, leasehold.Holds | leasehold.sync.Holds) else [hold]


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
        if reason is leasehold.LostReason.RELEASED:
            found.append({"state": "released"})
        elif reason:
            listed = "unknown" if reason is leasehold.LostReason.FORKED else reason.value
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


def of_failure(failure: leasehold.Failure) -> Json:
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
        lost = lost or (one if isinstance(one, leasehold.LockLost) else None)
        body = body or (one if isinstance(one, BodyFailed) else None)
    if lost and isinstance(error, leasehold.LockLost | BodyFailed):
        found = {"kind": "lost", "reason": lost.reason.value, "name": lost.name, "message": str(lost)}
        return {**found, "body": str(body)} if body else found
    simple: list[tuple[type[BaseException], str]] = [
        (leasehold.Busy, "busy"),
        (leasehold.TimedOut, "timeout"),
        (asyncio.CancelledError, "cancelled"),
        (leasehold.AlreadyCandidate, "already_candidate"),
        (leasehold.Unavailable, "unavailable"),
        (leasehold.SessionClosed, "closed"),
        (leasehold.Unconfirmed, "unconfirmed"),
        (Unsupported, "unsupported"),
    ]
    for kind, word in simple:
        if isinstance(error, kind):
            return {"kind": word, "message": str(error)}
    if isinstance(error, BodyFailed):
        return {"kind": "body", "body": str(error)}
    if isinstance(error, leasehold.ConnectError):
        if error.kind in (ConnectErrorKind.INVALID_ENDPOINT, ConnectErrorKind.CREDENTIALS):
            return {"kind": "invalid", "message": str(error)}
        return of_failure(error.failure) if error.failure else {"kind": "unavailable", "message": str(error)}
    failure = getattr(error, "failure", None)
    if isinstance(failure, leasehold.Failure):
        found = of_failure(failure)
        refusals: list[tuple[type[BaseException], str]] = [
            (leasehold.Deadlock, "deadlock"),
            (leasehold.SelfDeadlock, "self_deadlock"),
            (leasehold.UpgradeRefused, "upgrade_refused"),
            (leasehold.ForceReleased, "force_released"),
            (leasehold.LimitMismatch, "limit_mismatch"),
        ]
        for kind, word in refusals:
            if isinstance(error, kind):
                found["kind"] = word
        return {**found, "limit": error.limit} if isinstance(error, leasehold.LimitMismatch) else found
    if isinstance(error, ValueError):
        return {"kind": "invalid", "message": str(error)}
    return {"kind": "internal", "message": f"{type(error).__name__}: {error}"}


def hello(kind: str, more: list[str]) -> Json:
    """Returns the reply to `hello`."""
    return {
        "protocol": 1,
        "library": f"python-{kind}",
        "version": leasehold.__version__,
        "capabilities": COMMON + more,
    }


def leader(observer: str, change: leasehold.LeaderChange) -> None:
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


class Asyncio:
    """Driver of the interface for asyncio."""

    def __init__(self) -> None:
        """Makes a driver without clients."""
        self.clock = Skewed()
        self.clients: dict[str, leasehold.Client] = {}
        self.holds: dict[str, Any] = {}
        self.actors: dict[str, leasehold.Actor] = {}
        self.told: dict[str, Told] = {}
        self.calls: dict[int, asyncio.Task[None]] = {}
        self.watching: set[asyncio.Task[None]] = set()
        self.observers: dict[int, asyncio.Task[None]] = {}
        # Handles that the driver itself let end: no events.
        self.ended: set[str] = set()

    async def run(self) -> None:
        """Serves until stdin ends."""
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            request = json.loads(line)
            self.calls[request["id"]] = asyncio.create_task(self.answer(request))
        os._exit(0)

    async def answer(self, request: Json) -> None:
        """Answers a request."""
        number = request["id"]
        try:
            operation = getattr(self, "op_" + request["op"], None)
            if operation is None:
                raise Unsupported(request["op"])
            ok = await operation(request)
            if ok is not None:
                write({"id": number, "ok": ok})
        except BaseException as error:
            write({"id": number, "err": err(error)})
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
        finally:
            self.calls.pop(number, None)

    async def op_hello(self, request: Json) -> Json:
        """Says what this driver can do."""
        return hello("asyncio", ["cancel", "cancel_body"])

    async def op_connect(self, request: Json) -> Json:
        """Makes a client."""
        client = leasehold.connect(request["endpoints"], **options(request))
        await client.open()
        self.clients[request["as"]] = client
        return {"session_id": client.info.session_id} if client.info else {}

    def keep(self, request: Json, hold: Any) -> None:
        """Keeps a hold, answers, and tells of its changes from then on."""
        name = request["as"]
        self.holds[name] = hold
        write({"id": request["id"], "ok": granted(hold)})
        task = asyncio.create_task(self.watch(name, hold))
        self.watching.add(task)
        task.add_done_callback(self.watching.discard)

    async def watch(self, name: str, hold: Any) -> None:
        """Writes the changes of a hold's state."""
        last = "held"
        ones = parts(hold)
        while True:
            present = state(hold)
            if name in self.ended or present["state"] == "released":
                return
            if present["state"] != last:
                last = present["state"]
                write({"ev": "state", "h": name, **present})
                if last == "lost":
                    return
            states = [one.state for one in ones]
            if state(hold)["state"] != last:
                continue
            waits = [asyncio.ensure_future(one.changed(before)) for one, before in zip(ones, states, strict=True)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    async def op_acquire(self, request: Json) -> None:
        """Acquires and keeps."""
        self.keep(request, await asked(self.clients[request["on"]], request, self.actors).acquire())

    async def op_campaign(self, request: Json) -> None:
        """Campaigns, and keeps the leadership."""
        election = self.clients[request["on"]].election(
            request["election"], value=request.get("value") or "", wait=seconds(request, "wait_ms")
        )
        self.keep(request, await election.campaign())

    async def op_cancel(self, request: Json) -> Json:
        """Cancels a call."""
        number = request["of"]
        if number in self.observers:
            self.observers.pop(number).cancel()
        elif number in self.calls:
            self.calls[number].cancel()
        return {}

    async def op_release(self, request: Json) -> Json:
        """Releases."""
        self.ended.add(request["h"])
        hold = self.holds[request["h"]]
        lost = [one.loss for one in parts(hold) if one.loss]
        if not await hold.release():
            raise lost[0] if lost else leasehold.LockLost(request["h"], 0, leasehold.LostReason.UNKNOWN)
        return {}

    op_resign = op_release

    async def op_set_value(self, request: Json) -> Json:
        """Changes a value."""
        await self.holds[request["h"]].set_value(request["value"])
        return {}

    op_proclaim = op_set_value

    async def op_downgrade(self, request: Json) -> Json:
        """Makes a hold shared."""
        await self.holds[request["h"]].downgrade()
        return {}

    async def op_state(self, request: Json) -> Json:
        """Asks the library's check."""
        return state(self.holds[request["h"]])

    async def work(self, request: Json, hold: Any, told: Told) -> None:
        """Runs a body."""
        name = request["as"]
        self.holds[name] = hold
        body_event(name, "started", token=str(parts(hold)[0].token))
        wake = asyncio.Event()
        told.wake = wake.set
        try:
            while not told.finished and told.failed is None:
                await wake.wait()
                wake.clear()
            if told.failed is not None:
                message, told.failed = told.failed, None
                raise BodyFailed(message)
        except asyncio.CancelledError:
            body_event(name, "cancelled")
            await asyncio.sleep((request.get("cleanup_ms") or 0) / 1000)
            if request.get("fail_with"):
                raise BodyFailed(request["fail_with"]) from None
            raise
        finally:
            body_event(name, "ended")

    async def op_body(self, request: Json) -> Json:
        """Runs the scoped form."""
        told = self.told[request["as"]] = Told()
        async with asked(self.clients[request["on"]], request, self.actors) as hold:
            await self.work(request, hold, told)
        return {}

    async def op_lead(self, request: Json) -> Json:
        """Runs the form that campaigns again."""
        told = self.told[request["as"]] = Told()
        election = self.clients[request["on"]].election(request["election"], value=request.get("value") or "")
        task = asyncio.current_task()
        told.wake = task.cancel if task else told.wake
        try:
            async for term in election:
                async with term:
                    await self.work(request, term, told)
                told.wake = task.cancel if task else told.wake
                if told.finished:
                    break
        except asyncio.CancelledError:
            if not told.finished:
                raise
        return {}

    async def op_finish(self, request: Json) -> Json:
        """Has a body return."""
        told = self.told[request["h"]]
        told.finished = True
        told.wake()
        return {}

    async def op_fail(self, request: Json) -> Json:
        """Has a body fail."""
        told = self.told[request["h"]]
        told.failed = request["message"]
        told.wake()
        return {}

    async def op_observe(self, request: Json) -> Json:
        """Starts an observer."""
        observer = self.clients[request["on"]].election(request["election"]).observe()

        async def observe() -> None:
            try:
                async for change in observer:
                    leader(request["as"], change)
            except leasehold.CallFailed as failed:
                write({"ev": "observe_failed", "o": request["as"], "err": err(failed)})
            finally:
                await observer.aclose()

        self.observers[request["id"]] = asyncio.create_task(observe())
        return {}

    async def op_clock(self, request: Json) -> Json:
        """Reads the library's clock."""
        return {"clock_ns": str(_clock.now())}

    async def op_skew_clock(self, request: Json) -> Json:
        """Sets the library's clock forward."""
        self.clock.by += request["ms"] * 1_000_000
        return {}

    async def op_block_ms(self, request: Json) -> Json:
        """Blocks the event loop."""
        time.sleep(request["ms"] / 1000)  # noqa: ASYNC251
        return state(self.holds[request["h"]])

    async def op_fork(self, request: Json) -> Json:
        """Forks."""
        return in_child(self.holds[request["h"]])

    async def op_close(self, request: Json) -> Json:
        """Closes a client."""
        await self.clients[request["on"]].close()
        return {}


class Sync:
    """Driver of the interface for threads. Each request that may wait has a thread of its own."""

    def __init__(self) -> None:
        """Makes a driver without clients."""
        self.clock = Skewed()
        self.clients: dict[str, leasehold.sync.Client] = {}
        self.holds: dict[str, Any] = {}
        self.actors: dict[str, leasehold.Actor] = {}
        self.told: dict[str, Told] = {}
        self.observers: dict[int, leasehold.sync.Observer] = {}
        self.ended: set[str] = set()

    def run(self) -> None:
        """Serves until stdin ends."""
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] in ("hello", "state", "clock", "skew_clock", "fork", "finish", "fail", "observe", "block_ms"):
                self.answer(request)
            else:
                begun = threading.Event()
                threading.Thread(target=self.answer, args=(request, begun), daemon=True).start()
                # The next request begins after this one has been answered, or waits.
                begun.wait(0.005)
        os._exit(0)

    def answer(self, request: Json, begun: threading.Event | None = None) -> None:
        """Answers a request."""
        number = request["id"]
        try:
            operation = getattr(self, "op_" + request["op"], None)
            if operation is None:
                raise Unsupported(request["op"])
            ok = operation(request)
            if ok is not None:
                write({"id": number, "ok": ok})
        except Exception as error:
            write({"id": number, "err": err(error)})
        finally:
            if begun:
                begun.set()

    def op_hello(self, request: Json) -> Json:
        """Says what this driver can do."""
        return hello("sync", [])

    def op_connect(self, request: Json) -> Json:
        """Makes a client."""
        client = leasehold.sync.connect(request["endpoints"], **options(request))
        client.open()
        self.clients[request["as"]] = client
        return {"session_id": client.info.session_id} if client.info else {}

    def keep(self, request: Json, hold: Any) -> None:
        """Keeps a hold, answers, and tells of its changes from then on."""
        name = request["as"]
        self.holds[name] = hold
        write({"id": request["id"], "ok": granted(hold)})
        lock, last = threading.Lock(), ["held"]
        for one in parts(hold):
            watch = functools.partial(self.watch, name, hold, one, lock, last)
            threading.Thread(target=watch, daemon=True).start()

    def watch(self, name: str, hold: Any, one: Any, lock: threading.Lock, last: list[str]) -> None:
        """Writes the changes of a hold's state, as one of its locks has them."""
        before = leasehold.LockState.HELD
        while before is not leasehold.LockState.LOST:
            try:
                before = one.changed(before)
            except BaseException:
                # The client's loop has ended.
                before = leasehold.LockState.LOST
            with lock:
                present = state(hold)
                if name in self.ended or present["state"] == "released" or last[0] == "lost":
                    return
                if present["state"] != last[0]:
                    last[0] = present["state"]
                    write({"ev": "state", "h": name, **present})

    def op_acquire(self, request: Json) -> None:
        """Acquires and keeps."""
        self.keep(request, asked(self.clients[request["on"]], request, self.actors).acquire())

    def op_campaign(self, request: Json) -> None:
        """Campaigns, and keeps the leadership."""
        election = self.clients[request["on"]].election(
            request["election"], value=request.get("value") or "", wait=seconds(request, "wait_ms")
        )
        self.keep(request, election.campaign())

    def op_cancel(self, request: Json) -> Json:
        """Ends an observer; a thread can't be cancelled."""
        if request["of"] not in self.observers:
            raise Unsupported("cancel")
        self.observers.pop(request["of"]).close()
        return {}

    def op_release(self, request: Json) -> Json:
        """Releases."""
        self.ended.add(request["h"])
        hold = self.holds[request["h"]]
        reasons = [(one, one.lost_reason) for one in parts(hold)]
        if not hold.release():
            for one, reason in reasons:
                if reason:
                    raise leasehold.LockLost(one.name, one.token, reason)
            raise leasehold.LockLost(request["h"], 0, leasehold.LostReason.UNKNOWN)
        return {}

    op_resign = op_release

    def op_set_value(self, request: Json) -> Json:
        """Changes a value."""
        self.holds[request["h"]].set_value(request["value"])
        return {}

    op_proclaim = op_set_value

    def op_downgrade(self, request: Json) -> Json:
        """Makes a hold shared."""
        self.holds[request["h"]].downgrade()
        return {}

    def op_state(self, request: Json) -> Json:
        """Asks the library's check."""
        return state(self.holds[request["h"]])

    def work(self, request: Json, hold: Any, told: Told) -> None:
        """Runs a body, which looks every 5 ms."""
        name = request["as"]
        self.holds[name] = hold
        body_event(name, "started", token=str(parts(hold)[0].token))
        try:
            while not told.finished and told.failed is None:
                try:
                    hold.check()
                except leasehold.LockSuspended:
                    pass
                except leasehold.LockLost:
                    body_event(name, "cancelled")
                    time.sleep((request.get("cleanup_ms") or 0) / 1000)
                    if request.get("fail_with"):
                        raise BodyFailed(request["fail_with"]) from None
                    raise
                time.sleep(0.005)
            if told.failed is not None:
                message, told.failed = told.failed, None
                raise BodyFailed(message)
        finally:
            body_event(name, "ended")

    def op_body(self, request: Json) -> Json:
        """Runs the scoped form."""
        told = self.told[request["as"]] = Told()
        with asked(self.clients[request["on"]], request, self.actors) as hold:
            self.work(request, hold, told)
        return {}

    def op_lead(self, request: Json) -> Json:
        """Runs the form that campaigns again."""
        told = self.told[request["as"]] = Told()
        for term in self.clients[request["on"]].election(request["election"], value=request.get("value") or ""):
            with term:
                self.work(request, term, told)
            if told.finished:
                break
        return {}

    def op_finish(self, request: Json) -> Json:
        """Has a body return."""
        self.told[request["h"]].finished = True
        return {}

    def op_fail(self, request: Json) -> Json:
        """Has a body fail."""
        self.told[request["h"]].failed = request["message"]
        return {}

    def op_observe(self, request: Json) -> Json:
        """Starts an observer."""
        observer = self.clients[request["on"]].election(request["election"]).observe()
        self.observers[request["id"]] = observer

        def observe() -> None:
            try:
                for change in observer:
                    leader(request["as"], change)
            except leasehold.CallFailed as failed:
                write({"ev": "observe_failed", "o": request["as"], "err": err(failed)})

        threading.Thread(target=observe, daemon=True).start()
        return {}

    def op_clock(self, request: Json) -> Json:
        """Reads the library's clock."""
        return {"clock_ns": str(_clock.now())}

    def op_skew_clock(self, request: Json) -> Json:
        """Sets the library's clock forward."""
        self.clock.by += request["ms"] * 1_000_000
        return {}

    def op_block_ms(self, request: Json) -> Json:
        """Blocks the client's event loop, which runs the library's timers, and asks before it goes on."""
        hold, asked_state, is_over = self.holds[request["h"]], [], threading.Event()

        def block() -> None:
            time.sleep(request["ms"] / 1000)
            asked_state.append(state(hold))
            is_over.set()

        parts(hold)[0]._inner._driver.loop.call_soon_threadsafe(block)
        is_over.wait()
        said: Json = asked_state[0]
        return said

    def op_fork(self, request: Json) -> Json:
        """Forks."""
        return in_child(self.holds[request["h"]])

    def op_close(self, request: Json) -> Json:
        """Closes a client."""
        self.clients[request["on"]].close()
        return {}


def main() -> None:
    """Serves with the interface that the argument names."""
    if sys.argv[1:] == ["sync"]:
        Sync().run()
    else:
        asyncio.run(Asyncio().run())


if __name__ == "__main__":
    main()
