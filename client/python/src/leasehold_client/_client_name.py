"""Name of a client that sets none: its program, host and process, by which operators find it."""

from __future__ import annotations

import os
import socket
import sys
import unicodedata
from pathlib import PurePath

LONGEST_PROGRAM = 32
"""Most bytes of the program's name."""
LONGEST_HOST = 64
"""Most bytes of the host's name."""


def client_name(program: str | None = None) -> str:
    """Returns the name `PROGRAM@HOST/PID` of this process."""
    return named(running_program() if program is None else program, socket.gethostname(), os.getpid())


def named(program: str, host: str, process: int) -> str:
    """Returns the name of a process."""
    return f"{_part(program, LONGEST_PROGRAM)}@{_part(host, LONGEST_HOST)}/{process}"


def running_program() -> str:
    """Returns the name of the script or module that runs."""
    path = PurePath((getattr(sys, "argv", None) or [""])[0])
    # `python -m package` runs its `__main__.py`.
    name = path.parent.name if path.stem == "__main__" else path.stem
    # A session that is typed, or `python -c`, has none.
    return "python" if name in ("", "-", "-c") else name


def _part(text: str, most: int) -> str:
    """Returns the text without control characters, which a coordinator would refuse, and with at most so many bytes."""
    clean = "".join(c for c in text if unicodedata.category(c) != "Cc")
    return clean.encode(errors="replace")[:most].decode(errors="ignore") or "unknown"
