"""Presence of coordinators in groups, as the values of their holds have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tooz import utils

from ..views import Holder

if TYPE_CHECKING:
    # Older versions have no such name.
    from tooz.coordination import Capabilities


@dataclass(frozen=True)
class Presence:
    """State of a coordinator in a group: that of a member, or of one that only keeps the group in existence."""

    member_id: bytes | None = None
    capabilities: Capabilities | None = None

    @property
    def value(self) -> bytes:
        """The value of its hold."""
        return utils.dumps({"member_id": self.member_id, "capabilities": self.capabilities})

    @classmethod
    def of(cls, holder: Holder) -> Presence:
        """Returns the state that a holder's value has; a stranger's counts as no member."""
        try:
            value = utils.loads(holder.value)
            return cls(value["member_id"], value["capabilities"])
        except (utils.SerializationError, KeyError, TypeError):
            return cls()
