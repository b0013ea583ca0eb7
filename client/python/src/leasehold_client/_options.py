"""Arguments of an acquire. They stand here once, for locks, semaphores and several locks, of tasks and of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from . import _arguments as arguments
from ._clock import Seconds
from ._machine import AcquireSpec, LockSpec
from .actor import Actor
from .errors import InvalidArgument

__all__ = ["AcquireOptions", "IfBusy"]

IfBusy = Literal["raise", "skip"]
"""What becomes of a function whose lock is busy: the call raises, or the function is not run."""


class AcquireOptions(TypedDict, total=False):
    """Arguments of every request."""

    wait: Seconds | None
    """Longest wait, at most 24 h; 0 does not wait, and `math.inf` waits for as long as it takes, over reconnects too. Default: that of
    the client, which has no bound; 0 with `if_busy="skip"`."""
    value: bytes | str
    """Attached to the hold for others to see, at most 4 KiB. Default: empty."""
    lock_delay: Seconds
    """How long the lock stays closed if the hold ends without a release. Default: 0."""
    max_hold: Seconds | None
    """Longest time for which it may be held, 1 s to 365 days. Default: without a bound."""
    actor: Actor | None
    """The flow that asks, for deadlock detection and reentrancy. Default: that of the block in which it asks; see `Actor`."""
    reentrant: bool
    """Whether the actor may hold it already. Default: false."""
    if_busy: IfBusy
    """What a decorated function and `run` do if the lock is not free in time: raise, or skip the function. Default: raise."""


@dataclass(frozen=True)
class Asked:
    """Request for locks as its caller made it."""

    spec: AcquireSpec
    skips: bool = False


def acquire(
    locks: Sequence[LockSpec],
    default_wait: int | None,
    *,
    several: bool = False,
    wait: Seconds | None = None,
    value: bytes | str = b"",
    lock_delay: Seconds = 0,
    max_hold: Seconds | None = None,
    actor: Actor | None = None,
    reentrant: bool = False,
    if_busy: IfBusy = "raise",
) -> Asked:
    """Returns a request for locks that have been checked. Checks the rest."""
    arguments.instance(reentrant, bool, "reentrant")
    arguments.instance(actor, (Actor, type(None)), "actor")
    arguments.instance(if_busy, str, "if_busy")
    if if_busy not in ("raise", "skip"):
        raise InvalidArgument("if_busy", f"must be 'raise' or 'skip', and is {if_busy!r}")
    skips = if_busy == "skip"
    if wait is None and skips:
        wait = 0
    asked = AcquireSpec(
        tuple(locks),
        several,
        default_wait if wait is None else arguments.wait_nanos(wait),
        arguments.value_bytes(value),
        arguments.nanos(lock_delay, "lock_delay"),
        arguments.hold_nanos(max_hold),
        actor.number if actor else 0,
        reentrant,
    )
    return Asked(asked, skips)
