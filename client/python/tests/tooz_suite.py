"""Runner of tooz's own coordination tests, which prints the outcome of each as a line of JSON."""

import json
import sys
import time
import unittest
from typing import Any


class Outcomes(unittest.TestResult):
    """Result that prints each outcome."""

    def startTest(self, test: unittest.TestCase) -> None:
        """Notes when a test begins."""
        self._began = time.monotonic()
        super().startTest(test)

    def _print(self, test: unittest.TestCase, outcome: str, text: str = "") -> None:
        name = test.id().rpartition(".")[2]
        took = round(time.monotonic() - self._began, 3)
        print(json.dumps({"test": name, "outcome": outcome, "text": text, "seconds": took}), flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Prints a success."""
        self._print(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Prints a skip."""
        self._print(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Prints a failure."""
        self._print(test, "failed", self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Prints an error."""
        self.addFailure(test, err)


if __name__ == "__main__":
    unittest.defaultTestLoader.loadTestsFromName(sys.argv[1]).run(Outcomes())
