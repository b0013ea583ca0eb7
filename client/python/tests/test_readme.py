"""Every example of the README runs as it stands, against a real coordinator."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Coordinator

EXAMPLES = re.findall(r"```python\n(.*?)```", (Path(__file__).parent.parent / "README.md").read_text(), re.DOTALL)
OUTPUTS = ["held, token", "held\n", "2 of 10\n", "leading, token", "row 0 token", "held\n", "2 of 10\n", "leading, token"]


def test_no_example_is_left_out() -> None:
    assert len(EXAMPLES) == len(OUTPUTS)
    assert all(len(example.strip().splitlines()) <= 13 for example in EXAMPLES)


@pytest.mark.parametrize("number", range(len(OUTPUTS)))
def test_examples(shared: Coordinator, number: int) -> None:
    program = EXAMPLES[number].replace("http://127.0.0.1:7420", shared.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(OUTPUTS[number])
