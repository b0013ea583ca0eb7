"""Programs of servers that are told to end in the middle of a request or a task that has a lock. See `stopping.py`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from stopping import TTL, Work

import leasehold_client
import leasehold_client.sync

DIRECTORY = Path(os.environ["JOBS_LEDGER"]).parent
NAME = os.environ["STOPPING_LOCK"]
client = leasehold_client.sync.connect(os.environ["JOBS_ENDPOINTS"], ttl=TTL)


def work(number: str) -> str:
    """Works under the lock, until a file says that the server was told to end."""
    with client.lock(NAME):
        Work(DIRECTORY / "works").run((DIRECTORY / f"told{number}").exists)
    return "done"


with contextlib.suppress(ImportError):
    from celery import Celery
    from celery.signals import worker_process_shutdown

    app = Celery("stopping", broker=os.environ["JOBS_BROKER"], backend=os.environ["JOBS_BROKER"])
    app.task(name="work")(work)

    @worker_process_shutdown.connect  # type: ignore[untyped-decorator]
    def on_end(**_: Any) -> None:
        """Closes the client of a process of the pool."""
        client.close()


def application(environ: dict[str, Any], respond: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
    """Works for a request of WSGI."""
    said = work(environ["PATH_INFO"][1:])
    respond("200 OK", [("Content-Length", str(len(said)))])
    return [said.encode()]


def worker_exit(server: Any, worker: Any) -> None:
    """Closes the client of a worker of gunicorn."""
    client.close()


with contextlib.suppress(ImportError):
    from fastapi import FastAPI
    from fastapi.responses import PlainTextResponse

    tasks = leasehold_client.connect(os.environ["JOBS_ENDPOINTS"], ttl=TTL)

    @contextlib.asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        """Keeps the client open for as long as the worker serves."""
        async with tasks:
            yield

    api = FastAPI(lifespan=lifespan)

    @api.get("/{number}")
    async def work_in_task(number: str) -> PlainTextResponse:
        """Works for a request of ASGI."""
        async with tasks.lock(NAME):
            working = asyncio.create_task(Work(DIRECTORY / "works").run_in_task())
            while not (DIRECTORY / f"told{number}").exists():
                await asyncio.sleep(0.002)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        return PlainTextResponse("done")
