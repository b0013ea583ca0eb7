"""FastAPI app whose requests run jobs under a lock, for tests of uvicorn."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from ledger import Ledger

import leasehold_client

ledger = Ledger(Path(os.environ["JOBS_LEDGER"]))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keeps a client open for as long as the worker serves."""
    async with leasehold_client.connect(os.environ["JOBS_ENDPOINTS"], ttl=60) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/{job}")
async def run(job: str, request: Request) -> PlainTextResponse:
    """Runs the job of the path."""
    async with request.app.state.client.lock("ledger") as lock:
        return PlainTextResponse(await ledger.run_in_task(job, lock))
