"""Celery app with a schedule, for tests of beat."""

import os

from celery import Celery

app = Celery("beat_app", broker=os.environ["BEAT_BROKER"])
app.conf.update(
    leasehold_endpoints=os.environ["BEAT_ENDPOINT"],
    leasehold_connect={"ttl": 1},
    broker_connection_retry_on_startup=True,
    beat_schedule={"often": {"task": "often", "schedule": 0.2}},
)
