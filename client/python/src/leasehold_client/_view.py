"""Reads of holds by this process's own clock, the same for tasks and threads. Any thread may make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Self, TypeVar, overload

from ._body import around
from ._clock import SECOND, now
from ._lease import Lease, LockState, ReleaseRequest
from .errors import LockLost, LockSuspended, LostReason, SessionClosed


class HoldView:
    """State of a hold."""

    _lease: Lease
    _lock_count: int
    # The actor that was granted it, by its number.
    _actor: int
    # The client is being closed, and the body is to end.
    _is_stopped = False

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lease.name

    @property
    def token(self) -> int:
        """The fencing token: pass it to what the lock protects, which must refuse smaller ones."""
        return self._lease.token

    @property
    def permits(self) -> int | None:
        """Permits of a semaphore that were granted; none for other locks."""
        return self._lease.permits

    @property
    def hold_count(self) -> int:
        """Number of times that the actor held the lock at this grant, this one included."""
        return self._lock_count

    @property
    def state(self) -> LockState:
        """Whether it is held, suspended or lost now, by this process's own clock and all that the coordinator said."""
        return self._lease.state(now())

    @property
    def is_held(self) -> bool:
        """Whether it is held now. False while it is suspended."""
        return self.state is LockState.HELD

    @property
    def lost_reason(self) -> LostReason | None:
        """Why it is not held any more; none while it is held or suspended."""
        return self._lease.lost(now())

    @property
    def loss(self) -> LockLost | None:
        """The error of the loss, if it was lost; none once it was released."""
        reason = self.lost_reason
        return LockLost(self.name, self.token, reason) if reason and reason is not LostReason.RELEASED else None

    @classmethod
    def current(cls) -> Self:
        """Returns the hold of the body in which this is called, the innermost, such as that of a decorated function.

        Raises `LookupError` outside of a body.
        """
        holds = (body._holds[0] for body in reversed(around()))
        found = next((hold for hold in holds if isinstance(hold, cls)), None)
        if found is None:
            raise LookupError("no body runs here while a lock is held")
        return found

    def check(self) -> None:
        """Reads the clock, and fails unless the lock is held. Call it before every step that must not run without the lock.

        Raises `LockLost` if it was lost or released, `SessionClosed` if it has a body that is to end because the client is being closed,
        and `LockSuspended` while it is suspended.
        """
        state, reason = self._lease.status(now())
        if reason:
            raise LockLost(self.name, self.token, reason)
        if self._is_stopped:
            raise SessionClosed.stopping(repr(self.name))
        if state is LockState.SUSPENDED:
            raise LockSuspended(self.name)

    def _stop(self) -> None:
        """Tells its body to stop, because the client is being closed."""
        self._is_stopped = True

    def _check_not_lost(self) -> None:
        """Fails if it is lost or released; not while it is suspended."""
        if reason := self.lost_reason:
            raise LockLost(self.name, self.token, reason)

    @property
    def valid_for(self) -> float:
        """Seconds until it is lost unless a heartbeat is answered before; 0 while it is not held."""
        return self.lost_in if self.is_held else 0.0

    @property
    def lost_in(self) -> float:
        """Seconds until it is lost, held or suspended, unless a coordinator answers before; 0 once it is."""
        moment = now()
        deadline = self._lease.deadline(moment)
        return 0.0 if deadline is None else (deadline - moment) / SECOND

    @property
    def ends_in(self) -> float | None:
        """Seconds until it ends because it may be held no longer (`max_hold`); none if there is no bound."""
        ends_at = self._lease.ends_at()
        return None if ends_at is None else max(0.0, (ends_at - now()) / SECOND) if not self.lost_reason else 0.0

    @property
    def release_request(self) -> ReleaseRequest | None:
        """The last request of an operator to release it, if there was one."""
        return self._lease.request

    def __repr__(self) -> str:
        """Shows name, token and state."""
        return f"<{type(self).__name__} {self.name!r} token={self.token} {self.state.value}>"


H = TypeVar("H", bound=HoldView)


class HoldsView(Sequence[H], Generic[H]):
    """State of several holds, in the order of their names."""

    def __init__(self, holds: list[H]) -> None:
        """Makes it of the holds."""
        self._holds = holds

    @overload
    def __getitem__(self, index: int) -> H: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[H]: ...
    def __getitem__(self, index: int | slice) -> H | Sequence[H]:
        """Returns a hold by its place."""
        return self._holds[index]

    def __len__(self) -> int:
        """Returns the number of the holds."""
        return len(self._holds)

    def __iter__(self) -> Iterator[H]:
        """Returns the holds in order."""
        return iter(self._holds)

    def get(self, name: str) -> H | None:
        """Returns the hold of the lock of this name, if it is one of them."""
        return next((hold for hold in self._holds if hold.name == name), None)

    @property
    def state(self) -> LockState:
        """Held if all are, lost if one is, otherwise suspended."""
        states = {hold.state for hold in self._holds}
        return next(state for state in (LockState.LOST, LockState.SUSPENDED, LockState.HELD) if state in states)

    @property
    def is_held(self) -> bool:
        """Whether all of them are held."""
        return self.state is LockState.HELD

    @property
    def loss(self) -> LockLost | None:
        """The error of the first loss, if one of them was lost."""
        return next((loss for hold in self._holds if (loss := hold.loss)), None)

    def check(self) -> None:
        """Fails unless all of them are held; see `Hold.check`."""
        for hold in self._holds:
            hold.check()

    def __repr__(self) -> str:
        """Shows the holds."""
        return f"<{type(self).__name__} {', '.join(map(repr, self._holds))}>"
