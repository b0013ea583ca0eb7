"""Checks of arguments by the bounds of the protocol, before anything is noted or sent: a mistake costs one call, and no lock.

A value of a wrong type raises `TypeError`, and one out of its bounds `InvalidArgument`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from ._clock import SECOND, Seconds
from ._machine import LockSpec
from .errors import InvalidArgument
from .views import LockMode

LONGEST_NAME = 512
"""Most bytes of a name."""
LONGEST_VALUE = 4 << 10
"""Most bytes of the value of a hold."""
LONGEST_TEXT = 256
"""Most bytes of a client's name, of a text for operators, and of a value of the metadata."""
LONGEST_KEY = 64
"""Most bytes of a key of the metadata."""
MOST_ENTRIES = 16
"""Most entries of the metadata."""
MOST_NAMES = 1000
"""Most names of one acquire, which fit into every message. Coordinators take 64, unless they are configured otherwise, and say so."""
MOST_PERMITS = 1_000_000
"""Greatest limit of a semaphore."""
LONGEST_WAIT = 24 * 3600
"""Longest wait, in seconds."""
LONGEST_HOLD = 365 * 24 * 3600
"""Longest `max_hold`, in seconds."""
LONGEST = 10**9
"""Longest of other times, in seconds."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def instance(value: Any, kind: type | tuple[type, ...], field: str) -> None:
    """Fails unless the value is of a type."""
    if not isinstance(value, kind):
        kinds = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise TypeError(f"{field}: expected {kinds}, got {type(value).__name__}")


def text(value: str, field: str, longest: int, *, shortest: int = 0, is_free: bool = False) -> str:
    """Returns a text of so many bytes of UTF-8, without control characters unless it is free."""
    instance(value, str, field)
    try:
        encoded = str.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidArgument(field, f"can't be encoded as UTF-8: {error.reason}") from None
    if not shortest <= len(encoded) <= longest:
        bounds = f"{shortest} to {longest}" if shortest else f"at most {longest}"
        raise InvalidArgument(field, f"must have {bounds} bytes, not {len(encoded)}")
    if not is_free and _CONTROL.search(value):
        raise InvalidArgument(field, "must not contain control characters")
    # A subclass may compare as it likes.
    return encoded.decode()


def name(value: str, field: str = "name") -> str:
    """Returns the name of a lock or an election."""
    if isinstance(value, bytes | bytearray):
        raise TypeError(f"{field}: expected str, got {type(value).__name__}; decode it")
    return text(value, field, LONGEST_NAME, shortest=1)


def value_bytes(value: bytes | str, field: str = "value") -> bytes:
    """Returns the value of a hold; a text as UTF-8."""
    instance(value, (bytes, str, bytearray), field)
    try:
        encoded = str.encode(value) if isinstance(value, str) else bytes(value)
    except UnicodeEncodeError as error:
        raise InvalidArgument(field, f"can't be encoded as UTF-8: {error.reason}") from None
    if len(encoded) > LONGEST_VALUE:
        raise InvalidArgument(field, f"must have at most {LONGEST_VALUE} bytes, not {len(encoded)}")
    return encoded


def nanos(length: Seconds, field: str, *, longest: int = LONGEST, shortest: int = 0) -> int:
    """Returns a length of time in nanoseconds."""
    if isinstance(length, timedelta):
        seconds = length.total_seconds()
    elif isinstance(length, bool) or not hasattr(type(length), "__float__"):
        raise TypeError(f"{field}: expected a number of seconds or a timedelta, got {type(length).__name__}")
    else:
        try:
            seconds = float(length)
        except OverflowError:
            seconds = float("inf")
    if not shortest <= seconds <= longest:
        hint = "; math.inf waits for as long as it takes" if field in ("wait", "timeout") and seconds > longest else ""
        raise InvalidArgument(field, f"must be {shortest} to {longest} seconds, not negative, and is {seconds:g}{hint}")
    return round(seconds * SECOND)


def wait_nanos(wait: Seconds | None, field: str = "wait") -> int | None:
    """Returns the wait of an acquire; none for one without a bound."""
    if wait is None or (isinstance(wait, float) and wait == math.inf):
        return None
    return nanos(wait, field, longest=LONGEST_WAIT)


def hold_nanos(max_hold: Seconds | None) -> int | None:
    """Returns the longest time of a hold; none for one without a bound."""
    return None if max_hold is None else nanos(max_hold, "max_hold", shortest=1, longest=LONGEST_HOLD)


def whole(number: int, field: str, smallest: int, greatest: int) -> int:
    """Returns a whole number within bounds."""
    if isinstance(number, bool):
        raise TypeError(f"{field}: expected a whole number, got bool")
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{field}: expected a whole number, got {type(number).__name__}") from None
    if not smallest <= number <= greatest:
        raise InvalidArgument(field, f"must be {smallest} to {greatest}, not {number}")
    return number


def limit(number: int) -> int:
    """Returns the limit of a semaphore."""
    return whole(number, "limit", 1, MOST_PERMITS)


def revision(number: int) -> int:
    """Returns the revision of a limit."""
    return whole(number, "limit_revision", 0, 2**32 - 1)


def lock(one: LockSpec, field: str = "name") -> LockSpec:
    """Returns one lock of an acquire."""
    named = name(one.name, field)
    if one.mode is not LockMode.SEMAPHORE:
        if one.mode not in (LockMode.EXCLUSIVE, LockMode.SHARED):
            raise TypeError(f"mode: expected LockMode.EXCLUSIVE, SHARED or SEMAPHORE, got {one.mode!r}")
        if (one.permits, one.limit, one.at_least, one.limit_revision) != (None, None, None, 0):
            raise InvalidArgument("permits", "and limits are for semaphores only")
        return LockSpec(named, one.mode)
    if one.limit is None:
        raise InvalidArgument("limit", "must be given for a semaphore")
    most = limit(one.limit)
    permits = None if one.permits is None else whole(one.permits, "permits", 1, most)
    at_least = None if one.at_least is None else whole(one.at_least, "permits_at_least", 1, permits or 1)
    return LockSpec(named, one.mode, permits, most, at_least, revision(one.limit_revision))


def locks(several: Iterable[str | LockSpec]) -> list[LockSpec]:
    """Returns the locks of an acquire of several."""
    if isinstance(several, str | bytes | bytearray | LockSpec):
        raise TypeError(f"locks: expected several names or LockSpecs, got one {type(several).__name__}")
    checked: list[LockSpec] = []
    for index, one in enumerate(several):
        if index == MOST_NAMES:
            raise InvalidArgument("locks", f"must be at most {MOST_NAMES}")
        field = f"locks[{index}]"
        checked.append(lock(one if isinstance(one, LockSpec) else LockSpec(name(one, field)), field))
    if not checked:
        raise InvalidArgument("locks", "expected at least one name")
    if len({one.name for one in checked}) < len(checked):
        raise InvalidArgument("locks", "must have different names")
    return checked


def metadata(entries: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the metadata of a session."""
    if entries is None:
        return {}
    instance(entries, Mapping, "metadata")
    if len(entries) > MOST_ENTRIES:
        raise InvalidArgument("metadata", f"must have at most {MOST_ENTRIES} entries, not {len(entries)}")
    return {
        text(key, "metadata", LONGEST_KEY, shortest=1, is_free=True): text(value, f"metadata[{key!r}]", LONGEST_TEXT, is_free=True)
        for key, value in entries.items()
    }
