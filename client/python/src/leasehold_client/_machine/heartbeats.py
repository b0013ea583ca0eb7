"""Sending times of heartbeats, from which every deadline is counted."""

from collections import deque

REMEMBERED = 64
"""Number of heartbeats remembered: at one every third of a TTL, far more than a lease can last."""


class Heartbeats:
    """Heartbeats of one stream. The `open` is number 0."""

    __slots__ = ("_first", "_sent_at")

    def __init__(self, opened_at: int) -> None:
        """Begins with the `open`."""
        self._first = 0
        self._sent_at = deque([opened_at])

    @property
    def began(self) -> int:
        """Time at which the oldest remembered heartbeat was sent: the `open`, while no other was."""
        return self._sent_at[0]

    @property
    def last_sent(self) -> int:
        """Time at which the newest heartbeat was sent."""
        return self._sent_at[-1]

    def note(self, now: int) -> int:
        """Notes that the next heartbeat is sent at `now`, and numbers it.

        To be called before it can be on the wire: a time noted too late would let a lease outlive the lock.
        """
        self._sent_at.append(now)
        if len(self._sent_at) > REMEMBERED:
            self._sent_at.popleft()
            self._first += 1
        return self._first + len(self._sent_at) - 1

    def sent_at(self, sequence: int) -> int | None:
        """Returns when this heartbeat was sent; none if it never was, or too long ago to matter."""
        index = sequence - self._first
        return self._sent_at[index] if 0 <= index < len(self._sent_at) else None
