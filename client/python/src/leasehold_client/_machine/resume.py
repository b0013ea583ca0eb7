"""Resume of the session's holds and waits on another stream, and the answer to it."""

from __future__ import annotations

import logging

from .._clock import from_wire, wire
from .._failure import Failure
from .._lease import reason_from_wire
from ..errors import ForceReleased, LostReason
from ..v1 import session_pb2
from .fate import Fate
from .moving import Moving
from .output import Opened, Send
from .pending import Release, Waiting
from .stream import AcquireInFlight, AskedWait, Plain, Stream

log = logging.getLogger("leasehold_client")

LONGEST = 1 << 20
"""Most bytes of `resume` in one message."""

Outcomes = dict[int, LostReason | None]
"""Outcome of each hold that was to be resumed: the reason for which it was not, if so."""


class Resuming(Moving):
    """Part of the machine for resumes."""

    def send_on(self, stream: Stream, request: session_pb2.SessionRequest) -> None:
        """Sends a request that has its number."""
        self.outputs.append(Send(stream.number, request))

    def opens(self, now: int, stream: Stream) -> list[session_pb2.SessionOpen]:
        """Returns the messages that open the session on the next stream."""
        first = session_pb2.SessionOpen()
        first.CopyFrom(self.open)
        resumes = []
        for owned, hold in self.holds.resumable(now):
            resume = stream.resume(owned.name, owned.ids, self.draw(), owned.number)
            resume.hold.CopyFrom(hold)
            resumes.append(resume)
            # Another coordinator's default may be shorter, and must not end what its users still count on.
            if self.ttl is not None:
                first.ttl.CopyFrom(wire(self.ttl))
        for number, waiting in self.waiting.items():
            if waiting.ticket is None:
                continue
            request_id = stream.number_request(AcquireInFlight(number))
            asked = AskedWait(number, request_id, waiting.spec.actor)
            resume = stream.resume(waiting.spec.label, waiting.ticket, self.draw(), asked)
            resume.wait.acquire_request_id = request_id
            remaining = waiting.remaining(now)
            if remaining is not None:
                resume.wait.wait.CopyFrom(wire(remaining))
            resumes.append(resume)
        self._count_releases(stream)
        opens, size = [first], 0
        for resume in resumes:
            # Generous, for what is around it.
            length = len(resume.name.encode()) + 20 * (2 + len(resume.tried_owner_ids)) + 64
            size += length
            if size > LONGEST:
                size = length
                opens.append(session_pb2.SessionOpen())
            opens[-1].resume.append(resume)
        for open in opens[:-1]:
            open.more = True
        return opens

    def _count_releases(self, stream: Stream) -> None:
        """Marks the releases that the counts in the request take into account already."""
        resumed = {asked for asked in stream.resuming.values() if isinstance(asked, int)}
        in_flight = self.stream.in_flight.values() if self.stream else ()
        releases = [request for request in in_flight if isinstance(request, Release)]
        for release in releases + self.unsent_releases:
            release.counted = release.owned.number in resumed

    def settle_attempt(self, fate: Fate) -> None:
        """Ends an attempt to resume that had no result that this session knows of."""
        for release in self.unsent_releases:
            release.counted = False
        ids = [*self.holds.all_ids(), *(release.owned.ids for release in self.unsent_releases)]
        ids += [waiting.ticket for waiting in self.waiting.values() if waiting.ticket]
        for one in ids:
            if fate is Fate.DECLINED:
                one.declined()
            else:
                one.unanswered()

    def opened_in_part(self, now: int, request_id: int, part: session_pb2.SessionOpened) -> None:
        """Adds a part of the answer to `open`."""
        stream = self.next
        if stream is None:
            return
        if stream.opening is not None:
            stream.opening.resumed.extend(part.resumed)
            stream.opening.refused.extend(part.refused)
        elif stream.in_flight.get(request_id) is Plain.OPEN:
            del stream.in_flight[request_id]
            stream.opening = session_pb2.SessionOpened()
            stream.opening.CopyFrom(part)
        else:
            return
        if not part.more:
            opened, stream.opening = stream.opening, None
            self._opened(now, stream, opened)

    def _opened(self, now: int, stream: Stream, opened: session_pb2.SessionOpened) -> None:
        """Makes the next stream the session's own, with what it resumed. It replaces the former one."""
        former, self.stream, self.next = self.stream, stream, None
        # Each stream numbers its requests anew: no number of the former may be taken for one of this one.
        for waiting in self.waiting.values():
            waiting.unsend()
        info = stream.open(now, opened)
        self.ttl = from_wire(opened.ttl)
        resuming, stream.resuming = stream.resuming, {}
        sent_at = stream.heartbeats.began
        deadline = sent_at + from_wire(opened.valid_for)
        known = set(self.holds.numbers())
        outcomes = self._resumed(now, sent_at, deadline, resuming, opened)
        known -= outcomes.keys()
        for number in sorted(known):
            # Lost, but it may be with another stream that did not answer: then it is still to be given back.
            if not self.holds.is_in_doubt(number):
                self.holds.forget(number, now, LostReason.SESSION_ENDED)
        if former:
            self.leave(former, bool(known))
        self.resume_until = self.stopped_until = self.unreachable = None
        self.outputs.append(Opened(stream.number, info))
        self._settle_unsent(outcomes, moved=former is not None)
        self.send_unsent(now)
        self.wake_for_waits()

    def _resumed(
        self,
        now: int,
        sent_at: int,
        deadline: int,
        resuming: dict[bytes, int | AskedWait],
        opened: session_pb2.SessionOpened,
    ) -> Outcomes:
        """Settles what the new stream was asked to resume, with the `open` that was sent then and is good until the deadline."""
        outcomes: Outcomes = {}
        answers: dict[bytes, session_pb2.ResumedLock | LostReason] = {
            lock.owner_id: reason_from_wire(lock.reason) for lock in opened.refused
        }
        answers.update({lock.owner_id: lock for lock in opened.resumed})
        for next_id, asked in resuming.items():
            # What a coordinator says nothing of has ended with the stream before.
            answer = answers.pop(next_id, LostReason.SESSION_ENDED)
            if isinstance(asked, int):
                if isinstance(answer, LostReason):
                    outcomes[asked] = answer
                    self.holds.forget(asked, now, answer)
                else:
                    outcomes[asked] = None
                    ends_at = sent_at + from_wire(answer.ends_in) if answer.HasField("ends_in") else None
                    self.holds.resumed(asked, now, deadline, ends_at)
            elif not isinstance(answer, LostReason):
                self._resumed_wait(now, asked, answer, sent_at, deadline)
            else:
                self._answered(asked.request_id)
                if answer is not LostReason.FORCED:
                    self.ask_again(asked.acquire)
                elif waiting := self.waiting.pop(asked.acquire, None):
                    failure = Failure("ABORTED", "FORCE_RELEASED", "an operator ended the wait")
                    self.fail(waiting, ForceReleased(waiting.spec.label, failure))
        if answers:
            log.debug("a resume was answered that was not asked for")
        return outcomes

    def _answered(self, request_id: int) -> None:
        if self.stream:
            self.stream.in_flight.pop(request_id, None)

    def hold(
        self,
        waiting: Waiting,
        locks: list[session_pb2.GrantedLock],
        bounds: dict[bytes, int],
        deadline: int,
    ) -> None:
        """Hands the granted locks to the caller. They are good until the deadline, or until their bounds."""
        raise NotImplementedError

    def give_back(self, locks: list[session_pb2.GrantedLock]) -> None:
        """Releases granted locks that nobody takes."""
        raise NotImplementedError

    def _resumed_wait(self, now: int, asked: AskedWait, lock: session_pb2.ResumedLock, sent_at: int, deadline: int) -> None:
        waiting = self.waiting.get(asked.acquire)
        if lock.WhichOneof("what") == "hold":
            # It has come to a grant.
            self._answered(asked.request_id)
            granted = session_pb2.GrantedLock(
                name=lock.name,
                owner_id=lock.owner_id,
                fencing_token=lock.hold.fencing_token,
                hold_count=max(1, lock.hold.hold_count),
                permits=lock.permits,
            )
            bounds = {lock.owner_id: sent_at + from_wire(lock.ends_in)} if lock.HasField("ends_in") else {}
            if waiting and now < deadline:
                del self.waiting[asked.acquire]
                self.hold(waiting, [granted], bounds, deadline)
            else:
                self.give_back([granted])
                self.ask_again(asked.acquire)
        elif waiting:
            waiting.sent_as, waiting.queued = asked.request_id, True
            if waiting.ticket:
                waiting.ticket.resumed()
        elif self.stream:
            # Nobody waits for it any more.
            self.outputs.append(self.stream.cancel(asked.request_id, asked.actor))

    def _settle_unsent(self, outcomes: Outcomes, *, moved: bool) -> None:
        """Settles the releases from before the stream opened: the resume carried them out, or they are still to be sent."""
        releases, self.unsent_releases = self.unsent_releases, []
        for release in releases:
            number = release.owned.number
            if number in outcomes:
                lost = outcomes[number]
                if release.counted:
                    self.reply(release.reply, lost)
                    continue
                if lost is None:
                    # It is known by what is its own now.
                    release.owned.ids.resumed()
            else:
                # It was not to be taken over: the end of the stream before gives it back too, whichever is first.
                release.again |= moved
            release.counted, release.index = False, 0
            self.unsent_releases.append(release)
