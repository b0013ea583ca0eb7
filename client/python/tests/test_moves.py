"""Rules of a session whose stream ends or is left, without I/O."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rig import INTERVAL, VALID, Rig, lost, ms, queued, reason

from leasehold_client import LostReason
from leasehold_client._clock import MILLISECOND, wire
from leasehold_client._failure import Failure, from_session
from leasehold_client._lease import LockState
from leasehold_client._machine import Downgrade, Fate, LockSpec, Machine, StreamEnd, fate_of
from leasehold_client.errors import ConnectError, ConnectErrorKind
from leasehold_client.v1 import session_pb2, types_pb2

# Ends of streams.


def test_the_end_of_the_stream_loses_every_lock_and_repeats_every_wait() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.acquire(0, 2)
    rig.acquire(0, 3, wait=0)
    rig.machine.stream_ended(1000 * MILLISECOND, rig.stream, StreamEnd.LEFT)
    assert rig.seen() == ["Unavailable"]
    assert reason(lease, 1000) is LostReason.SESSION_ENDED
    assert rig.connect(1000) == ["open"]
    assert rig.resumes() == []
    assert rig.open(1000) == ["opened", "acquire 2"]


def test_a_grace_suspends_until_the_hold_is_resumed_or_it_is_over() -> None:
    rig = Rig.opened(grace=4000)
    kept = rig.hold(0, 1, b"o")
    rig.machine.stream_ended(1000 * MILLISECOND, rig.stream, StreamEnd.LEFT)
    assert kept.state(1000 * MILLISECOND) is LockState.SUSPENDED
    assert ms(kept, 1000) == 5000
    assert rig.connect(1500) == ["open"]
    [resume] = rig.resumes()
    assert (resume.owner_id, resume.next_owner_id, resume.hold.fencing_token) == (b"o", b"n1", 7)
    assert rig.resume(1600, b"n1") == ["opened"]
    assert kept.state(1600 * MILLISECOND) is LockState.HELD
    assert ms(kept, 1600) == 1500 + VALID
    # It has another owner id now.
    assert rig.release(1600, 0) == ["release n1"]


def test_a_grace_that_is_over_loses_the_hold() -> None:
    rig = Rig.opened(grace=4000)
    lease = rig.hold(0, 1, b"o")
    rig.machine.stream_ended(1000 * MILLISECOND, rig.stream, StreamEnd.LEFT)
    assert rig.alarm() == 1000
    rig.tick(5000)
    assert reason(lease, 5000) is LostReason.SESSION_ENDED


def test_a_stop_keeps_holds_until_their_own_deadlines() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    answer = Failure("UNAVAILABLE", "DRAINING")
    assert rig.machine.stream_ended_by(1000 * MILLISECOND, rig.stream, answer) is StreamEnd.STOPPED
    assert (lease.state(1000 * MILLISECOND), ms(lease, 1000)) == (LockState.HELD, VALID)
    assert rig.machine.is_orphaned(1000 * MILLISECOND)
    assert rig.machine.attempt_limit(1000 * MILLISECOND) == (VALID - 1000) * MILLISECOND // 3
    rig.tick(VALID)
    assert reason(lease, VALID) is LostReason.EXPIRED


def test_a_break_while_the_coordinator_drains_is_no_stop() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.drain(0)
    broke = Failure("UNAVAILABLE", message="Socket closed", is_transport=True)
    assert rig.machine.stream_ended_by(0, rig.stream, broke) is StreamEnd.LEFT
    assert reason(lease, 0) is LostReason.SESSION_ENDED
    again = Rig.opened()
    kept = again.hold(0, 1, b"o")
    again.drain(0)
    assert again.machine.stream_ended_by(0, again.stream, None) is StreamEnd.STOPPED
    assert reason(kept, 0) is None


def test_a_disowned_stream_suspends_whatever_the_grace() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    expired = Failure("UNAUTHENTICATED", "IDENTITY_EXPIRED")
    assert rig.machine.stream_ended_by(0, rig.stream, expired) is StreamEnd.DISOWNED
    assert lease.state(0) is LockState.SUSPENDED
    rig.tick(VALID)
    assert reason(lease, VALID) is LostReason.UNAUTHENTICATED


def test_without_a_connection_waits_end_by_our_own_clock_and_tries_at_once() -> None:
    rig = Rig()
    assert rig.acquire(0, 1, wait=1000) == []
    assert rig.acquire(0, 2, wait=0) == []
    refused = ConnectError.broke("http://a", Failure("UNAVAILABLE", message="refused", is_transport=True))
    rig.machine.connect_failed(0, refused)
    assert rig.seen() == ["Unavailable"]
    assert rig.tick(1000) == ["Unavailable"]
    rig.acquire(1000, 3)
    hopeless = ConnectError(ConnectErrorKind.UNAUTHENTICATED, "http://a", "no", Failure("UNAUTHENTICATED", "UNAUTHENTICATED"))
    rig.machine.connect_failed(1000 * MILLISECOND, hopeless)
    assert rig.seen() == ["Unauthenticated"]


# Moves.


def test_a_drain_moves_with_what_is_held_when_what_was_asked_is_answered() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.acquire(0, 2)
    former = rig.stream
    assert rig.drain(100) == ["draining"]
    assert rig.tick(100) == ["heartbeat 1"]
    assert rig.machine.wants_connection
    # It waits for the answer to the acquire.
    assert rig.connect(200) == []
    assert rig.say(300, 3, stream=former, **queued(b"t")) == ["open"]
    assert [one.owner_id for one in rig.resumes()] == [b"o", b"t"]
    # What the former stream says is withheld from now on.
    assert rig.say(400, stream=former, **lost(b"o", reason=types_pb2.LOST_REASON_RESUMED)) == []
    place = session_pb2.ResumedLock(owner_id=b"n2", position=1)
    hold = session_pb2.ResumedLock(owner_id=b"n1", hold=session_pb2.ResumedHold(fencing_token=7))
    assert rig.open(500, resumed=[hold, place], valid_for=wire(VALID * MILLISECOND)) == ["close", "opened"]
    assert ms(lease, 500) == 300 + VALID
    assert rig.grant(600, rig.resumes()[1].wait.acquire_request_id, ("lock2", b"n2")) == ["acquired"]


def test_heartbeats_come_closer_together_while_the_coordinator_drains() -> None:
    rig = Rig.opened()
    rig.hold(0, 1, b"o")
    rig.drain(100)
    assert [rig.tick(moment) for moment in (100, 2099, 2100)] == [["heartbeat 1"], [], ["heartbeat 2"]]


def test_a_place_that_came_to_a_grant_is_a_hold_and_a_refused_one_is_asked_for_anew() -> None:
    rig = Rig.opened()
    rig.acquire(0, 1)
    rig.acquire(0, 2)
    rig.acquire(0, 3)
    for request, ticket in ((2, b"t"), (3, b"u"), (4, b"v")):
        rig.say(0, request, **queued(ticket))
    rig.drain(0)
    assert rig.connect(0) == ["open"]
    granted = session_pb2.ResumedLock(name="lock1", owner_id=b"n1", hold=session_pb2.ResumedHold(fencing_token=9))
    refused = session_pb2.LostLock(owner_id=b"n2", reason=types_pb2.LOST_REASON_EXPIRED)
    forced = session_pb2.LostLock(owner_id=b"n3", reason=types_pb2.LOST_REASON_FORCED)
    seen = rig.open(0, resumed=[granted], refused=[refused, forced], valid_for=wire(VALID * MILLISECOND))
    assert seen == ["acquired", "ForceReleased", "close", "opened", "acquire 5"]
    assert rig.granted[0].lease.token == 9


def test_an_attempt_that_declines_leaves_all_as_it_was() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    former = rig.stream
    rig.drain(0)
    rig.connect(0)
    rig.say(0, stream=former, **lost(b"o", reason=types_pb2.LOST_REASON_RESUMED))
    assert reason(lease, 0) is None
    rig.machine.attempt_failed(0, Fate.DECLINED)
    rig.seen()
    # What it withheld counts now: another client resumed it.
    assert reason(lease, 0) is LostReason.RESUMED


def test_tried_ids_are_named_to_the_next_coordinator_and_all_are_released() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    former = rig.stream
    rig.drain(0)
    rig.connect(0)
    rig.machine.attempt_failed(0, Fate.KEPT)
    # The former stream is not heard any more, but keeps what has not been moved.
    rig.say(0, stream=former, **lost(b"o", reason=types_pb2.LOST_REASON_RESUMED))
    assert reason(lease, 0) is None
    rig.connect(100)
    [resume] = rig.resumes()
    assert (resume.owner_id, list(resume.tried_owner_ids), resume.next_owner_id) == (b"o", [b"n1"], b"n2")
    rig.machine.attempt_failed(100 * MILLISECOND, Fate.KEPT)
    rig.release(200, 0)
    rig.connect(200)
    assert rig.resumes() == []
    # It is given back under each id that it may have.
    seen = rig.open(300)
    assert seen[-1] == "release o"
    for owner in (b"n1", b"n2"):
        nothing: dict[str, Any] = {"released": session_pb2.SessionReleased()}
        assert rig.say(300, rig.sent[-1][1].request_id, **nothing) == [f"release {owner.decode()}"]
    assert rig.say(300, rig.sent[-1][1].request_id, released=session_pb2.SessionReleased()) == ["done None"]


@pytest.mark.parametrize("grace", [0, 4000])
def test_an_attempt_whose_end_the_coordinator_may_have_heard_counts_as_the_end_of_the_stream(grace: int) -> None:
    rig = Rig.opened(grace)
    lease = rig.hold(0, 1, b"o")
    rig.drain(0)
    rig.connect(0)
    rig.machine.attempt_failed(0, Fate.DROPPED)
    if grace:
        assert lease.state(0) is LockState.SUSPENDED
    else:
        assert reason(lease, 0) is LostReason.SESSION_ENDED


# Moves that are optional: the coordinator goes on serving.


def test_a_session_that_is_asked_to_move_moves_with_holds_and_places() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    former = rig.stream
    # The program hears nothing of it, and heartbeats come no faster.
    assert rig.ask_to_move(100) == []
    assert rig.tick(100) == []
    assert rig.alarm() == INTERVAL
    assert not rig.machine.is_draining
    assert rig.machine.wants_connection
    assert rig.acquire(100, 2) == ["acquire 3"]
    # Requests in flight are answered before another stream is asked, and new ones wait for that stream: a busy one moves too.
    assert rig.release(150, 0) == ["release o"]
    rig.acquire(160, 3)
    rig.grant(170, 5, ("lock3", b"p"))
    assert rig.connect(200) == []
    assert rig.acquire(210, 4) == []
    assert rig.say(220, 4, stream=former, released=session_pb2.SessionReleased(released=True)) == ["done None"]
    assert rig.say(230, 3, stream=former, **queued(b"t")) == ["open"]
    assert [one.owner_id for one in rig.resumes()] == [b"p", b"t"]
    assert reason(lease, 230) is LostReason.RELEASED
    place = session_pb2.ResumedLock(owner_id=b"n2", position=1)
    hold = session_pb2.ResumedLock(owner_id=b"n1", hold=session_pb2.ResumedHold(fencing_token=7))
    seen = rig.open(300, resumed=[hold, place], valid_for=wire(VALID * MILLISECOND))
    assert seen == ["close", "opened", "acquire 3"]
    assert not rig.machine.wants_connection
    assert reason(rig.granted[1].lease, 300) is None


def test_a_session_that_has_nothing_moves_too_when_asked() -> None:
    rig = Rig.opened()
    assert rig.ask_to_move(0) == []
    assert rig.machine.wants_connection and not rig.machine.is_closing
    assert rig.connect(0) == ["open"]
    assert rig.open(0) == ["close", "opened"]


def test_acquires_are_put_off_from_the_connection_on_and_sent_when_it_comes_to_nothing() -> None:
    rig = Rig.opened()
    rig.hold(0, 1, b"o")
    rig.ask_to_move(0)
    assert rig.acquire(0, 2) == ["acquire 3"]
    assert rig.connect(0) == []
    assert rig.acquire(0, 3) == []
    rig.machine.attempt_failed(0, Fate.DECLINED)
    assert rig.seen() == ["acquire 4"]
    # One that declines after it was asked changes nothing either.
    former = rig.stream - 1
    for request in (3, 4):
        rig.grant(0, request, (f"lock{request - 1}", b"p%d" % request), stream=former)
    assert rig.connect(0) == ["open"]
    assert rig.acquire(0, 4) == []
    assert rig.say(0, stream=former, **lost(b"p3", reason=types_pb2.LOST_REASON_RESUMED)) == []
    rig.machine.attempt_failed(0, Fate.DECLINED)
    assert rig.seen() == ["acquire 5"]
    # The former stream is heard again.
    assert reason(rig.granted[1].lease, 0) is LostReason.RESUMED


def test_a_session_that_cannot_move_stays_and_tries_again_ten_seconds_later() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    former = rig.stream
    rig.ask_to_move(1000)
    rig.acquire(1000, 2)
    rig.connect(1000)
    assert rig.acquire(1000, 3) == []
    rig.machine.attempt_failed(1000 * MILLISECOND, Fate.DECLINED)
    assert rig.machine.stays(1000 * MILLISECOND)
    assert rig.seen() == ["acquire 4"]
    assert not rig.machine.wants_connection
    rig.stream = former
    rig.ask_to_move(2000)
    for moment in range(3000, 11_000, 1000):
        rig.tick(moment)
        rig.ack(moment, moment // 3000)
        assert not rig.machine.wants_connection
    assert rig.alarm() == 11_000
    rig.tick(11_000)
    assert rig.machine.wants_connection
    assert rig.acquire(11_000, 4)[0].startswith("acquire")
    assert reason(lease, 11_000) is None


def test_a_coordinator_that_goes_away_is_left_whatever_it_asked_before() -> None:
    rig = Rig.opened()
    rig.hold(0, 1, b"o")
    rig.ask_to_move(0)
    assert rig.machine.stays(0)
    assert rig.drain(0) == ["draining"]
    assert rig.tick(0) == ["heartbeat 1"]
    assert rig.machine.wants_connection
    assert rig.acquire(0, 2) == []
    assert not rig.machine.stays(0)
    assert rig.machine.stream_ended_by(0, rig.stream, None) is StreamEnd.STOPPED


def test_silence_counts_although_the_session_stays() -> None:
    rig = Rig.opened()
    rig.ask_to_move(0)
    assert rig.machine.stays(0)
    rig.tick(5000)
    assert rig.machine.wants_connection and not rig.machine.stays(5000 * MILLISECOND)
    assert rig.acquire(5000, 1) == []


def test_a_session_that_was_asked_to_move_is_not_one_whose_coordinator_stops() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.ask_to_move(0)
    cancelled = session_pb2.SessionNotGranted(outcome=types_pb2.ACQUIRE_OUTCOME_CANCELLED)
    rig.acquire(0, 2)
    assert rig.say(0, 3, not_granted=cancelled) == ["Refused"]
    assert rig.machine.stream_ended_by(0, rig.stream, None) is StreamEnd.LEFT
    assert reason(lease, 0) is LostReason.SESSION_ENDED


def test_outdated_credentials_put_acquires_off_from_the_connection_on() -> None:
    rig = Rig.opened()
    rig.hold(0, 1, b"o")
    rig.machine.outdated()
    assert rig.machine.wants_connection
    assert rig.acquire(0, 2) == ["acquire 3"]
    rig.connect(0)
    assert rig.acquire(0, 3) == []
    rig.machine.attempt_failed(0, Fate.DECLINED)
    assert rig.machine.stays(0)
    assert rig.seen() == ["acquire 4"]
    # The next attempt is the driver's, which looks at the files.
    assert rig.alarm() == INTERVAL and not rig.machine.wants_connection


TABLE = json.loads((Path(__file__).parents[3] / "tests" / "clients" / "moves.json").read_text())


@pytest.mark.parametrize("grace", [0, 7000])
@pytest.mark.parametrize("row", TABLE["rows"], ids=" ".join)
def test_a_guard_through_a_move(row: list[str], grace: int) -> None:
    client, on, what, without, with_grace = row
    move = Move(grace, client)
    move.hear(on, *what.split())
    end, state = reason(move.lease, 50), move.lease.state(50 * MILLISECOND).name
    assert (end.name if end else state).upper() == (with_grace if grace else without).upper()


class Move:
    """A session in a state of the table."""

    def __init__(self, grace: int, client: str) -> None:
        """Makes it hold a lock, and brings it into this state."""
        self.rig = Rig.opened(grace)
        self.lease = self.rig.hold(0, 1, b"o")
        self.streams = {"old": self.rig.stream}
        self.ids = {"confirmed": b"o", "unknown": b"u"}
        if client == "open":
            return
        self.rig.drain(10)
        self.ask(20)
        if client == "asked":
            return
        self.rig.machine.attempt_failed(30 * MILLISECOND, Fate.KEPT)
        self.ids["tried"] = self.ids["next"]
        if client == "again":
            self.ask(40)
        elif client != "deaf":
            broke = Failure("UNAVAILABLE", is_transport=True) if client == "broken" else None
            self.rig.machine.stream_ended_by(40 * MILLISECOND, self.streams["old"], broke)

    def ask(self, now: int) -> None:
        """Asks the next stream."""
        self.rig.connect(now)
        self.streams["next"] = self.rig.stream
        self.ids["next"] = self.rig.resumes()[0].next_owner_id

    def hear(self, on: str, what: str, *words: str) -> None:
        """Has a stream say this."""

        def lost(why: str, which: str) -> list[session_pb2.LostLock]:
            return [session_pb2.LostLock(name="lock1", owner_id=self.ids[which], reason=f"LOST_REASON_{why}")]

        def answer(why: str) -> session_pb2.SessionFailure:
            return session_pb2.SessionFailure(code=TABLE["codes"][why], reason=why)

        match what:
            case "lost":
                self.say(on, lost=session_pb2.SessionLost(locks=lost(*words)))
            case "refused":
                self.say(on, opened=session_pb2.SessionOpened(refused=lost(*words), ttl=wire(10_000 * MILLISECOND)))
            case "opened":
                self.say(on, opened=session_pb2.SessionOpened(resumed=[session_pb2.ResumedLock(owner_id=self.ids["tried"])]))
            case "error":
                self.say(on, error=answer(*words))
            case "closed":
                self.say(on, closed=session_pb2.SessionClosed())
            case "end":
                self.end(on, from_session(answer(*words)))
            case "break":
                self.end(on, Failure("UNAVAILABLE", is_transport=True))
            case "plain":
                self.end(on, None)
            case _:
                raise ValueError(what)

    def say(self, on: str, **response: Any) -> None:
        """Has a stream say this."""
        if on == "overdue":
            self.rig.machine.overdue_message(50 * MILLISECOND, session_pb2.SessionResponse(request_id=1, **response))
        else:
            self.rig.say(50, 1, self.streams[on], **response)

    def end(self, on: str, failure: Failure | None) -> None:
        """Ends a stream, plainly or with this failure."""
        now = 50 * MILLISECOND
        fate = fate_of(ConnectError.broke("http://a", failure) if failure else ConnectError.ended("http://a"))
        match on:
            case "old":
                self.rig.machine.stream_ended_by(now, self.streams[on], failure)
            case "next":
                self.rig.machine.attempt_failed(now, fate)
            case "overdue":
                self.rig.machine.overdue_ended(now, fate)
            case _:
                raise ValueError(on)


def test_a_hold_that_the_next_coordinator_refuses_or_forgets_is_lost() -> None:
    rig = Rig.opened(grace=4000)
    first, second = rig.hold(0, 1, b"o"), rig.hold(0, 2, b"p")
    rig.machine.stream_ended(0, rig.stream, StreamEnd.LEFT)
    rig.connect(0)
    refused = session_pb2.LostLock(owner_id=b"n1", reason=types_pb2.LOST_REASON_TAKEN)
    rig.open(0, refused=[refused])
    assert (reason(first, 0), reason(second, 0)) == (LostReason.TAKEN, LostReason.SESSION_ENDED)


def test_a_release_that_was_not_answered_is_sent_on_the_next_stream_and_finds_nothing() -> None:
    rig = Rig.opened(grace=4000)
    rig.hold(0, 1, b"o")
    assert rig.release(0, 0) == ["release o"]
    rig.machine.stream_ended(0, rig.stream, StreamEnd.LEFT)
    rig.connect(0)
    assert rig.resumes() == []
    assert rig.open(0) == ["opened", "release o"]
    assert rig.say(0, 2, released=session_pb2.SessionReleased()) == ["done None"]


def test_more_than_a_mebibyte_is_resumed_in_parts() -> None:
    rig = Rig.opened(grace=4000)
    name = "x" * 500
    for number in range(1, 2001):
        rig.acquire(0, number, locks=(LockSpec(f"{name}{number}"),))
        rig.grant(0, number + 1, (f"{name}{number}", b"o%d" % number))
    rig.machine.stream_ended(0, rig.stream, StreamEnd.LEFT)
    assert rig.connect(0) == ["open", "open"]
    opens = [request.open for _, request in rig.sent[-2:]]
    assert [open.more for open in opens] == [True, False]
    assert all(open.ByteSize() <= 1 << 20 for open in opens)
    assert sum(len(open.resume) for open in opens) == 2000
    ids = [one.next_owner_id for open in opens for one in open.resume]
    assert rig.resume(0, *ids[:1000], more=True) == []
    assert rig.resume(0, *ids[1000:]) == ["opened"]
    assert all(reason(one.lease, 0) is None for one in rig.granted)


# Close.


def test_closing_loses_holds_first_and_fails_waits() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.acquire(0, 2)
    rig.machine.close(0)
    assert reason(lease, 0) is LostReason.SESSION_CLOSED
    assert rig.seen() == ["SessionClosed", "close"]
    assert rig.say(0, closed=session_pb2.SessionClosed()) == ["ended", "hang up"]
    assert rig.acquire(0, 3) == ["SessionClosed"]


def test_a_close_that_is_not_answered_cuts_the_stream() -> None:
    rig = Rig.opened()
    rig.machine.close(0)
    rig.seen()
    assert rig.alarm() == 2000
    assert rig.tick(2000) == ["ended", "hang up"]


def test_closing_on_the_way_closes_both_streams() -> None:
    rig = Rig.opened()
    rig.hold(0, 1, b"o")
    rig.drain(0)
    rig.connect(0)
    rig.machine.close(0)
    assert rig.seen() == ["close", "leave", "close"]


def test_only_what_is_said_before_anything_is_done_declines_a_resume() -> None:
    def fate(code: str, why: str = "", is_transport: bool = False) -> Fate:
        return fate_of(ConnectError.broke("http://a", Failure(code, why, is_transport=is_transport)))

    assert fate("UNAVAILABLE", "DRAINING") is Fate.DECLINED
    assert fate("UNAUTHENTICATED") is Fate.DECLINED
    assert fate("UNAVAILABLE", "STORE_INDETERMINATE") is Fate.KEPT
    assert fate("ABORTED", "SOMETHING_NEW") is Fate.KEPT
    assert fate("ABORTED", "SESSION_ENDED") is Fate.ENDED
    assert fate("UNAVAILABLE", is_transport=True) is Fate.DROPPED
    # C core may make these of a broken stream.
    assert fate("RESOURCE_EXHAUSTED") is Fate.DROPPED
    assert fate_of(ConnectError.timed_out("http://a", 1)) is Fate.KEPT
    assert fate_of(ConnectError.ended("http://a")) is Fate.DROPPED


# Messages that can't be read or handled.


def test_a_stream_that_a_request_broke_fails_what_was_not_answered_and_repeats_nothing_of_it() -> None:
    rig = Rig.opened(grace=4000)
    lease = rig.hold(0, 1, b"o")
    rig.acquire(0, 2)
    rig.say(0, 3, **queued(b"t"))
    rig.acquire(0, 3)
    rig.change(0, 0, Downgrade())
    failure = Failure("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE", "too large")
    assert rig.machine.stream_ended_by(1000 * MILLISECOND, rig.stream, failure) is StreamEnd.LEFT
    assert [one.split()[0] for one in rig.seen()] == ["LimitReached", "done"]
    assert lease.state(1000 * MILLISECOND) is LockState.SUSPENDED
    assert rig.connect(1500) == ["open"]
    # The one that had a place goes on.
    assert rig.resume(1600, b"n1") == ["opened", "acquire 3"]


def test_a_fault_while_an_answer_is_handled_costs_the_request_that_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.acquire(0, 2)
    with monkeypatch.context() as broken:
        broken.setattr(Machine, "hold", lambda *_: 1 / 0)
        assert rig.grant(0, 3, ("lock2", b"p")) == ["release p", "Refused"]
    rig.release(0, 0)
    with monkeypatch.context() as broken:
        broken.setattr(Machine, "released", lambda *_: 1 / 0)
        [seen] = rig.say(0, 5, released=session_pb2.SessionReleased(released=True))
        assert seen.startswith("done the coordinator's answer")
    assert rig.hold(0, 3, b"q").state(0) is LockState.HELD
    assert reason(lease, 0) is LostReason.RELEASED


def test_a_drain_that_crosses_a_move_is_heard() -> None:
    for keeps_serving, end in (False, None), (True, LostReason.SESSION_ENDED):
        rig = Rig.opened()
        lease = rig.hold(0, 1, b"o")
        former = rig.stream
        rig.ask_to_move(0)
        rig.connect(0)
        draining = session_pb2.SessionDraining(deadline=wire(5000 * MILLISECOND), keeps_serving=keeps_serving)
        rig.say(0, stream=former, draining=draining)
        rig.machine.stream_ended_by(0, former, None)
        assert reason(lease, 0) is end
