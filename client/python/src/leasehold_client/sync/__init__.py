"""Client for threads, as safe as that for asyncio: its sessions live in an event loop of their own thread.

    with leasehold_client.sync.connect("http://127.0.0.1:7420") as client:
        with client.lock("orders/42") as lock:
            for row in rows:
                lock.check()  # raises LockLost
                write(row, lock.token)

A thread can't be interrupted, so that the body looks itself: `check()` reads the clock, `lost` is an event, `on_lost=` a callback. Every
method may be called by any thread.
"""

from ._admin import Admin, Watcher
from ._client import Client, Session, connect
from ._detached import DetachedLock, DetachedRequest
from ._elections import Election, Leadership, Observer, Term
from ._holds import Hold, Holds
from ._requests import LockRequest, Semaphore

__all__ = [
    "Admin",
    "Client",
    "DetachedLock",
    "DetachedRequest",
    "Election",
    "Hold",
    "Holds",
    "Leadership",
    "LockRequest",
    "Observer",
    "Semaphore",
    "Session",
    "Term",
    "Watcher",
    "connect",
]
