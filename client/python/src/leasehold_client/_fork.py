"""Generation of this process, which changes in the child of a fork.

A child holds nothing: the session belongs to the parent, which goes on renewing it. Every hold and client notes the generation in
which it was made, and answers "lost" or refuses in any other. No lock of a thread is taken for that, since another thread may
have had it at the moment of the fork.
"""

import gc
import os
import socket
from collections.abc import Callable

# C core's own handlers start its pollers again in the child, which abort the child now and then. It reads this when it is first used.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_generation = 0
# The first generation in which gRPC was used.
_used_in: int | None = None
_in_child: list[Callable[[], None]] = []


def generation() -> int:
    """Returns the number of forks between the program's first process and this one."""
    return _generation


def uses_grpc() -> bool:
    """Notes that gRPC is used here. Returns whether it can be: its threads do not come along into the child of a process that used it."""
    global _used_in
    if _used_in is None:
        _used_in = _generation
    return _used_in == _generation


def in_child(callback: Callable[[], None]) -> None:
    """Has a callback called in each child, before the program goes on there."""
    _in_child.append(callback)


def cut_sockets(peers: set[tuple[str, int]]) -> None:
    """Replaces this process's sockets to these addresses and ports by ones that lead nowhere. The parent's are not touched."""
    try:
        numbers = [int(number) for number in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd")]
    except OSError:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    for number in numbers:
        try:
            with socket.socket(fileno=os.dup(number)) as inherited:
                peer = inherited.getpeername()
        except OSError:
            continue
        # Sockets of both families show an IPv4 address so.
        if isinstance(peer, tuple) and (str(peer[0]).removeprefix("::ffff:"), peer[1]) in peers:
            os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


def _after_in_child() -> None:
    global _generation
    _generation += 1
    if _used_in is not None:
        # What gRPC left behind in the parent would wait here for its threads, for ever, when it is collected: at the end at the latest.
        gc.freeze()
    for callback in _in_child:
        callback()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_in_child)
