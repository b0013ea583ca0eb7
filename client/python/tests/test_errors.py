"""Errors as they come out of other processes, such as those of a pool."""

from __future__ import annotations

import copy
import pickle

import pytest

import leasehold_client
from leasehold_client import ConnectError, Failure, Holder, LostReason
from leasehold_client.v1 import types_pb2

FAILURE = Failure("FAILED_PRECONDITION", "LIMIT_MISMATCH", "words", metadata={"limit": "5"})
HOLDER = Holder._from(types_pb2.Holder(client_name="them"))
ERRORS = [
    leasehold_client.InvalidArgument("wait", "is wrong"),
    leasehold_client.Forked("forked"),
    leasehold_client.MonkeyPatched("gevent", "threading", "gthread"),
    leasehold_client.CallFailed(FAILURE, "http://a"),
    ConnectError.timed_out("http://a", 10**9),
    leasehold_client.CredentialsError("no such file"),
    leasehold_client.Busy("a", HOLDER),
    leasehold_client.TimedOut("a", 2, HOLDER),
    leasehold_client.LimitMismatch("a", FAILURE),
    leasehold_client.Unavailable("a", ConnectError.ended("http://a")),
    leasehold_client.StoreUnavailable("a", FAILURE),
    leasehold_client.SessionClosed.stopping("'a'"),
    leasehold_client.AlreadyCandidate("a"),
    leasehold_client.LockLost("a", 7, LostReason.FORCED),
    leasehold_client.LockSuspended("a"),
    leasehold_client.Unconfirmed("a"),
    leasehold_client.ChangeRefused("a", FAILURE),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_processes(error: leasehold_client.LeaseholdError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error)
        assert {**vars(again), "source": None} == {**vars(error), "source": None}
        assert repr(vars(again)) == repr(vars(error))
