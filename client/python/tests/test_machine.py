"""Rules of a session without I/O: every test gives the inputs with their times, and checks all outputs."""

from __future__ import annotations

from typing import Any

import pytest
from rig import INTERVAL, TTL, VALID, Rig, lost

from leasehold import LostReason
from leasehold._clock import MILLISECOND, wire
from leasehold._failure import Failure
from leasehold._lease import Lease, LockState
from leasehold._machine import Downgrade, Fate, LockSpec, Reduce, StreamEnd, Value, fate_of
from leasehold.errors import ConnectError, ConnectErrorKind
from leasehold.v1 import session_pb2, types_pb2


def reason(lease: Lease, now: int) -> LostReason | None:
    """Returns why a lease is lost."""
    return lease.lost(now * MILLISECOND)


def ms(lease: Lease, now: int) -> int | None:
    """Returns the deadline of a lease."""
    deadline = lease.deadline(now * MILLISECOND)
    return None if deadline is None else deadline // MILLISECOND


def failure(code: int, why: str = "") -> dict[str, Any]:
    """Returns a refusal."""
    return {"error": session_pb2.SessionFailure(code=code, reason=why)}


def queued(ticket: bytes) -> dict[str, Any]:
    """Returns the message of a place in a queue."""
    return {"queued": session_pb2.SessionQueued(position=1, ticket=ticket)}


# Deadlines.


def test_a_deadline_counts_from_when_the_acknowledged_heartbeat_was_sent() -> None:
    rig = Rig.opened()
    assert rig.tick(3000) == ["heartbeat 1"]
    lease = rig.hold(4000, 1, b"o", acked=0)
    assert ms(lease, 4000) == VALID
    rig.ack(5000, 1)
    assert ms(lease, 5000) == 3000 + VALID


def test_an_answer_never_shortens_a_deadline_and_an_unknown_one_changes_nothing() -> None:
    rig = Rig.opened()
    rig.tick(3000)
    lease = rig.hold(3500, 1, b"o", acked=1)
    for sequence, valid_for in [(0, VALID), (1, 100), (77, VALID)]:
        rig.ack(5000, sequence, valid_for)
        assert ms(lease, 5000) == 3000 + VALID
    # The same heartbeat, acknowledged again and unasked, may lengthen.
    rig.ack(5000, 1, VALID + 50)
    assert ms(lease, 5000) == 3000 + VALID + 50


def test_a_hold_is_lost_at_its_deadline_although_an_answer_comes_a_moment_later() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    rig.tick(3000)
    assert rig.ack(VALID, 1) == ["release o"]
    assert reason(lease, VALID) is LostReason.EXPIRED
    assert rig.alarm() is not None


def test_a_hold_with_a_lock_delay_is_given_back_when_that_has_passed() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o", lock_delay=500)
    for moment in (3000, 6000, 9000):
        rig.tick(moment)
    rig.say(9000, heartbeat=session_pb2.SessionHeartbeatAck(acked_heartbeat=1, valid_for=wire(1)))
    assert rig.tick(VALID) == []
    assert reason(lease, VALID) is LostReason.EXPIRED
    assert rig.tick(VALID + 500) == ["release o"]


def test_a_bound_ends_a_hold_whatever_is_answered() -> None:
    rig = Rig.opened()
    rig.acquire(0, 1)
    bound = session_pb2.BoundedLock(owner_id=b"o", ends_in=wire(4000 * MILLISECOND))
    rig.grant(0, 2, ("lock1", b"o"), bounded=[bound])
    lease = rig.granted[0].lease
    rig.tick(3000)
    rig.ack(3100, 1)
    assert ms(lease, 3100) == 4000
    assert rig.tick(4000) == ["release o"]
    assert reason(lease, 4000) is LostReason.MAX_HOLD


def test_a_grant_that_names_an_unknown_heartbeat_is_given_back_and_asked_for_again() -> None:
    rig = Rig.opened()
    assert rig.acquire(0, 1) == ["acquire 2"]
    assert rig.grant(0, 2, ("lock1", b"o"), acked=9) == ["release o", "acquire 4"]
    assert rig.acquire(0, 2, wait=0) == ["acquire 5 wait 0"]
    assert rig.grant(0, 5, ("lock2", b"p"), acked=9) == ["release p", "Unavailable"]


# Heartbeats and rest.


def test_heartbeats_go_out_at_their_interval_and_silence_moves_the_session() -> None:
    rig = Rig.opened()
    assert rig.alarm() == INTERVAL
    assert rig.tick(INTERVAL) == ["heartbeat 1"]
    assert rig.tick(INTERVAL + 1) == []
    rig.tick(TTL // 2)
    assert rig.machine.wants_connection
    # An answer in time is heard.
    rig.ack(TTL // 2 + 1, 1)
    assert not rig.machine.wants_connection
    for moment in range(6000, TTL // 2 + 1 + TTL, 1000):
        rig.tick(moment)
    assert rig.tick(TTL // 2 + 1 + TTL) == ["hang up"]


def test_an_idle_session_rests_and_sends_a_heartbeat_before_it_asks() -> None:
    rig = Rig.opened()
    rig.tick(3000)
    rig.ack(3000, 1, next_within=30_000)
    assert rig.alarm() == 33_000
    assert rig.tick(32_999) == []
    assert rig.acquire(32_999, 1) == ["heartbeat 2", "acquire 4"]
    assert rig.tick(35_999) == ["heartbeat 3"]


def test_a_session_that_holds_something_does_not_rest() -> None:
    rig = Rig.opened()
    rig.hold(0, 1, b"o")
    rig.tick(3000)
    rig.ack(3000, 1, next_within=30_000)
    assert rig.tick(6000) == ["heartbeat 2"]


# Acquires.


def test_outcomes_are_told_by_what_was_asked() -> None:
    rig = Rig.opened()
    busy = session_pb2.SessionNotGranted(outcome=types_pb2.ACQUIRE_OUTCOME_BUSY)
    late = session_pb2.SessionNotGranted(outcome=types_pb2.ACQUIRE_OUTCOME_TIMED_OUT)
    rig.acquire(0, 1, wait=0)
    assert rig.say(0, 2, not_granted=busy) == ["Busy"]
    rig.acquire(0, 2, wait=1000)
    assert rig.say(0, 3, not_granted=late) == ["TimedOut"]
    for number, (why, error) in enumerate(
        [("DEADLOCK", "Deadlock"), ("SELF_DEADLOCK", "SelfDeadlock"), ("FORCE_RELEASED", "ForceReleased"), ("NEW", "Refused")], 4
    ):
        rig.acquire(0, number)
        assert rig.say(0, number, **failure(10, why)) == [error]


def test_a_grant_that_crosses_a_cancel_is_given_back_and_the_actor_waits_for_it() -> None:
    rig = Rig.opened()
    rig.acquire(0, 1, actor=5)
    rig.machine.cancel(0, 1)
    assert rig.seen() == ["cancel 2"]
    assert rig.acquire(0, 2, actor=5) == []
    assert rig.acquire(0, 3, actor=6) == ["acquire 4"]
    assert rig.grant(0, 2, ("lock1", b"o")) == ["release o", "acquire 6"]


def test_grants_that_nobody_asked_for_or_of_other_locks_are_given_back() -> None:
    rig = Rig.opened()
    assert rig.grant(0, 99, ("x", b"o")) == ["release o"]
    rig.acquire(0, 1)
    [acquire] = [request.request_id for _, request in rig.sent if request.HasField("acquire")]
    assert rig.grant(0, acquire, ("other", b"p")) == ["release p", "Refused"]


def test_several_locks_are_granted_in_order_and_lost_alone() -> None:
    rig = Rig.opened()
    rig.acquire(0, 1, locks=(LockSpec("b"), LockSpec("a")))
    assert list(rig.sent[-1][1].acquire.names) == ["b", "a"]
    assert rig.grant(0, 2, ("b", b"o"), ("a", b"p")) == ["acquired"]
    rig.say(0, **lost(b"p"))
    first, second = (one.lease for one in rig.granted)
    assert reason(first, 0) is None
    assert reason(second, 0) is LostReason.FORCED


def test_several_locks_with_a_mode_each_are_asked_for_as_locks() -> None:
    rig = Rig.opened()
    rig.acquire(0, 1, locks=(LockSpec.shared("b"), LockSpec.of_permits("a", 2, 3)))
    asked = rig.sent[-1][1].acquire
    assert [(lock.name, lock.mode, lock.permits) for lock in asked.locks] == [("b", 2, 0), ("a", 3, 2)]
    assert not asked.names and asked.mode == 0


def test_an_acquire_that_is_not_answered_ends_a_while_after_its_wait() -> None:
    rig = Rig.opened()
    rig.acquire(0, 1, wait=1000)
    assert rig.tick(2999) == []
    assert rig.tick(3000) == ["cancel 2", "Unavailable", "heartbeat 1"]


def test_unknown_messages_are_ignored() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    assert rig.say(0) == []
    message = session_pb2.SessionResponse.FromString(b"\xf8\x07\x01")
    rig.machine.message(0, rig.stream, message)
    assert rig.seen() == []
    rig.say(0, **lost(b"unknown"))
    unknown = session_pb2.LostLock.FromString(b"\x12\x01o\x18\x63")
    rig.say(0, lost=session_pb2.SessionLost(locks=[unknown]))
    assert reason(lease, 0) is LostReason.UNKNOWN


# Releases and changes.


def test_a_release_is_confirmed_found_lost_or_repeated() -> None:
    rig = Rig.opened()
    for number, owner in enumerate([b"o", b"p", b"q"], 1):
        rig.hold(0, number, owner)
    released: dict[str, Any] = {"released": session_pb2.SessionReleased(released=True)}
    assert rig.release(0, 0) == ["release o"]
    assert rig.say(0, 5, **released) == ["done None"]
    assert rig.release(0, 1) == ["release p"]
    assert rig.say(0, 6, released=session_pb2.SessionReleased()) == ["done UNKNOWN"]
    assert rig.release(0, 2) == ["release q"]
    assert rig.say(0, 7, **failure(14, "STORE_UNAVAILABLE"))[0].startswith("done UNAVAILABLE")
    assert rig.tick(100) == ["release q"]
    assert rig.say(100, 8, **failure(14, "STORE_UNAVAILABLE")) == []
    assert rig.tick(299) == []
    assert rig.tick(300) == ["release q"]


def test_a_reentrant_hold_is_released_for_each_grant_and_lost_at_once() -> None:
    rig = Rig.opened()
    first = rig.hold(0, 1, b"o")
    rig.acquire(0, 1, actor=1, reentrant=True)
    rig.grant(0, 3, ("lock1", b"o"))
    assert rig.release(0, 1) == ["release o"]
    assert reason(first, 0) is None
    rig.acquire(0, 1, actor=1, reentrant=True)
    rig.grant(0, 5, ("lock1", b"o"))
    rig.say(0, **lost(b"o"))
    assert reason(first, 0) is LostReason.FORCED
    assert reason(rig.granted[-1].lease, 0) is LostReason.FORCED
    assert rig.release(0, 0) == ["done FORCED"]


def test_changes_are_confirmed_find_the_hold_lost_or_are_unconfirmed() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    assert rig.change(0, 0, Value(b"v")) == ["set_value"]
    assert rig.say(0, 3, value_set=session_pb2.SessionValueSet(value_set=True)) == ["done None"]
    assert rig.change(0, 0, Downgrade()) == ["downgrade"]
    assert rig.tick(3000) == ["heartbeat 1"]
    rig.ack(3000, 1)
    for moment in (6000, 9000):
        rig.tick(moment)
        rig.ack(moment, moment // 3000)
    assert "done unconfirmed" in rig.tick(10_000)
    rig.change(10_000, 0, Reduce(1))
    request = rig.sent[-1][1]
    assert request.reduce.permits == 1
    assert rig.say(10_000, request.request_id, reduced=session_pb2.SessionReduced()) == ["done UNKNOWN"]
    assert reason(lease, 10_000) is LostReason.UNKNOWN


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
    rig.say(0, stream=former, **lost(b"o"))
    assert reason(lease, 0) is None
    rig.machine.attempt_failed(0, Fate.DECLINED)
    rig.seen()
    # What it withheld counts now.
    assert reason(lease, 0) is LostReason.FORCED


def test_tried_ids_are_named_to_the_next_coordinator_and_all_are_released() -> None:
    rig = Rig.opened()
    lease = rig.hold(0, 1, b"o")
    former = rig.stream
    rig.drain(0)
    rig.connect(0)
    rig.machine.attempt_failed(0, Fate.KEPT)
    # The former stream is not heard any more, but keeps what has not been moved.
    rig.say(0, stream=former, **lost(b"o"))
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


@pytest.mark.parametrize("grace", [0, 4000])
def test_an_overdue_attempt_that_breaks_later_counts_as_well(grace: int) -> None:
    rig = Rig.opened(grace)
    lease = rig.hold(0, 1, b"o")
    rig.drain(0)
    rig.connect(0)
    assert "hang up" in rig.tick(5000)
    assert lease.state(5000 * MILLISECOND) is LockState.HELD
    rig.machine.overdue_ended(5100 * MILLISECOND, Fate.KEPT)
    assert lease.state(5100 * MILLISECOND) is LockState.HELD
    rig.machine.overdue_ended(5100 * MILLISECOND, Fate.DROPPED)
    if grace:
        assert lease.state(5100 * MILLISECOND) is LockState.SUSPENDED
    else:
        assert reason(lease, 5100) is LostReason.SESSION_ENDED


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
    assert fate("UNAVAILABLE", is_transport=True) is Fate.DROPPED
    # C core may make these of a broken stream.
    assert fate("RESOURCE_EXHAUSTED") is Fate.DROPPED
    assert fate_of(ConnectError.timed_out("http://a", 1)) is Fate.KEPT
    assert fate_of(ConnectError.ended("http://a")) is Fate.DROPPED
