"""Driver of tooz: `tooz.coordination.get_coordinator("leasehold://127.0.0.1:7420", b"me")`.

It needs the extra `leasehold-client[tooz]`, which also registers it. Locks, elections and groups are locks of Leasehold with these
names, where each id is percent-encoded and the prefix `tooz/` is the option `namespace`:

- `tooz/lock/NAME`: a lock.
- `tooz/leader/GROUP`: the leadership of a group, with the member's id as its value.
- `tooz/group/GROUP`: a group, held in shared mode by every coordinator that created or joined it.
- `tooz/change/GROUP`: held while the group is changed.
"""

from __future__ import annotations

from ._driver import LeaseholdDriver
from ._lock import LeaseholdLock

__all__ = ["LeaseholdDriver", "LeaseholdLock"]
