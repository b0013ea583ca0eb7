"""Errors of this library as tooz raises them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tooz
from tooz import coordination

from ..errors import CallFailed, ConnectError, LeaseholdError, TimedOut, Unavailable


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises errors of this library as those of tooz."""
    try:
        yield
    except LeaseholdError as error:
        is_cut_off = isinstance(error, ConnectError | Unavailable) or (isinstance(error, CallFailed) and error.failure.is_transport)
        if is_cut_off:
            raise coordination.ToozConnectionError(str(error), cause=error) from error
        if isinstance(error, TimedOut):
            raise coordination.OperationTimedOut(str(error), cause=error) from error
        raise tooz.ToozError(str(error), cause=error) from error
