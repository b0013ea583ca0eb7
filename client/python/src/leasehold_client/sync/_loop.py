"""Event loop of the clients for threads, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from .. import _fork
from .._transport import check_process
from ..errors import Forked, SessionClosed

T = TypeVar("T")


class Loop:
    """Event loop in a thread of its own."""

    def __init__(self) -> None:
        check_process()
        self._generation = _fork.generation()
        self._loop = asyncio.new_event_loop()
        # Nothing is handed to a loop that stops. A handler of a signal may be in the thread that has it.
        self._gate = threading.RLock()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name="leasehold", daemon=True)
        self._thread.start()
        # The interpreter must not end under a thread that uses gRPC.
        atexit.register(self.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine there, and waits for it. If the wait is interrupted, it is cancelled, and what it was granted given back.

        Raises `SessionClosed` once the loop was stopped.
        """
        if self._generation != _fork.generation():
            work.close()
            raise Forked("the client was made before this process was forked")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself: callbacks of the client's own thread must not call it")
        with self._gate:
            if self._is_stopping:
                work.close()
                raise SessionClosed("")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise SessionClosed("") from None
        except BaseException:
            if not future.done():
                # The wait was interrupted, for example by Ctrl-C.
                future.cancel()
            raise

    def stop(self) -> None:
        """Ends the loop and its thread."""
        if self._generation != _fork.generation():
            return
        with self._gate:
            if not self._is_stopping:
                self._is_stopping = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        atexit.unregister(self.stop)
