"""Detection of gevent and eventlet, which replace threads by tasks of one thread: gRPC's would freeze that one, and the program with it."""

from __future__ import annotations

import sys

from .errors import MonkeyPatched


def check_threads() -> None:
    """Fails if the threads of this process are none, or its event loops can't wait."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent and (gevent.is_module_patched("threading") or gevent.is_module_patched("select")):
        raise MonkeyPatched("gevent", "gevent.monkey.patch_all()", "gunicorn -k gthread, celery -P threads or -P prefork")
    if eventlet and eventlet.is_monkey_patched("thread"):
        raise MonkeyPatched("eventlet", "eventlet.monkey_patch()", "gunicorn -k gthread, celery -P threads or -P prefork")
