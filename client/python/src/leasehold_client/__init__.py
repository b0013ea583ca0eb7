"""Client of Leasehold, a lock coordinator with streaming leases.

`connect` returns a client for asyncio; `leasehold_client.sync` has the same for threads.

    async with leasehold_client.connect("http://127.0.0.1:7420") as client:
        async with client.lock("orders/42", wait=5) as lock:  # a loss cancels the body and raises LockLost
            await work(lock.token)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _fork as _fork  # before gRPC
from . import actor, admin, client, detached, election, errors, hold, request, session, views
from ._version import VERSION
from .actor import *
from .admin import *
from .client import *
from .detached import *
from .election import *
from .errors import *
from .hold import *
from .request import *
from .session import *
from .views import *

__version__ = VERSION

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports a module of the package when it is first used. Those of adapters need their extras."""
        if name in ("apscheduler", "celery", "opentelemetry", "redis", "sync", "testing", "tooz"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__: list[str] = []
__all__ += actor.__all__
__all__ += admin.__all__
__all__ += client.__all__
__all__ += detached.__all__
__all__ += election.__all__
__all__ += errors.__all__
__all__ += hold.__all__
__all__ += request.__all__
__all__ += session.__all__
__all__ += views.__all__
