"""Clock by which this process judges its own leases. It also counts the time for which the machine was suspended.

Moments and durations are integers of nanoseconds. `time.monotonic` does not count suspended time on Linux: a laptop that slept
through the TTL would wake up believing that it still holds its locks.
"""

import sys
import time
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

Seconds = float | timedelta
"""Length of time: a number of seconds, or a `timedelta`."""


if sys.platform in ("linux", "android"):

    def now() -> int:
        """Returns the present moment."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

elif sys.platform == "win32":

    def now() -> int:
        """Returns the present moment."""
        return time.monotonic_ns()

else:

    def now() -> int:
        """Returns the present moment. The clock counts sleep on Apple systems and OpenBSD."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def wire(length: int) -> Duration:
    """Returns nanoseconds as a message."""
    return Duration(seconds=length // SECOND, nanos=length % SECOND)


def from_wire(length: Duration) -> int:
    """Returns a message as nanoseconds. A negative length counts as none."""
    return max(0, length.seconds * SECOND + length.nanos)


def earlier(one: int | None, other: int | None) -> int | None:
    """Returns the earlier of two moments, of which either may not be set."""
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)
