"""Loop of a session: feeds its machine with what happens to its connections, and carries out what the machine asks for.

Everything is called by one event loop, one thing at a time, so that no state is shared between threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Coroutine
from typing import Any

from . import _fork
from ._clock import MILLISECOND, SECOND, now
from ._connection import Connection
from ._endpoints import Candidate, addresses
from ._failure import Failure
from ._machine import Acquired, Draining, Ended, Fate, HangUp, HoldDone, Leave, Machine, Opened, Send, SessionInfo, StreamEnd, fate_of
from ._machine.fate import fate_of_answer
from ._machine.stream import CLOSE_TIMEOUT
from ._renewing import Renewing
from ._route import Pauses, Route, least_final, most_telling
from ._transport import Settings, check_process
from .errors import ConnectError, Forked, LostReason, SessionClosed
from .v1 import session_pb2

log = logging.getLogger("leasehold_client")

LONGEST_SLEEP = SECOND
"""Longest sleep of the driver. Timers do not count time for which the machine was suspended: one set for long would ring late."""
_INVALID_ARGUMENT = 3
MOST_OVERDUE = 64
"""Most connections kept that did not open in time."""


class SessionLoop:
    """One session, over all its connections."""

    def __init__(self, settings: Settings, open: session_pb2.SessionOpen) -> None:
        """Makes a session without a connection. `start` begins to connect."""
        check_process()
        self._settings = settings
        self._machine = Machine(settings.connect_timeout, open, lambda: os.urandom(16))
        self._loop = asyncio.get_running_loop()
        self._generation = _fork.generation()
        self._current: Connection | None = None
        self._next: Connection | None = None
        # A round of attempts that looks up names, or pauses before that.
        self._finding: asyncio.Task[None] | None = None
        # Connections of streams that did not open in time, until another one has.
        self._overdue: list[Connection] = []
        self._background: set[asyncio.Task[None]] = set()
        # Goodbyes that the end of the session waits for.
        self._seen_off: list[asyncio.Task[None]] = []
        self._route = Route(len(settings.endpoints), random.Random())
        self._round_errors: list[ConnectError] = []
        self._pause: int | None = None
        self._pauses = Pauses(settings.backoff_min, settings.backoff_max)
        self._renewing = Renewing()
        self._alarm: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None
        self._last_acquire = 0
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.info: SessionInfo | None = None
        self.draining_at: int | None = None
        self.draining = asyncio.Event()

    def connections(self) -> list[Connection]:
        """Returns all connections that there are."""
        some = [self._current, self._next, *self._overdue]
        return [connection for connection in some if connection]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it lives in."""
        return self._loop

    @property
    def settings(self) -> Settings:
        """The connection settings."""
        return self._settings

    @property
    def has_ended(self) -> bool:
        """Whether the session is over."""
        return self._ended.done()

    def check_fork(self) -> None:
        """Fails in the child of a fork."""
        if self._generation != _fork.generation():
            raise Forked("the client was made before this process was forked")

    # Time.

    def _arm(self) -> None:
        wanted = self._machine.alarm()
        if self._alarm and wanted == self._armed_for and not self.has_ended:
            return
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        if self.has_ended:
            return
        pause = LONGEST_SLEEP if wanted is None else max(0, min(wanted - now(), LONGEST_SLEEP))
        self._armed_for = wanted
        self._alarm = self._loop.call_later(pause / SECOND, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        if self._generation != _fork.generation():
            return
        self._machine.tick(now())
        self._renew_credentials()
        self._settle()

    def _renew_credentials(self) -> None:
        moment = now()
        if self._current and self._renewing.looks(moment):
            is_outdated = self._settings.credentials.version() != self._current.credentials
            if self._renewing.is_due(moment, is_outdated):
                log.debug("the session moves to a connection with newer credentials")
                self._machine.outdated()

    # Outputs.

    def _settle(self) -> None:
        """Carries out what the machine asks for, and sets the alarm. To be called after every input.

        A fork does nothing of that: the session is its parent's.
        """
        if self._generation != _fork.generation():
            return
        try:
            self._carry_out()
            self._connect_if_wanted()
            self._arm()
        except Exception as error:
            self._abort(error)
            raise

    def _carry_out(self) -> None:
        while (output := self._machine.next_output()) is not None:
            match output:
                case Send(stream, request):
                    self._send(stream, request)
                case Acquired(reply, result):
                    reply(result)
                case HoldDone(done, outcome):
                    done(outcome)
                case Opened(stream, info):
                    self._on_opened(stream, info)
                case Draining(until):
                    log.info("the coordinator is going away")
                    self.draining_at = until
                    self.draining.set()
                case HangUp(stream, error):
                    self._hang_up(stream, error)
                case Leave(stream):
                    if self._next and self._next.number == stream:
                        leaving, self._next = self._next, None
                        self._seen_off.append(self._spawn(leaving.leave(CLOSE_TIMEOUT)))
                case Ended():
                    self._end()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _send(self, stream: int, request: session_pb2.SessionRequest) -> None:
        for connection in (self._current, self._next):
            if connection and connection.number == stream:
                try:
                    connection.push(request)
                except Exception as error:
                    # As if the coordinator had refused it: it would fail on each stream.
                    failure = session_pb2.SessionFailure(code=_INVALID_ARGUMENT, reason="INVALID_FIELD", message=str(error))
                    answer = session_pb2.SessionResponse(request_id=request.request_id, error=failure)
                    self._machine.message(now(), stream, answer)
                return

    def _on_opened(self, stream: int, info: SessionInfo) -> None:
        log.debug("session %s opened at %s", info.session_id, info.coordinator)
        former = self._current
        if self._next and self._next.number == stream:
            self._current, self._next = self._next, None
        if former:
            self._spawn(former.leave(CLOSE_TIMEOUT))
        overdue, self._overdue = self._overdue, []
        for connection in overdue:
            self._spawn(connection.cut())
        self._round_errors.clear()
        self._pause = None
        self._pauses.opened(now())
        self.info, self.draining_at = info, None
        self.draining.clear()
        if not self._opened.done():
            self._opened.set_result(None)

    def _hang_up(self, stream: int, error: ConnectError | None) -> None:
        if self._current and self._current.number == stream:
            self._current_ended()
        elif self._next and self._next.number == stream:
            connection = self._next
            if error is None:
                self._next = None
                self._spawn(connection.cut())
                return
            if fate_of(error) is Fate.KEPT:
                self._overdue.append(connection)
                surplus, self._overdue = self._overdue[:-MOST_OVERDUE], self._overdue[-MOST_OVERDUE:]
                for one in surplus:
                    self._spawn(one.cut())
                    # As if its coordinator had ended it.
                    self._machine.overdue_ended(now(), Fate.DROPPED)
            else:
                self._spawn(connection.cut())
            self._attempt_failed(connection.candidate, error)

    def _end(self) -> None:
        """Ends the driver: nothing is left to do."""
        if self._finding:
            self._finding.cancel()
        for connection in self.connections():
            self._spawn(connection.cut())
        self._current = self._next = None
        self._overdue = []
        self.info, self.draining_at = None, None
        self.draining.set()
        if self._alarm:
            self._alarm.cancel()
        if not self._opened.done():
            self._opened.set_exception(SessionClosed(""))
        # Nobody may wait for it any more.
        self._opened.exception()
        if not self._ended.done():
            self._ended.set_result(None)

    def _abort(self, error: BaseException) -> None:
        """Ends the session after a fault, or with the event loop: nobody may go on believing in its holds."""
        if self.has_ended or self._generation != _fork.generation():
            return
        if not isinstance(error, asyncio.CancelledError | GeneratorExit):
            log.error("the session ends because of a fault", exc_info=error)
            if not self._opened.done():
                self._opened.set_exception(error)
        self._machine.holds.end_all(now(), LostReason.SESSION_ENDED)
        self._machine.ending = True
        self._machine.outputs.clear()
        self._machine.fail_waiting(lambda _: True, SessionClosed)
        while (output := self._machine.next_output()) is not None:
            if isinstance(output, Acquired):
                output.reply(output.result)
        if self._finding:
            self._finding.cancel()
        for connection in self.connections():
            connection.release_tasks()
        if not self._loop.is_closed():
            self._end()

    # Connections.

    def _connect_if_wanted(self) -> None:
        """Begins to look for a further connection if there is to be one, and stops if there is not."""
        if self._machine.wants_connection and not self.has_ended:
            if self._next is None and self._finding is None:
                self._route.failed(self._current.candidate if self._current else None, now())
                pause, self._pause = self._pause, None
                self._finding = self._loop.create_task(self._find(pause))
        else:
            if self._finding:
                self._finding.cancel()
                self._finding = None
            # The machine knows of those that have a number.
            if self._next and self._next.number is None:
                self._spawn(self._next.cut())
                self._next = None

    async def _find(self, pause: int | None) -> None:
        """Looks up all endpoints at once, after a pause if there is to be one, and begins a round."""
        try:
            if pause:
                await asyncio.sleep(pause / SECOND)
            limit = self._settings.connect_timeout
            asked = [addresses(endpoint, limit) for endpoint in self._settings.endpoints]
            found = await asyncio.gather(*asked, return_exceptions=True)
            self._finding = None
            candidates: list[Candidate] = []
            self._round_errors = []
            for one in found:
                if isinstance(one, ConnectError):
                    self._round_errors.append(one)
                elif isinstance(one, BaseException):
                    raise one
                else:
                    candidates += one
            self._route.begin_round(candidates, now())
            self._dial_next()
        except asyncio.CancelledError:
            # By this driver, unless the event loop ends.
            if self._finding is asyncio.current_task():
                self._abort(asyncio.CancelledError())
            raise
        except Exception as error:
            self._abort(error)
            raise
        self._settle()

    def _dial_next(self) -> None:
        """Tries the next candidate; after all of them, pauses."""
        moment = now()
        candidate = self._route.next()
        if candidate:
            self._next = Connection(self._settings, self, candidate)
            self._next.dial(self._machine.attempt_limit(moment))
            return
        self._next = None
        errors, self._round_errors = self._round_errors, []
        if not self._opened.done():
            # Whoever opens a session wants to know at once.
            self._opened.set_exception(most_telling(errors) or ConnectError.ended(self._settings.urls))
            self._machine.close(moment)
            return
        error = least_final(errors) or ConnectError.ended(self._settings.urls)
        asked = error.failure.retry_after if error.failure else None
        is_outdated = self._machine.is_outdated
        if self._machine.stays(moment):
            if is_outdated:
                self._renewing.failed(moment)
                log.warning("newer credentials are not taken, and those before stay in use: %s", error)
            else:
                log.info("failed to move the session to another stream; it stays where it is: %s", error)
            return
        self._machine.connect_failed(moment, error)
        if asked is None and self._machine.is_orphaned(moment):
            # What a stopped coordinator left can still be resumed; all of its clients come back at once.
            longest = round(random.uniform(250, 500)) * MILLISECOND
            self._pause = min(self._pauses.pause(moment), longest)
        else:
            self._pause = self._pauses.pause_as_asked(moment, asked)

    def _attempt_failed(self, candidate: Candidate, error: ConnectError) -> None:
        log.debug("failed to open a session: %s", error)
        self._next = None
        self._route.failed(candidate, now())
        self._round_errors.append(error)
        self._dial_next()

    def _current_ended(self) -> None:
        moment = now()
        self.info, self.draining_at = None, None
        self.draining.clear()
        ended, self._current = self._current, None
        if ended:
            self._route.failed(ended.candidate, moment)
            self._spawn(ended.cut())
        if self._next or self._finding:
            return
        # Another one may be there at once. What ended as soon as it was open is paused for all the same.
        elsewhere = self._route.is_several and self._pauses.lived(moment)
        pause = self._pauses.pause(moment)
        self._pause = None if elsewhere else pause

    def _current_stopped(self) -> None:
        """Handles the stop of the coordinator, which may be back at any moment, and may have a successor already.

        Attempts go on without the pauses that had grown while it was going away.
        """
        if self._finding:
            self._finding.cancel()
            self._finding = None
        self._pauses.start_anew()
        self._current_ended()

    # Events of connections. Those of connections that the driver has left are ignored.

    def connected(self, connection: Connection) -> None:
        """Handles that the connection is made, before its stream is asked for."""
        if connection is not self._next:
            return
        moment = now()
        if self._machine.is_moving or self._machine.is_orphaned(moment):
            # What there is is not touched before somebody is there to take it over.
            connection.start(self._machine.attempt_limit(moment))
        else:
            connection.number = self._machine.connected(moment, connection.endpoint)
            connection.start(None)
        self._settle()

    def started(self, connection: Connection) -> None:
        """Handles that the peer serves the stream."""
        if connection is self._next and connection.number is None:
            connection.number = self._machine.connected(now(), connection.endpoint)
            self._settle()

    def message(self, connection: Connection, message: session_pb2.SessionResponse) -> None:
        """Handles a message."""
        if connection.number is not None and connection in (self._current, self._next):
            self._machine.message(now(), connection.number, message)
            self._settle()
        elif connection in self._overdue:
            self._machine.overdue_message(now(), message)
            self._settle()
        elif message.HasField("closed"):
            connection.has_ended.set()

    def failed(self, connection: Connection, error: ConnectError) -> None:
        """Handles that the connection could not be made."""
        if connection is self._next:
            self._spawn(connection.cut())
            self._attempt_failed(connection.candidate, error)
            self._settle()

    def ended(self, connection: Connection, failure: Failure | None) -> None:
        """Handles the end of the stream, with a failure unless it was a plain end."""
        moment = now()
        if connection is self._current and connection.number is not None:
            end = self._machine.stream_ended_by(moment, connection.number, failure)
            if end is StreamEnd.STOPPED:
                log.info("the coordinator at %s stopped; looking for one to resume on", connection.endpoint)
                self._current_stopped()
            else:
                log.warning("the stream to %s ended: %s", connection.endpoint, failure or "without an error")
                self._current_ended()
        elif connection is self._next:
            endpoint = connection.endpoint
            error = ConnectError.broke(endpoint, failure) if failure else ConnectError.ended(endpoint)
            if connection.number is not None:
                self._machine.attempt_failed(moment, fate_of(error))
            self._spawn(connection.cut())
            self._attempt_failed(connection.candidate, error)
        elif connection in self._overdue:
            self._overdue.remove(connection)
            self._spawn(connection.cut())
            is_answer = failure is not None and not failure.is_transport
            self._machine.overdue_ended(moment, fate_of_answer(failure) if failure and is_answer else Fate.DROPPED)
        self._settle()

    def aborted(self, connection: Connection, error: BaseException) -> None:
        """Handles the end of the connection's task by a fault, or because the event loop ends."""
        self._abort(error)
