"""State machine of a session, pure: no socket, no task, no clock. Time is passed in, and its driver carries out the outputs.

Its rules are those of the Rust client's machine (`client/src/session`), module by module:

- `machine.py`: inputs and their order; `state.py`: what all parts share, and the alarm
- `waits.py`, `requests.py`: acquires; releases and changes of holds
- `moving.py`, `resume.py`: moves to another stream, and what that stream is asked to take over
- `answers.py`: the coordinator's messages
- `holds.py`, `ids.py`, `heartbeats.py`, `stream.py`, `pending.py`, `spec.py`, `output.py`, `fate.py`: parts without the session
"""

from .fate import Fate, fate_of
from .machine import Machine, StreamEnd
from .output import Acquired, Draining, Ended, Granted, HangUp, HoldDone, HoldResult, Leave, Opened, Output, Send, SessionInfo
from .spec import AcquireSpec, Change, Downgrade, LockSpec, Reduce, Value

__all__ = [
    "AcquireSpec",
    "Acquired",
    "Change",
    "Downgrade",
    "Draining",
    "Ended",
    "Fate",
    "Granted",
    "HangUp",
    "HoldDone",
    "HoldResult",
    "Leave",
    "LockSpec",
    "Machine",
    "Opened",
    "Output",
    "Reduce",
    "Send",
    "SessionInfo",
    "StreamEnd",
    "Value",
    "fate_of",
]
