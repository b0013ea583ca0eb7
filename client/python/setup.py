"""What `pyproject.toml` can't say: builds leave nothing in the checkout, and the README is shown where its links lead nowhere."""

import atexit
import re
import shutil
import tempfile
from pathlib import Path

from setuptools import setup

# Within the checkout, a module that was removed since would be installed again.
base = tempfile.mkdtemp(prefix="leasehold-client-")
atexit.register(shutil.rmtree, base, ignore_errors=True)
readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")

setup(
    long_description=re.sub(r"\[([^]]+)\]\((?!https?:|#)[^)]*\)", r"\1", readme),
    long_description_content_type="text/markdown",
    options={"build": {"build_base": base}, "egg_info": {"egg_base": base}},
)
