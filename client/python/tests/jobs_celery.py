"""Celery app whose tasks run jobs under a lock, for tests of its workers."""

import os
from pathlib import Path

from celery import Celery
from ledger import Ledger

import leasehold_client.sync

ledger = Ledger(Path(os.environ["JOBS_LEDGER"]))
# Opened by the first task of each process of the pool, which is forked before.
client = leasehold_client.sync.connect(os.environ["JOBS_ENDPOINTS"], ttl=60)

app = Celery("jobs", broker=os.environ["JOBS_BROKER"], backend=os.environ["JOBS_BROKER"])
# Tasks of a process that is killed are run again.
app.conf.update(broker_connection_retry_on_startup=True, task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1)


@app.task(name="run")  # type: ignore[untyped-decorator]
def run(job: str) -> str:
    """Runs a job."""
    client.open()
    with client.lock("ledger") as lock:
        return ledger.run(job, lock)
