"""Scheduler of Celery beat that runs in several processes, of which one sends tasks.

    celery --app shop beat --scheduler leasehold_client.celery:LeaderScheduler

It needs the extra `leasehold-client[celery]`. Settings of the app:

- `leasehold_endpoints`: the coordinators' URLs. Default: `http://127.0.0.1:7420`.
- `leasehold_election`: the election's name. Default: `celery-beat`. Each app whose schedule is another needs another name.
- `leasehold_connect`: more arguments of `leasehold_client.connect`, such as `ttl` or `tls`.
"""

from __future__ import annotations

import copy
import json
import logging
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery.beat import PersistentScheduler

from . import sync
from ._candidate import Candidate
from ._client_name import client_name

__all__ = ["LeaderMixin", "LeaderScheduler"]

log = logging.getLogger("leasehold_client.celery")

if TYPE_CHECKING:

    class _Scheduler:
        app: Any
        schedule: dict[str, Any]
        max_interval: float
        _heap: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def tick(self, *args: Any, **kwargs: Any) -> float: ...
        def apply_entry(self, entry: Any, producer: Any = None) -> None: ...
        def close(self) -> None: ...

else:
    _Scheduler = object


def _as_sent(entry: Any, at: datetime) -> Any:
    """Returns an entry as it is after it was sent at this time.

    Not by its class: entries of other schedulers are made of rows of a database, which only the leader may change.
    """
    sent = object.__new__(type(entry))
    vars(sent).update(vars(entry))
    sent.last_run_at, sent.total_run_count = at, entry.total_run_count + 1
    if hasattr(entry, "model"):
        # django-celery-beat's, which counts there whether a task that is to run once has run.
        sent.model = copy.copy(entry.model)
        sent.model.last_run_at, sent.model.total_run_count = at, sent.total_run_count
    return sent


class LeaderMixin(_Scheduler):
    """Mixin over a scheduler of Celery beat: `class Mine(LeaderMixin, TheirScheduler)`.

    Only the leader sends tasks. The others are ready to take over: they note what the leader says it has sent, so that the next leader
    sends what fell due since then and no task twice, unless the leader died between sending a task and saying so. Whatever happens to
    the leadership or the coordinators, `tick` returns a delay, and the process campaigns again.
    """

    standby_interval = 1.0
    """Seconds between ticks of a process that does not lead: how late it may take over."""

    _candidate: Candidate | None = None
    _client: sync.Client | None = None
    _led = False
    _has_sent = False
    _sent_until = 0.0
    _noted: Any = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Sends what is due if this process leads. Returns the seconds until the next call."""
        candidate = self._candidate or self._begin()
        if candidate is None:
            return min(self.standby_interval, self.max_interval)
        if not candidate.is_leader:
            if self._led:
                log.warning("beat: another process may lead: sending no tasks until this one is elected again")
            self._led = False
            self._note_sent(self._sent_until)
            return min(self.standby_interval, self.max_interval)
        if not self._led:
            log.info("beat: elected: sending tasks")
            self._led, self._has_sent = True, False
            self._note_sent(self._sent_until)
            # It has the entries as they were when this process led before.
            self._heap = None
        elif hasattr(self, "schedule_changed") and self.schedule is not self._noted:
            # Read from the database again, which the leader before may not have told of all that it sent.
            self._note_sent(self._sent_until)
        began = time.time()
        delay = super().tick(*args, **kwargs)
        if self._has_sent and (delay is None or delay > 0):
            # Nothing else is due.
            self._has_sent = not candidate.proclaim(self._value(began))
        return delay

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Sends a task, unless the leadership was lost while the broker was waited for."""
        if self._candidate is None or not self._candidate.is_leader:
            log.warning("beat: not sending %s: another process may lead", entry.name)
            return
        self._has_sent = True
        super().apply_entry(entry, producer=producer)

    def close(self) -> None:
        """Closes the scheduler, then resigns."""
        try:
            super().close()
        finally:
            candidate, self._candidate = self._candidate, None
            client, self._client = self._client, None
            if candidate:
                candidate.stop()
            if client:
                client.close()

    def _begin(self) -> Candidate | None:
        # Not before the first tick: beat makes schedulers to look at them, and may fork before it begins.
        conf = self.app.conf
        try:
            arguments = {"client_name": client_name("celery-beat"), **(conf.get("leasehold_connect") or {})}
            self._client = sync.connect(conf.get("leasehold_endpoints") or "http://127.0.0.1:7420", **arguments)
            election = conf.get("leasehold_election") or "celery-beat"
            self._candidate = Candidate(self._client, election, self._value(), on_value=self._on_value)
            self._candidate.start()
        except Exception:
            # A certificate that is not there yet, for example.
            log.exception("beat: failed to begin to campaign; trying it until it succeeds")
            self._candidate = self._client = None
        return self._candidate

    def _value(self, sent_until: float | None = None) -> str:
        return json.dumps({"beat": client_name("celery-beat"), "sent_until": sent_until})

    def _on_value(self, value: bytes) -> None:
        """Takes what a leader says that it has sent."""
        try:
            sent_until = json.loads(value)["sent_until"]
        except (ValueError, KeyError, TypeError):
            return
        if isinstance(sent_until, float | int):
            self._sent_until = max(self._sent_until, sent_until)

    def _note_sent(self, until: float) -> None:
        """Notes as sent what fell due until then, which a leader has sent."""
        self._noted = self.schedule
        for name, entry in list(self._noted.items()):
            try:
                ago = timedelta(seconds=time.time() - until)
                # It fell due no later than that moment.
                if entry.schedule.remaining_estimate(entry.last_run_at) <= -ago:
                    self._noted[name] = _as_sent(entry, entry.default_now() - ago)
            except Exception:
                # As beat does: one entry whose next run can't be calculated stops no other.
                log.exception("beat: failed to calculate the next run of %r", name)


class LeaderScheduler(LeaderMixin, PersistentScheduler):  # type: ignore[misc]
    """Celery's own scheduler with a leader. Give each process a schedule file of its own (`-s`)."""
