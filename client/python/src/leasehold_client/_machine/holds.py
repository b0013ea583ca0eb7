"""Locks that a session holds, from their grant until their user is done with them.

What is counted is grants, and each has its lease. A hold that an actor was granted again has several; they share an owner id, by
which the coordinator loses them together, while each is given back for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .._clock import earlier
from .._lease import Lease, ReleaseRequest
from ..errors import LostReason
from ..v1 import session_pb2
from .ids import Ids
from .pending import Owned


@dataclass
class Guarded:
    """One grant of a hold."""

    lease: Lease
    lock_delay: int
    # Set once its deadline has passed, while as far as we know the coordinator still holds it for us. It is given back at this
    # moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
    release_at: int | None = None


@dataclass
class Hold:
    """Hold of a coordinator for this session, under one owner id."""

    owned: Owned
    # Its grants, by their keys. Never none.
    guards: dict[int, Guarded] = field(default_factory=dict)


class Holds:
    """All holds of a session, and the keys of their grants, which only this process knows."""

    def __init__(self) -> None:
        """Makes it empty."""
        # For each grant the number of its hold, or the reason why the coordinator does not hold it for us any more.
        self._by_key: dict[int, int | LostReason] = {}
        # By the session's own numbers, in the order of their grants.
        self._holds: dict[int, Hold] = {}
        # Numbers by the owner ids under which the holds were last confirmed.
        self._by_owner: dict[bytes, int] = {}
        self._last_key = 0
        # Nothing needs to be done before this: a lower bound, made exact whenever it has passed.
        self.check_at: int | None = None

    def insert(self, lease: Lease, owner_id: bytes, lock_delay: int, deadline: int) -> int:
        """Adds a grant, and returns its key."""
        self._last_key += 1
        key = self._last_key
        self.check_at = earlier(self.check_at, deadline)
        # Keys are never used again, so that the first one can number the hold too.
        number = self._by_owner.setdefault(owner_id, key)
        hold = self._holds.setdefault(number, Hold(Owned(lease.name, Ids(owner_id), number)))
        hold.guards[key] = Guarded(lease, lock_delay)
        self._by_key[key] = number
        return key

    def is_empty(self) -> bool:
        """Returns whether the coordinator holds nothing for this session."""
        return not self._holds

    def _guards(self) -> Iterator[Guarded]:
        for hold in self._holds.values():
            yield from hold.guards.values()

    def remove(self, key: int) -> Owned | LostReason:
        """Forgets a grant whose user is done with it. Returns what is to be given back, or why there is nothing."""
        number = self._by_key.pop(key, LostReason.RELEASED)
        if isinstance(number, LostReason):
            return number
        return self._unlink(number, key) or LostReason.RELEASED

    def owned(self, key: int, now: int) -> Owned | LostReason:
        """Returns the identity of a hold, unless its grant is lost."""
        number = self._by_key.get(key, LostReason.RELEASED)
        if isinstance(number, LostReason):
            return number
        hold = self._holds.get(number)
        if hold is None or key not in hold.guards:
            return LostReason.UNKNOWN
        return hold.guards[key].lease.lost(now) or hold.owned

    def lost(self, owner_id: bytes, now: int, reason: LostReason) -> bool:
        """Handles the coordinator's message that it does not hold this lock for the session any more.

        Returns whether the session knew the hold.
        """
        number = self._by_owner.get(owner_id)
        if number is not None:
            self.forget(number, now, reason)
        return number is not None

    def ask(self, owner_id: bytes, request: ReleaseRequest) -> None:
        """Handles the coordinator's message that an operator asks for the release of this lock."""
        hold = self._holds.get(self._by_owner.get(owner_id, 0))
        for guarded in hold.guards.values() if hold else ():
            guarded.lease.ask(request)

    def forget(self, number: int, now: int, reason: LostReason) -> None:
        """Removes a hold that the coordinator does not have any more: every grant of it is lost."""
        hold = self._holds.pop(number, None)
        if hold is None:
            return
        self._by_owner.pop(hold.owned.ids.confirmed, None)
        for key, guarded in hold.guards.items():
            first = guarded.lease.end(now, reason)
            # One that had reported another end before keeps that one.
            self._by_key[key] = reason if first in (None, LostReason.RELEASED) else first

    def gone(self, key: int, now: int, reason: LostReason) -> LostReason:
        """Removes the hold of this grant, which the coordinator does not know. Returns the reason of the loss."""
        number = self._by_key.get(key, LostReason.RELEASED)
        if isinstance(number, int):
            self.forget(number, now, reason)
            number = self._by_key.get(key, LostReason.RELEASED)
        return number if isinstance(number, LostReason) else LostReason.RELEASED

    def extend(self, to: int) -> None:
        """Extends every hold after the answer to a heartbeat: all are good until then at least."""
        for guarded in self._guards():
            guarded.lease.extend(to)

    def expire(self, now: int) -> list[Owned]:
        """Ends the holds that have passed their deadline. Returns those to give back now."""
        if self.check_at is None or now < self.check_at:
            return []
        self.check_at = None
        over = []
        for number, hold in self._holds.items():
            for key, guarded in hold.guards.items():
                if guarded.release_at is None:
                    deadline = guarded.lease.deadline(now)
                    if deadline is None:
                        if guarded.lease.lost(now) is LostReason.RELEASED:
                            # Given back by its user: the request is on its way to us.
                            continue
                        guarded.release_at = deadline = now + guarded.lock_delay
                else:
                    deadline = guarded.release_at
                if now < deadline:
                    self.check_at = earlier(self.check_at, deadline)
                else:
                    over.append((key, number))
        owned = []
        # In the order in which they were granted.
        for key, number in sorted(over):
            self._by_key[key] = LostReason.EXPIRED
            unlinked = self._unlink(number, key)
            if unlinked:
                owned.append(unlinked)
        return owned

    def end_all(self, now: int, reason: LostReason) -> None:
        """Ends all holds with the session."""
        for number in self.numbers():
            self.forget(number, now, reason)
        self.check_at = None

    def end_with_stream(self, now: int) -> None:
        """Ends all holds with the stream."""
        for number in self.numbers():
            self._end(number, now, LostReason.SESSION_ENDED)

    def lost_in_doubt(self, now: int, lost: dict[bytes, LostReason]) -> None:
        """Ends the holds that a coordinator has lost which may have had them under any of their ids."""
        for number in self.numbers():
            reason = next((lost[one] for one in self._holds[number].owned.ids.all() if one in lost), None)
            if reason is not None:
                self._end(number, now, reason)

    def _end(self, number: int, now: int, reason: LostReason) -> None:
        """Ends a hold. One that an attempt to resume may have moved to another stream is still to be given back there."""
        hold = self._holds[number]
        if not hold.owned.ids.in_doubt:
            return self.forget(number, now, reason)
        for guarded in hold.guards.values():
            guarded.lease.end(now, reason)
        self.check_at = now

    def suspend(self, now: int, until: int | None) -> None:
        """Suspends what is held, because the stream has ended; see `Lease.suspend`."""
        for guarded in self._guards():
            guarded.lease.suspend(now, until)
        # Deadlines may have come closer: they are looked at anew.
        if self._holds:
            self.check_at = now

    def attempt_dropped(self, now: int, grace: int, *, in_progress: bool = True) -> None:
        """Handles the end of a stream that was asked to resume holds, which may have been on it.

        The attempt is the one in progress, or an earlier one that did not open in time.
        """
        for hold in self._holds.values():
            if not (hold.owned.ids.is_attempted if in_progress else hold.owned.ids.tried):
                continue
            for guarded in hold.guards.values():
                if grace == 0:
                    guarded.lease.end(now, LostReason.SESSION_ENDED)
                else:
                    guarded.lease.suspend(now, now + grace)
                self.check_at = now

    def resumable(self, now: int) -> Iterator[tuple[Owned, session_pb2.ResumedHold]]:
        """Returns the holds that another stream could take over: those with a grant that is not lost."""
        for hold in self._holds.values():
            alive = next((one.lease for one in hold.guards.values() if not one.lease.lost(now)), None)
            if alive:
                resumed = session_pb2.ResumedHold(fencing_token=alive.token, hold_count=len(hold.guards))
                yield hold.owned, resumed

    def all_ids(self) -> Iterator[Ids]:
        """Returns the owner ids of all holds."""
        return (hold.owned.ids for hold in self._holds.values())

    def is_in_doubt(self, number: int) -> bool:
        """Returns whether another stream that did not answer may have taken this hold over."""
        hold = self._holds.get(number)
        return hold is not None and hold.owned.ids.in_doubt

    def resumed(self, number: int, now: int, deadline: int, ends_at: int | None) -> None:
        """Notes that another stream has resumed this hold."""
        hold = self._holds.get(number)
        if hold is None:
            return
        self._by_owner.pop(hold.owned.ids.confirmed, None)
        hold.owned.ids.resumed()
        self._by_owner[hold.owned.ids.confirmed] = number
        for guarded in hold.guards.values():
            guarded.lease.resume(now, deadline, ends_at)
        # A deadline may have come closer: it is looked at anew.
        self.check_at = earlier(self.check_at, deadline if ends_at is None else now)

    def first_deadline(self, now: int) -> int | None:
        """Returns the first deadline of all that is held or suspended; none if nothing is."""
        deadlines = (guarded.lease.deadline(now) for guarded in self._guards())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def numbers(self) -> list[int]:
        """Returns the numbers of all holds."""
        return list(self._holds)

    def _unlink(self, number: int, key: int) -> Owned | None:
        """Removes a grant from its hold, because the coordinator does not hold it for this grant any more."""
        hold = self._holds.get(number)
        if hold is None:
            return None
        hold.guards.pop(key, None)
        if hold.guards:
            return hold.owned.copy()
        del self._holds[number]
        self._by_owner.pop(hold.owned.ids.confirmed, None)
        return hold.owned
