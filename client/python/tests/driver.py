"""Driver of this library for the conformance runner: JSON lines on stdin and stdout, as the runner's protocol has them.

python driver.py asyncio
python driver.py sync
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from conformance.tasks import Asyncio
from conformance.threads import Sync


def main() -> None:
    """Serves with the interface that the argument names."""
    if sys.argv[1:] == ["sync"]:
        Sync().run()
    else:
        asyncio.run(Asyncio().run())


if __name__ == "__main__":
    main()
