"""Owner ids of one hold, or tickets of one place in a queue, over the streams that it is resumed on."""

from __future__ import annotations

MOST_TRIED = 64
"""Number of ids of unanswered attempts that are remembered: as many as a coordinator takes."""


class Ids:
    """Owner ids by which a coordinator may know a hold or a waiter. Secret: they are shown nowhere."""

    __slots__ = ("_next", "confirmed", "tried")

    def __init__(self, confirmed: bytes) -> None:
        """Makes the ids of a hold that a coordinator has just confirmed."""
        self.confirmed = confirmed
        # Ids of later attempts to resume it that may have been carried out; the oldest first.
        self.tried: list[bytes] = []
        # Id of the attempt in progress.
        self._next: bytes | None = None

    def copy(self) -> Ids:
        """Returns a copy that later attempts do not change."""
        copy = Ids(self.confirmed)
        copy.tried, copy._next = list(self.tried), self._next
        return copy

    def attempt(self, next_id: bytes) -> None:
        """Begins an attempt to resume it under another id."""
        self._next = next_id

    @property
    def is_attempted(self) -> bool:
        """Whether an attempt is in progress."""
        return self._next is not None

    def unanswered(self) -> None:
        """Ends an attempt without an answer: the coordinator may have carried it out."""
        if self._next is not None:
            self.tried.append(self._next)
            self._next = None
            del self.tried[:-MOST_TRIED]

    def declined(self) -> None:
        """Ends an attempt that the coordinator declined."""
        self._next = None

    def resumed(self) -> None:
        """Ends an attempt that the coordinator carried out."""
        if self._next is not None:
            self.confirmed, self.tried, self._next = self._next, [], None

    @property
    def in_doubt(self) -> bool:
        """Whether the coordinator may know it by another id than the confirmed one."""
        return self._next is not None or bool(self.tried)

    def all(self) -> list[bytes]:
        """Returns every id, in the order of the attempts."""
        return [self.confirmed, *self.tried, *([] if self._next is None else [self._next])]

    def nth(self, index: int) -> bytes | None:
        """Returns the id at this place in the order of the attempts.

        A hold that is under one of them was never under a later one before.
        """
        in_order = self.all()
        return in_order[index] if index < len(in_order) else None
