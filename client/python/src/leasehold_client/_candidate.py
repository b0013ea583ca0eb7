"""Candidate in the background: campaigns for an election in a thread, again after every loss, until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from . import _arguments as arguments
from . import sync
from .errors import AcquireError, ConnectError, ConnectErrorKind, Forked, HoldError, LeaseholdError, LockLost, SessionClosed
from .hold import LockState

log = logging.getLogger("leasehold_client")

_LOOK_AGAIN = 0.02
"""Seconds between looks whether the work has ended."""
_PAUSE = 1.0
"""Seconds between attempts after a failure."""


class Candidate:
    """Candidate of an election that leads on behalf of something that can't be interrupted, such as a scheduler.

    It has a session of its own, so that its end ends the campaign or the leadership, and nothing else.
    """

    def __init__(
        self,
        client: sync.Client,
        election: str,
        value: bytes | str = b"",
        on_change: Callable[[bool], object] | None = None,
        on_value: Callable[[bytes], object] | None = None,
        is_working: Callable[[], bool] = lambda: False,
    ) -> None:
        """Makes a candidate that does not campaign yet. A client that is not open is opened in the background.

        Threads of the candidate call `on_change` with whether it leads now, and `on_value` with each value of a leader, its own too. If the
        client is closed, it resigns once `is_working` returns false.
        """
        self._is_working = is_working
        self.election = arguments.name(election, "election")
        """The election's name."""
        self._client, self._value, self._on_change, self._on_value = client, arguments.value_bytes(value), on_change, on_value
        # The handler of a signal, which ends Celery beat, may be in the middle of `start`.
        self._mutex = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._session: sync.Session | None = None
        self._observer: sync.Observer | None = None
        self._watcher: threading.Thread | None = None
        self._leadership: sync.Leadership | None = None

    @property
    def leadership(self) -> sync.Leadership | None:
        """The last leadership, held or not; none before the first."""
        return self._leadership

    @property
    def is_leader(self) -> bool:
        """Whether nobody else can lead now, by this process's own clock."""
        leadership = self._leadership
        return leadership is not None and leadership.is_leader and not leadership._is_stopped

    def start(self) -> None:
        """Begins to campaign. Does nothing if it has begun."""
        with self._mutex:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leasehold-candidate", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Resigns, or withdraws the campaign, and waits for the end of the thread. Stop the work first."""
        with self._mutex:
            self._stopping.set()
            session, observer = self._session, self._observer
        if session:
            session.close(timeout=0)
        if observer:
            observer.close()
        for thread in (self._thread, self._watcher):
            if thread and thread is not threading.current_thread():
                # It may have been about to start, if this is the handler of a signal.
                with contextlib.suppress(RuntimeError):
                    thread.join()

    def _run(self) -> None:
        is_first = True
        while not self._stopping.is_set():
            try:
                self._client.open()
                session = self._client.new_session()
                session.open()
            except (Forked, SessionClosed):
                # Nothing mends that.
                return
            except (LeaseholdError, RuntimeError) as error:
                if isinstance(error, ConnectError) and error.kind is ConnectErrorKind.MISMATCH:
                    # No retry mends the address.
                    log.error("failed to campaign for %r, and not trying it again: %s", self.election, error)
                    return
                level = logging.WARNING if is_first else logging.DEBUG
                log.log(level, "failed to campaign for %r; trying it until it succeeds: %s", self.election, error)
                is_first = False
                self._stopping.wait(_PAUSE)
                continue
            is_first = True
            with self._mutex:
                self._session = session
                is_over = self._stopping.is_set()
                if self._on_value and not self._watcher and not is_over:
                    self._observer = self._client.election(self.election).observe()
                    self._watcher = threading.Thread(target=self._watch, args=(self._observer, self._on_value), daemon=True)
                    self._watcher.name = "leasehold-observer"
                    self._watcher.start()
            if is_over:
                session.close()
                return
            self._serve(session)

    def _serve(self, session: sync.Session) -> None:
        """Campaigns on a session until it ends."""
        election = self._client.on(session).election(self.election, value=self._value, on_lost=self._on_stop)
        while not self._stopping.is_set():
            try:
                leadership = election.campaign()
            except AcquireError as error:
                if self._stopping.is_set():
                    return
                log.warning("a campaign for %r failed; repeating it until it succeeds: %s", self.election, error)
                self._stopping.wait(_PAUSE)
                if not error.is_retryable:
                    # Perhaps the session was ended by an operator. Another one is made.
                    session.close()
                    return
                continue
            log.info("elected in %r with token %d", self.election, leadership.token)
            self._leadership = leadership
            try:
                # What runs on its behalf is a body of the session.
                leadership.__enter__()
            except (LockLost, SessionClosed):
                leadership.release()
                continue
            self._lead(leadership)
            leadership._entered.pop().end()

    def _on_stop(self, leadership: sync.Hold) -> None:
        """Has the work stop, because the leadership is lost, or because the client is being closed, and resigns when it has."""
        if leadership._is_stopped:
            self._tell(LockState.LOST)
            while leadership.is_held and self._is_working():
                time.sleep(_LOOK_AGAIN)
            with contextlib.suppress(LeaseholdError):
                leadership.release()

    def _lead(self, leadership: sync.Leadership) -> None:
        state = leadership.state
        self._tell(state)
        while state is not LockState.LOST:
            state = leadership.changed(state)
            self._tell(state)
        reason = leadership.lost_reason
        if not self._stopping.is_set():
            log.warning("lost the election %r (%s); campaigning again", self.election, reason.value if reason else "")

    def _tell(self, state: LockState) -> None:
        if self._on_change:
            try:
                self._on_change(state is LockState.HELD)
            except Exception:
                log.exception("a callback of the election %r failed", self.election)

    def _watch(self, observer: sync.Observer, on_value: Callable[[bytes], object]) -> None:
        try:
            for change in observer:
                if change.leader:
                    on_value(change.leader.value)
        except Exception:
            if not self._stopping.is_set():
                log.exception("the observer of the election %r failed", self.election)

    def proclaim(self, value: bytes | str) -> bool:
        """Changes the value that observers see. Returns whether that was confirmed."""
        leadership = self._leadership
        if leadership is None or not leadership.is_leader:
            return False
        try:
            leadership.proclaim(value)
        except HoldError as error:
            log.info("failed to proclaim a value in the election %r: %s", self.election, error)
            return False
        return True
