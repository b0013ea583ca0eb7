"""The package as it is installed: nothing is left in the checkout, and its description has no link that leads nowhere."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import leasehold_client

HERE = Path(__file__).resolve().parent.parent


def test_a_wheel_leaves_nothing_behind(tmp_path: Path) -> None:
    before = sorted(os.listdir(HERE)) + sorted(os.listdir(HERE / "src"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(tmp_path),
        str(HERE),
    ]
    subprocess.run(command, check=True, timeout=300)
    assert sorted(os.listdir(HERE)) + sorted(os.listdir(HERE / "src")) == before
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.startswith(f"leasehold_client-{leasehold_client.__version__}-")
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        metadata = email.message_from_bytes(files.read(next(name for name in names if name.endswith("METADATA"))))
    assert {"leasehold_client/py.typed", "leasehold_client/v1/session_pb2.pyi", "leasehold_client/testing.py"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"leasehold_client"}
    described = metadata.get_payload()
    assert isinstance(described, str) and "# leasehold-client for Python" in described
    assert re.findall(r"\]\((?!https?:|#)", described) == [] and metadata["Project-URL"] is metadata["Home-page"] is None


def test_modules_need_no_import_of_their_own() -> None:
    program = "import leasehold_client; leasehold_client.sync.connect('http://127.0.0.1:1'); leasehold_client.testing.Coordinator()"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
    assert not hasattr(leasehold_client, "wrong")
