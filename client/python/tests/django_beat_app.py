"""Celery app whose schedule is in the database of Django, for tests of beat."""

import os
from datetime import timedelta

import django
from celery import Celery
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["BEAT_DATABASE"], "OPTIONS": {"timeout": 60}}},
    INSTALLED_APPS=["django_celery_beat"],
    USE_TZ=True,
)
django.setup()

from django.core.management import call_command
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from leasehold_client.celery import LeaderMixin


class LeaderScheduler(LeaderMixin, DatabaseScheduler):  # type: ignore[misc]
    """The scheduler of the tests."""


app = Celery("django_beat_app", broker=os.environ["BEAT_BROKER"])
app.conf.update(
    leasehold_endpoints=os.environ["BEAT_ENDPOINT"],
    leasehold_connect={"ttl": 1},
    broker_connection_retry_on_startup=True,
    beat_max_loop_interval=0.5,
)

if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    due = timezone.now() - timedelta(hours=3)
    seconds = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
    hours = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.create(name="often", task="often", interval=seconds, last_run_at=due)
    PeriodicTask.objects.create(name="hourly", task="hourly", interval=hours, last_run_at=due)
    PeriodicTask.objects.create(name="once", task="once", interval=seconds, one_off=True, last_run_at=due)
