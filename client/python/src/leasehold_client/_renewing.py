"""Schedule of moves to streams with newer credentials: certificates and tokens expire, and their files are replaced before."""

from __future__ import annotations

import random

from ._clock import SECOND

LOOK = SECOND
"""Interval of looks at the files of credentials."""
SPREAD = 5 * SECOND
"""Time within which all clients that see a file change move their sessions: many have the same file."""
AGAIN = 10 * SECOND
"""Pause before the session tries again, if no coordinator takes the newer credentials."""


class Renewing:
    """Schedule of moves to a stream with newer credentials."""

    def __init__(self) -> None:
        """Makes a schedule without a move."""
        self._looked_at: int | None = None
        self._at: int | None = None

    def looks(self, moment: int) -> bool:
        """Returns whether it is time to look at the files."""
        if self._looked_at is not None and moment - self._looked_at < LOOK:
            return False
        self._looked_at = moment
        return True

    def is_due(self, moment: int, is_outdated: bool) -> bool:
        """Returns whether it is time to move, after a look."""
        if not is_outdated:
            self._at = None
            return False
        if self._at is None:
            self._at = moment + round(SPREAD * random.random())
        return self._at <= moment

    def failed(self, moment: int) -> None:
        """Notes that no coordinator took the newer credentials."""
        self._at = moment + AGAIN
