"""Choice of the coordinator that a session tries next, and pauses between attempts."""

from __future__ import annotations

import random
from collections import deque
from random import Random

from ._clock import MILLISECOND, SECOND
from ._endpoints import Candidate
from .errors import ConnectError

TROUBLED = 10 * SECOND
"""Time for which a candidate that failed is tried last."""
LONGEST_ASKED = 60 * SECOND
"""No coordinator can ask for a longer pause than this."""


class Route:
    """Round over the candidates: each is tried once in a round, in an order of its own, and those that failed lately come last."""

    def __init__(self, endpoints: int, random: Random) -> None:
        """Makes a route that has not begun."""
        self._random = random
        self._round: deque[Candidate] = deque()
        self._failed_at: dict[Candidate, int] = {}
        # There is more than one to choose from.
        self.is_several = endpoints > 1

    def begin_round(self, candidates: list[Candidate], now: int) -> None:
        """Begins another round."""
        self.is_several |= len(candidates) > 1
        self._failed_at = {one: at for one, at in self._failed_at.items() if now - at < TROUBLED}
        # In a common order, all clients of a coordinator that goes away would move to the same one.
        candidates = self._random.sample(candidates, len(candidates))
        # Of those that failed, the one that failed longest ago comes first.
        self._round = deque(sorted(candidates, key=lambda one: self._failed_at.get(one, -1)))

    def next(self) -> Candidate | None:
        """Returns the next candidate of this round; none when the round is over."""
        return self._round.popleft() if self._round else None

    def failed(self, candidate: Candidate | None, now: int) -> None:
        """Notes that a candidate, if it is known, could not be reached, did not serve, or is to be left."""
        if candidate:
            self._failed_at[candidate] = now


class Pauses:
    """Pauses before attempts to repeat what failed or ended: they grow, with a random part."""

    def __init__(self, backoff_min: int, backoff_max: int) -> None:
        """Begins with the shortest pause."""
        self._max = max(backoff_max, backoff_min, MILLISECOND)
        # The jitter adds up to as much again.
        self._first = min(backoff_min, self._max // 2)
        self._next = self._first
        self._live_since: int | None = None

    def opened(self, now: int) -> None:
        """Notes that a connection was opened."""
        self._live_since = now

    def lived(self, now: int) -> bool:
        """Returns whether the last connection was open for a while."""
        return self._live_since is not None and now - self._live_since >= self._max

    def pause(self, now: int) -> int:
        """Returns the pause before the next attempt.

        A connection that was open for a while starts the row of pauses anew; one that ended as soon as it was open does not, so that
        the two sides do not reconnect in a loop.
        """
        if self.lived(now):
            self.start_anew()
        self._live_since = None
        pause = self._next
        self._next = min(max(self._next * 2, MILLISECOND), self._max // 2)
        return pause + round(random.random() * pause)

    def start_anew(self) -> None:
        """Makes the next pause the first of the row, though nothing lived."""
        self._next = self._first

    def pause_as_asked(self, now: int, asked: float | None) -> int:
        """Returns the pause after the coordinator has asked for one of at least so many seconds.

        It has a random part, so that not all clients come back at once.
        """
        pause = self.pause(now)
        return pause if asked is None else min(round(asked * SECOND), LONGEST_ASKED) + pause


def most_telling(errors: list[ConnectError]) -> ConnectError | None:
    """Returns the error to report: an answer says more than the lack of one."""
    return max(reversed(errors), key=lambda error: (error.is_answer, error.is_retryable), default=None)


def least_final(errors: list[ConnectError]) -> ConnectError | None:
    """Returns the error that leaves most hope: the session waits as long as one coordinator may serve later."""
    return max(reversed(errors), key=lambda error: (error.is_retryable, error.is_answer), default=None)
