"""Locks without a session, for threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import detached
from .._clock import Seconds
from ..errors import Busy
from ._blocking import blocking

if TYPE_CHECKING:
    from ._client import Client


class DetachedRequest(detached.DetachedRequestView):
    """Request for a lock that no session holds: nobody renews it but `DetachedLock.renew`. It may be used again, by any thread."""

    def __init__(self, client: Client, inner: detached.DetachedRequest) -> None:
        """Makes it of the form for tasks."""
        self._client, self._inner, self._run = client, inner, client._run
        self._options = inner._options

    def acquire(self, *, timeout: Seconds | None = None) -> DetachedLock:
        """Acquires the lock; see `leasehold_client.DetachedRequest.acquire`."""
        return DetachedLock(self._client, self._run(self._inner.acquire(timeout=timeout)))

    def try_acquire(self) -> DetachedLock | None:
        """Returns the lock, or none if it is not free. Otherwise as `acquire`."""
        try:
            return self.acquire(timeout=0)
        except Busy:
            return None


class DetachedLock(detached.DetachedView):
    """Lock that no session holds. It outlives this process, until its TTL has passed, and only `renew` makes it last for longer."""

    def __init__(self, client: Client, inner: detached.DetachedLock) -> None:
        """Makes it of the form for tasks."""
        self._inner, self._run = inner, client._run
        self._view = inner._view

    renew = blocking(detached.DetachedLock.renew)
    release = blocking(detached.DetachedLock.release)
