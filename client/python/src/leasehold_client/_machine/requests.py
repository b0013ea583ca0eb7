"""Releases and changes of holds. The session repeats a release that the coordinator could not serve.

Of a hold that was granted several times, every release but the last only counts down, which no coordinator needs a store for: it
can't fail. So what is repeated is the last release of a hold, done already or not, and takes nothing from anybody.
"""

from __future__ import annotations

import logging

from .._failure import Failure
from ..errors import LostReason
from ..v1 import session_pb2
from .output import UNCONFIRMED, HoldDone, HoldReply
from .pending import RETRY_MAX, ChangeRequest, Release
from .spec import Change, Downgrade, Value
from .stream import AcquireInFlight
from .waits import Waits

log = logging.getLogger("leasehold_client")


class Requests(Waits):
    """Part of the machine for releases and changes."""

    def expire(self, now: int) -> None:
        """Ends the holds whose deadline has passed.

        Every input begins with this: an answer that comes after a deadline must find the lock lost.
        """
        for owned in self.holds.expire(now):
            log.warning("lock %r is lost, and given back", owned.name)
            self.send_release(Release(owned, expired=True))

    def begin_release(self, now: int, key: int, trace: str, reply: HoldReply | None) -> None:
        """Handles the release of a grant: once for each, even a lost one."""
        number = self.replies.add(now, reply) if reply else None
        owned = self.holds.remove(key)
        if isinstance(owned, LostReason):
            return self.reply(number, owned)
        self.send_release(Release(owned, number, trace))
        self.leave_if_drained(now)

    def send_release(self, release: Release) -> None:
        """Sends a release. A hold that was granted three times is released three times."""
        if self.stream is None or not self.takes_changes:
            return self.put_off(release)
        owner_id = release.owned.ids.nth(release.index)
        if owner_id is None:
            return
        message = session_pb2.SessionRelease(name=release.owned.name, owner_id=owner_id, expired=release.expired)
        release.expired = False
        self.outputs.append(self.stream.send(session_pb2.SessionRequest(release=message), release, release.trace))

    def released(self, now: int, release: Release, released: bool) -> None:
        """Handles the answer to a release."""
        if not released and release.owned.ids.nth(release.index + 1) is not None:
            release.index += 1
            release.again = True
            return self.send_release(release)
        if released or release.again:
            self.reply(release.reply, None)
        else:
            # Nor is it held for other grants of the same hold.
            self.holds.forget(release.owned.number, now, LostReason.UNKNOWN)
            self.reply(release.reply, LostReason.UNKNOWN)
        self.leave_if_drained(now)

    def release_failed(self, now: int, release: Release, failure: Failure) -> None:
        """Handles the refusal of a release."""
        reply, release.reply = release.reply, None
        # Nobody else would give it back, and the coordinator goes on renewing it.
        if failure.is_retryable:
            release.retry_at = now + release.retry_in
            release.retry_in = min(release.retry_in * 2, RETRY_MAX)
            self.unsent_releases.append(release)
        else:
            log.warning("a release of lock %r was refused: %s", release.owned.name, failure)
        self.reply(reply, failure)

    def repeat_releases(self, now: int) -> None:
        """Sends the releases that are to be repeated now."""
        due = [one for one in self.unsent_releases if one.retry_at is not None and one.retry_at <= now]
        if due:
            self.unsent_releases = [one for one in self.unsent_releases if one.retry_at is None or one.retry_at > now]
        for release in due:
            release.retry_at = None
            self.send_release(release)

    def leave_if_drained(self, now: int) -> None:
        """Closes the session at a coordinator that goes away, unless there is something that could move."""
        stream = self.stream
        if stream is None or stream.draining is None or stream.closing is not None or not stream.is_heard:
            return
        busy = (
            any(isinstance(request, AcquireInFlight) for request in stream.in_flight.values())
            or self.is_unsettled
            or bool(self.unsent_releases)
            or not self.holds.is_empty()
        )
        if self.next is None and not busy:
            self.send_close(now)

    def send_close(self, now: int) -> None:
        """Closes the session on its stream."""
        raise NotImplementedError

    def begin_change(self, now: int, key: int, change: Change, trace: str, reply: HoldReply) -> None:
        """Handles the request to change a hold."""
        self.send_change(now, ChangeRequest(key, change, trace, self.replies.add(now, reply)))

    def send_change(self, now: int, request: ChangeRequest) -> None:
        """Asks for a change, now or on the next stream."""
        owned = self.holds.owned(request.key, now)
        if isinstance(owned, LostReason):
            return self.reply(request.reply, owned)
        if self.stream is None or not self.takes_changes:
            # For the stream that takes it over, if there is one in time.
            self.unsent_changes.append(request)
            return
        message, name, owner_id = session_pb2.SessionRequest(), owned.name, owned.ids.confirmed
        if isinstance(request.change, Value):
            value = request.change.value
            message.set_value.CopyFrom(session_pb2.SessionSetValue(name=name, owner_id=owner_id, value=value))
        elif isinstance(request.change, Downgrade):
            message.downgrade.CopyFrom(session_pb2.SessionDowngrade(name=name, owner_id=owner_id))
        else:
            permits = request.change.permits
            message.reduce.CopyFrom(session_pb2.SessionReduce(name=name, owner_id=owner_id, permits=permits))
        self.outputs.append(self.stream.send(message, request, request.trace))

    def changed(self, now: int, request: ChangeRequest, changed: bool) -> None:
        """Handles the answer to a change."""
        self.reply(request.reply, None if changed else self.holds.gone(request.key, now, LostReason.UNKNOWN))

    def end_overdue_replies(self, now: int) -> None:
        """Tells callers that have waited for too long that their request is not confirmed."""
        while reply := self.replies.take_due(now):
            self.outputs.append(HoldDone(reply, UNCONFIRMED))
