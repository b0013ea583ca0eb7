"""Views of messages: what a message lacks is none where that may be, and everything else has its default."""

from __future__ import annotations

from datetime import UTC, datetime

from leasehold_client import views
from leasehold_client.v1 import admin_pb2, election_pb2, types_pb2

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_holders_and_waiters() -> None:
    holder = types_pb2.Holder(session_id="s", fencing_token=7, value=b"v", foreign=True)
    seen = views.Holder._from(holder)
    assert (seen.session_id, seen.fencing_token, seen.value, seen.foreign, seen.permits) == ("s", 7, b"v", True, 0)
    assert (seen.acquired_at, seen.ttl, seen.max_hold) == (None, None, None)
    holder.ttl.FromMilliseconds(1500)
    holder.acquired_at.FromSeconds(60)
    lock = types_pb2.LockView(name="n", mode=types_pb2.LOCK_MODE_SHARED, holders=[holder], waiters=[types_pb2.Waiter(position=1)])
    shown = views.LockView._from(lock)
    assert shown.mode is views.LockMode.SHARED and shown.closed_for is None
    assert [(one.ttl, one.acquired_at and one.acquired_at.timestamp()) for one in shown.holders] == [(1.5, 60)]
    assert [(one.position, one.mode, one.waiting_since) for one in shown.waiters] == [(1, None, EPOCH)]


def test_events() -> None:
    event = views.LockEvent._from(admin_pb2.LockEvent(kind=admin_pb2.LOCK_EVENT_KIND_VALUE_CHANGED, waiter=types_pb2.Waiter()))
    assert event.kind is views.EventKind.VALUE_CHANGED and event.holder is None and event.waiter and event.mode is None
    assert views.LockEvent._from(admin_pb2.LockEvent(kind=999)).kind is views.EventKind.UNKNOWN  # type: ignore[arg-type]


def test_sessions_leaders_and_coordinators() -> None:
    session = views.SessionView._from(admin_pb2.SessionView(metadata={"zone": "a"}))
    assert session == views.SessionView("", "", "", "", 0.0, EPOCH, 0.0, 0, 0, {"zone": "a"}, "")
    assert views.Leader._from(election_pb2.Leader(value=b"v")) == views.Leader(0, b"v", "", "", "", None)
    unseen = views.CoordinatorView._from(admin_pb2.GetStatusResponse(serving=True))
    assert unseen.serving and (unseen.store_up, unseen.session_count, unseen.key_prefix, unseen.time) == (None, None, None, None)
    status = admin_pb2.GetStatusResponse(store_state=admin_pb2.STORE_STATE_DOWN, hold_count=0, key_prefix="")
    status.permissions.add(permission="inspect", locks=["a", ""])
    status.limits.add(name="max-sessions", used=1, limit=2)
    status.certificates.add(purpose="server")
    seen = views.CoordinatorView._from(status)
    assert (seen.store_up, seen.session_count, seen.hold_count, seen.key_prefix) == (False, None, 0, "")
    assert seen.permissions == (views.PermissionView("inspect", ("a", ""), ()),)
    assert seen.limits == (views.LimitView("max-sessions", 1, 2),)
    assert seen.certificates == (views.CertificateView("server", None),)
