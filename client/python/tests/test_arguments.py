"""Arguments that can't be used: each costs the one call, with an error that names it, and no lock."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from conftest import Coordinator

import leasehold_client
import leasehold_client.sync
from leasehold_client import InvalidArgument, LockMode, LockSpec
from leasehold_client._machine import AcquireSpec, Value

NAMES: list[tuple[Any, type[Exception]]] = [
    (b"x", TypeError),
    (None, TypeError),
    (5, TypeError),
    (["a"], TypeError),
    ("", InvalidArgument),
    ("a\udcff", InvalidArgument),
    ("n" * 513, InvalidArgument),
    ("é" * 257, InvalidArgument),
    ("a\nb", InvalidArgument),
]
VALUES: list[tuple[Any, type[Exception]]] = [
    (b"v" * 5_000_000, InvalidArgument),
    (b"v" * 4097, InvalidArgument),
    ("\ud800", InvalidArgument),
    (None, TypeError),
    (7, TypeError),
    (["v"], TypeError),
]
TIMES: list[tuple[Any, type[Exception]]] = [
    (float("nan"), InvalidArgument),
    (float("inf"), InvalidArgument),
    (-1, InvalidArgument),
    (timedelta(seconds=-1), InvalidArgument),
    (10**400, InvalidArgument),
    (True, TypeError),
    ("5", TypeError),
    (b"5", TypeError),
    (1j, TypeError),
    ([1], TypeError),
]

CALLS: list[tuple[Callable[[Any], Any], type[Exception]]] = []


def each(bads: list[tuple[Any, type[Exception]]], *calls: Callable[[Any, Any], Any]) -> None:
    """Adds these calls with each of the values that can't be used."""
    CALLS.extend((functools.partial(call, bad), kind) for call in calls for bad, kind in bads)


each(
    NAMES,
    lambda bad, client: client.lock(bad),
    lambda bad, client: client.lock_all(["a", bad]),
    lambda bad, client: client.lock_all([LockSpec(bad)]),
    lambda bad, client: client.semaphore(bad, 5),
    lambda bad, client: client.election(bad),
)
each(
    VALUES,
    lambda bad, client: client.lock("a", value=bad),
    lambda bad, client: client.lock_all(["a"], value=bad),
    lambda bad, client: client.semaphore("s", 5).permits(value=bad),
    lambda bad, client: client.election("e", value=bad),
)
each(
    TIMES,
    lambda bad, client: client.lock("a", lock_delay=bad),
    lambda bad, client: client.lock_all(["a"], max_hold=bad),
    lambda bad, client: client.election("e", lock_delay=bad),
)
each(
    # Infinite is a wait for as long as it takes.
    [(bad, kind) for bad, kind in TIMES if bad != float("inf")],
    lambda bad, client: client.lock("a", wait=bad),
    lambda bad, client: client.semaphore("s", 5, wait=bad),
    lambda bad, client: client.semaphore("s", 5).permits(wait=bad),
    lambda bad, client: client.election("e", wait=bad),
)
CALLS += [
    (lambda client: client.lock("a", wait=24 * 3600 + 1), InvalidArgument),
    (lambda client: client.lock("a", lock_delay=None), TypeError),
    (lambda client: client.lock("a", max_hold=0.5), InvalidArgument),
    (lambda client: client.lock("a", shared="no"), TypeError),
    (lambda client: client.lock("a", reentrant="no"), TypeError),
    (lambda client: client.lock("a", actor=1), TypeError),
    (lambda client: client.lock("a", if_busy="wait"), InvalidArgument),
    (lambda client: client.lock("a", if_busy=True), TypeError),
    (lambda client: client.lock("a", timeout=5), TypeError),
    (lambda client: client.semaphore("s", 5, value=7), TypeError),
    (lambda client: client.lock_all("ab"), TypeError),
    (lambda client: client.lock_all(b"ab"), TypeError),
    (lambda client: client.lock_all(LockSpec("a")), TypeError),
    (lambda client: client.lock_all(None), TypeError),
    (lambda client: client.lock_all([]), InvalidArgument),
    (lambda client: client.lock_all([None]), TypeError),
    (lambda client: client.lock_all(["a", "a"]), InvalidArgument),
    (lambda client: client.lock_all(f"n{number}" for number in range(100_000)), InvalidArgument),
    (lambda client: client.lock_all([LockSpec("a", "shared")]), TypeError),  # type: ignore[arg-type]
    (lambda client: client.lock_all([LockSpec("a", LockMode.SEMAPHORE)]), InvalidArgument),
    (lambda client: client.lock_all([LockSpec("a", permits=2)]), InvalidArgument),
    (lambda client: client.semaphore("s", 0), InvalidArgument),
    (lambda client: client.semaphore("s", 1_000_001), InvalidArgument),
    (lambda client: client.semaphore("s", True), TypeError),
    (lambda client: client.semaphore("s", "5"), TypeError),
    (lambda client: client.semaphore("s", 5, limit_revision=-1), InvalidArgument),
    (lambda client: client.semaphore("s", 5).permits(0), InvalidArgument),
    (lambda client: client.semaphore("s", 5).permits(6), InvalidArgument),
    (lambda client: client.semaphore("s", 5).permits(1.5), TypeError),
    (lambda client: client.semaphore("s", 5).permits(None), TypeError),
    (lambda client: client.semaphore("s", 5).permits(2, at_least=0), InvalidArgument),
    (lambda client: client.semaphore("s", 5).permits(2, at_least=3), InvalidArgument),
]


async def test_a_bad_argument_costs_one_call(client: leasehold_client.Client, name: str) -> None:
    async with client.lock(name) as lock:
        session = client.info
        for call, kind in CALLS:
            with pytest.raises(kind):
                call(client)
        leadership = await client.election(name + "e").campaign()
        permits = await client.semaphore(name + "s", 5).permits(2).acquire()
        for value, kind in VALUES:
            if value is not None:
                with pytest.raises(kind):
                    await client.election(name + "f").campaign(value)
            for change in (lock.set_value, leadership.proclaim):
                with pytest.raises(kind):
                    await change(value)
        numbers: list[tuple[Any, type[Exception]]] = [(0, InvalidArgument), (2**32, InvalidArgument), (True, TypeError), ("1", TypeError)]
        for number, kind in numbers:
            with pytest.raises(kind):
                await permits.keep(number)
        # How many names are too many, the coordinator says.
        with pytest.raises(leasehold_client.LimitReached):
            await client.lock_all(f"{name}{number}" for number in range(65)).acquire()
        assert client.info == session
        lock.check()
        leadership.check()
        permits.check()
        await asyncio.gather(leadership.release(), permits.release())


def test_a_bad_argument_costs_one_call_of_a_thread(shared: Coordinator, name: str) -> None:
    with leasehold_client.sync.connect(shared.url) as client, client.lock(name) as lock:
        session = client.info
        for call, kind in CALLS:
            with pytest.raises(kind):
                call(client)
        with pytest.raises(TypeError):
            client.lock("a", on_lost="x")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            client.election("a", on_lost=1)  # type: ignore[arg-type]
        for value, kind in VALUES:
            with pytest.raises(kind):
                lock.set_value(value)
        assert client.info == session
        lock.check()


@pytest.mark.parametrize("connect", [leasehold_client.connect, leasehold_client.sync.connect])
def test_settings_are_checked_before_anything_is_made(connect: Callable[..., Any]) -> None:
    url = "http://127.0.0.1:1"
    for bad, kind in TIMES:
        for setting in ("ttl", "disconnect_grace", "connect_timeout", "close_timeout"):
            with pytest.raises(kind):
                connect(url, **{setting: bad})
        with pytest.raises(kind):
            connect(url, backoff=(bad, 1))
    settings: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"metadata": {"a": 1}}, TypeError),
        ({"metadata": {b"a": "1"}}, TypeError),
        ({"metadata": ["a"]}, TypeError),
        ({"metadata": {"": "x"}}, InvalidArgument),
        ({"metadata": {"a": "x" * 257}}, InvalidArgument),
        ({"metadata": {"a": "\ud800"}}, InvalidArgument),
        ({"metadata": {str(number): "x" for number in range(17)}}, InvalidArgument),
        ({"client_name": b"x"}, TypeError),
        ({"client_name": "x\n"}, InvalidArgument),
        ({"client_name": "x" * 257}, InvalidArgument),
        ({"backoff": 1}, TypeError),
        ({"backoff": (1,)}, InvalidArgument),
        ({"trace_context": "x"}, TypeError),
        ({"tls": True}, TypeError),
        ({"token": b"x"}, TypeError),
    ]
    for given, kind in settings:
        with pytest.raises(kind):
            connect(url, **given)
    none_at_all: list[Any] = [None, b"http://a", 5, [None], [b"a"]]
    for endpoints in none_at_all:
        with pytest.raises(TypeError):
            connect(endpoints)
    unusable: list[Any] = ["", [], "a b", "ftp://a"]
    for endpoints in unusable:
        with pytest.raises(leasehold_client.ConnectError):
            connect(endpoints)


@pytest.mark.parametrize("urls", ["127.0.0.1:7420", "http://127.0.0.1:7420", ["https://127.0.0.1:7420", "http://127.0.0.1:7421"]])
def test_settings_of_tls_are_refused_where_nothing_is_encrypted(urls: Any) -> None:
    with pytest.raises(leasehold_client.CredentialsError, match=r"write https://127\.0\.0\.1"):
        leasehold_client.connect(urls, tls=leasehold_client.Tls(server_name="locks.example"))


async def test_a_request_that_a_coordinator_cannot_read_fails_and_is_not_repeated(client: leasehold_client.Client, name: str) -> None:
    # Past the checks of arguments, as a coordinator with smaller bounds would meet it.
    asked = AcquireSpec((LockSpec(name),), value=b"v" * 5_000_000)
    with pytest.raises(leasehold_client.Refused) as refused:
        await client.session._acquire(asked)
    assert refused.value.failure.reason == "MESSAGE_TOO_LARGE" and not refused.value.is_retryable
    # The lock goes with the stream; the next one does not break.
    lock = await client.lock(name, wait=10).acquire()
    with pytest.raises(leasehold_client.ChangeRefused, match="MESSAGE_TOO_LARGE"):
        await lock._change(Value(b"v" * 5_000_000))
    async with client.lock(name, wait=10) as lock:
        session = client.info
        with pytest.raises(leasehold_client.Refused):
            await client.session._acquire(AcquireSpec((LockSpec(name + "2"),), actor=2**65))
        assert client.info == session
        lock.check()
