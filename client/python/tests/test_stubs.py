"""The committed stubs, reasons and version are those of the repository."""

import re
import subprocess
import sys
from pathlib import Path

from leasehold_client import __version__
from leasehold_client._reasons import FINAL, RETRYABLE

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent.parent


def test_the_stubs_are_current() -> None:
    done = subprocess.run([sys.executable, HERE.parent / "generate.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_reason_is_known_with_its_rule_for_retries() -> None:
    source = (REPOSITORY / "proto" / "reason.rs").read_text()
    rules = dict(re.findall(r'= "([A-Z_]+)", \w+, (No|Yes|Elsewhere);', source))
    assert len(rules) > 30
    assert {reason for reason, rule in rules.items() if rule == "No"} == FINAL
    assert {reason for reason, rule in rules.items() if rule != "No"} == RETRYABLE


def test_the_version_is_that_of_the_coordinator() -> None:
    manifest = (REPOSITORY / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.*)"$', manifest, re.MULTILINE)
    project = re.search(r'^version = "(.*)"$', (HERE.parent / "pyproject.toml").read_text(), re.MULTILINE)
    assert found and project and found[1] == project[1] == __version__
