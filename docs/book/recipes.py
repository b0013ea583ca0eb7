#!/usr/bin/env python3
"""Snippets of docs/languages.md: functions of the libraries' examples, which tests run, between the lines `recipe: NAME` and `end recipe`.

A block of the page with `recipe=NAME` behind its language is the snippet of that name, word for word.

    docs/book/recipes.py     puts the snippets into the page
"""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/languages.md"
SOURCES = {
    "rust": ["client/examples/recipes.rs", "tests/clients/rust/sessions/recipes.rs"],
    "go": ["client/go/recipes_test.go"],
    "python": ["client/python/examples/recipes.py", "client/python/tests/test_recipes.py"],
    "js": ["client/node/examples/recipes.mjs"],
    "java": ["client/java/leasehold-client/src/test/java/dev/leasehold/recipes/RecipesTest.java"],
}


def snippet(language: str, name: str) -> str:
    """Returns a recipe in a language."""
    for source in SOURCES[language]:
        marked = rf"(?m)^[ \t]*(?://|#) recipe: {name}\n((?s:.*?))^[ \t]*(?://|#) end recipe$"
        if found := re.search(marked, (ROOT / source).read_text()):
            return textwrap.dedent(found[1]).strip("\n") + "\n"
    raise AssertionError(f"no recipe {name} in {SOURCES[language]}")


def main() -> None:
    def filled(block: re.Match[str]) -> str:
        return f"{block[1]}{snippet(block[2], block[3])}```\n"

    page = re.sub(r"(?ms)^(```(\w+) recipe=([a-z-]+)\n).*?^```\n", filled, PAGE.read_text())
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
