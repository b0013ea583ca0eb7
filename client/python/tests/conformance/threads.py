"""Operations through the interface for threads."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from typing import Any

import leasehold_client
import leasehold_client.sync
from leasehold_client import _clock

from .protocol import (
    BodyFailed,
    Json,
    Skewed,
    Told,
    Unsupported,
    asked,
    body_event,
    err,
    granted,
    hello,
    in_child,
    leader,
    options,
    parts,
    seconds,
    state,
    write,
)


class Sync:
    """Driver of the interface for threads. Each request that may wait has a thread of its own."""

    def __init__(self) -> None:
        """Makes a driver without clients."""
        self.clock = Skewed()
        self.clients: dict[str, leasehold_client.sync.Client] = {}
        self.holds: dict[str, Any] = {}
        self.actors: dict[str, leasehold_client.Actor] = {}
        self.told: dict[str, Told] = {}
        self.observers: dict[int, leasehold_client.sync.Observer] = {}
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
        client = leasehold_client.sync.connect(request["endpoints"], **options(request))
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
        before = leasehold_client.LockState.HELD
        while before is not leasehold_client.LockState.LOST:
            try:
                before = one.changed(before)
            except BaseException:
                # The client's loop has ended.
                before = leasehold_client.LockState.LOST
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
                    raise leasehold_client.LockLost(one.name, one.token, reason)
            raise leasehold_client.LockLost(request["h"], 0, leasehold_client.LostReason.UNKNOWN)
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
                except leasehold_client.LockSuspended:
                    pass
                except leasehold_client.LockLost:
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
            except leasehold_client.CallFailed as failed:
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
