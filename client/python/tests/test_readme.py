"""Every example of the README runs as it stands, against a real coordinator."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Coordinator

EXAMPLES = re.findall(r"```python\n(.*?)```", (Path(__file__).parent.parent / "README.md").read_text(), re.DOTALL)
TASKS = ["held, token", "held\n", "3 of 10\n", "runs, token", "leading, token"]
THREADS = ["row 0 token", "held\n", "2 of 10\n", "leading, token"]
STOPS = ["", ""]
OUTPUTS = [*TASKS, *THREADS, *STOPS, "stopped: forced\n"]
# What the text leaves to the reader.
SERVE = """
import os, signal, leasehold_client

async def serve(client):
    async with client.lock("stop"):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)
"""
SERVE_IN_THREAD = """
def serve(client):
    import os, leasehold_client
    try:
        with client.lock("stop") as lock:
            os.kill(os.getpid(), signal.SIGTERM)
            lock.lost.wait()
            lock.check()
    except leasehold_client.SessionClosed:
        pass
"""


def test_no_example_is_left_out() -> None:
    assert len(EXAMPLES) == len(OUTPUTS)
    assert all(len(example.strip().splitlines()) <= 13 for example in EXAMPLES)


@pytest.mark.parametrize("number", range(len(OUTPUTS)))
def test_examples(shared: Coordinator, number: int) -> None:
    program = EXAMPLES[number].replace("http://127.0.0.1:7420", shared.url)
    if "serve" in program:
        program = SERVE + program + "asyncio.run(main())\n" if "asyncio" in program else SERVE_IN_THREAD + program
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(OUTPUTS[number])
