"""Rules of a session without I/O: every test gives the inputs with their times, and checks all outputs."""

from __future__ import annotations

from typing import Any

from rig import INTERVAL, TTL, VALID, Rig, failure, lost, ms, reason

from leasehold_client import LostReason
from leasehold_client._clock import MILLISECOND, wire
from leasehold_client._machine import Downgrade, LockSpec, Reduce, StreamEnd, Value
from leasehold_client.v1 import session_pb2, types_pb2

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


def test_a_wait_goes_on_while_the_store_is_out_of_reach() -> None:
    rig = Rig.opened()
    down = failure(14, "STORE_UNAVAILABLE")
    assert rig.acquire(0, 1) == ["acquire 2"]
    assert rig.say(0, 2, **down) == []
    assert rig.alarm() == 100
    # After growing pauses, for as long as it takes.
    assert rig.tick(99) == [] and rig.tick(100) == ["acquire 3"]
    assert rig.say(100, 3, **down) == []
    assert rig.tick(299) == [] and rig.tick(300) == ["acquire 4"]
    assert rig.grant(300, 4, ("lock1", b"o")) == ["acquired"]
    # A wait that is over says why; a try does not wait.
    assert rig.acquire(300, 2, wait=150) == ["acquire 5 wait 150"]
    assert rig.say(300, 5, **down) == []
    assert rig.tick(400) == ["acquire 6 wait 50"]
    assert rig.say(400, 6, **down) == []
    assert rig.tick(450) == ["StoreUnavailable"]
    assert rig.answers[-1][1].failure.reason == "STORE_UNAVAILABLE"
    assert rig.acquire(450, 3, wait=0) == ["acquire 7 wait 0"]
    assert rig.say(450, 7, **down) == ["StoreUnavailable"]
    # Another stream is asked at once.
    assert rig.acquire(450, 4) == ["acquire 8"]
    assert rig.say(450, 8, **down) == []
    rig.machine.stream_ended(460 * MILLISECOND, rig.stream, StreamEnd.LEFT)
    rig.connect(470)
    assert rig.open(470) == ["opened", "acquire 2"]
