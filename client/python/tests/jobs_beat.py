"""Celery app with a schedule, for tests of workers that run beat inside (`worker -B`)."""

import os
from pathlib import Path
from typing import Any

from celery import Celery, signals
from ledger import Log

log = Log(Path(os.environ["JOBS_LEDGER"]).with_name("log"))

app = Celery("jobs", broker=os.environ["JOBS_BROKER"])
app.conf.update(
    leasehold_endpoints=os.environ["JOBS_ENDPOINTS"],
    leasehold_connect={"ttl": 5},
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    beat_schedule={"often": {"task": "often", "schedule": 0.3}},
)


@signals.before_task_publish.connect  # type: ignore[untyped-decorator]
def on_sent(headers: dict[str, Any], **_: Any) -> None:
    """Notes a task that is sent."""
    log.write("sent", headers["id"])


@app.task(name="often", bind=True)  # type: ignore[untyped-decorator]
def often(self: Any) -> None:
    """Notes that it has run."""
    log.write("ran", self.request.id)
