"""Operations through the interface for asyncio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
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


class Asyncio:
    """Driver of the interface for asyncio."""

    def __init__(self) -> None:
        """Makes a driver without clients."""
        self.clock = Skewed()
        self.clients: dict[str, leasehold_client.Client] = {}
        self.holds: dict[str, Any] = {}
        self.actors: dict[str, leasehold_client.Actor] = {}
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
        client = leasehold_client.connect(request["endpoints"], **options(request))
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
            raise lost[0] if lost else leasehold_client.LockLost(request["h"], 0, leasehold_client.LostReason.UNKNOWN)
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
            except leasehold_client.CallFailed as failed:
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
