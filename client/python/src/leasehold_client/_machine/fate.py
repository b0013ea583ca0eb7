"""Fate of what a failed attempt to open a stream was to resume."""

from enum import Enum

from .._failure import Failure
from .._reasons import BEFORE_THE_STORE, SESSION_ENDED
from ..errors import ConnectError, ConnectErrorKind


class Fate(Enum):
    """Fate of the holds and waiters that a stream which has not opened was asked to take over."""

    DECLINED = "declined"
    """Nothing was taken over."""
    KEPT = "kept"
    """The coordinator may have taken them over, and keeps them until they expire."""
    DROPPED = "dropped"
    """The coordinator may have taken them over, has noticed the end of the stream, and may have released them."""
    ENDED = "ended"
    """An operator ended the session: what was to be taken over is lost, whatever the grace."""


# A proxy in between answers with these, and passes nothing on. C core makes none of them of a broken connection.
_PROXY = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNAUTHENTICATED", "UNIMPLEMENTED")


def fate_of(error: ConnectError) -> Fate:
    """Returns the fate after a stream that ended with this error."""
    if error.kind in (ConnectErrorKind.INVALID_ENDPOINT, ConnectErrorKind.CREDENTIALS):
        return Fate.DECLINED
    if error.kind is ConnectErrorKind.TIMED_OUT:
        # The connection is kept until there is another stream.
        return Fate.KEPT
    if error.failure is None or error.failure.is_transport:
        return Fate.DROPPED
    return fate_of_answer(error.failure)


def fate_of_answer(failure: Failure) -> Fate:
    """Returns the fate after a stream that was ended with this answer."""
    if not failure.reason:
        return Fate.DECLINED if failure.code in _PROXY else Fate.DROPPED
    if failure.reason == SESSION_ENDED:
        return Fate.ENDED
    return Fate.DECLINED if failure.reason in BEFORE_THE_STORE else Fate.KEPT
