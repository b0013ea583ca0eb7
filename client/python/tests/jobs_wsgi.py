"""WSGI app whose requests run jobs under a lock, for tests of gunicorn."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger import Ledger

import leasehold_client.sync

ledger = Ledger(Path(os.environ["JOBS_LEDGER"]))
# Opened by the first request of each worker, so that nothing is inherited over a fork, with `--preload` too.
client = leasehold_client.sync.connect(os.environ["JOBS_ENDPOINTS"], ttl=60)


def application(environ: dict[str, Any], respond: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
    """Runs the job of the path."""
    client.open()
    with client.lock("ledger") as lock:
        said = ledger.run(environ["PATH_INFO"][1:], lock)
    respond("200 OK", [("Content-Length", str(len(said)))])
    return [said.encode()]
