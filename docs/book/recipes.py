#!/usr/bin/env python3
"""Snippets of docs/languages.md and docs/http.md: parts of the libraries' examples, which tests run, between the lines `recipe: NAME` and
`end recipe`, or `example: NAME` and `end example`.

A block with `recipe=NAME` behind its language is the snippet of that name, word for word.

    docs/book/recipes.py     puts the snippets into the pages
"""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs/languages.md", ROOT / "docs/http.md"]
SOURCES = {
    "rust": ["client/examples/recipes.rs", "tests/clients/rust/sessions/recipes.rs"],
    "go": ["client/go/recipes_test.go"],
    "python": ["client/python/examples/recipes.py", "client/python/tests/test_recipes.py"],
    "js": [f"client/node/examples/{name}.mjs" for name in ("recipes", "fetch", "connect-web")],
    "java": ["client/java/leasehold-client/src/test/java/dev/leasehold/recipes/RecipesTest.java"],
}


def snippet(language: str, name: str) -> str:
    """Returns a recipe in a language."""
    for source in SOURCES[language]:
        marked = rf"(?m)^[ \t]*(?://|#) (?:recipe|example): {name}\n((?s:.*?))^[ \t]*(?://|#) end (?:recipe|example)$"
        if found := re.search(marked, (ROOT / source).read_text()):
            return textwrap.dedent(found[1]).strip("\n") + "\n"
    raise AssertionError(f"no recipe {name} in {SOURCES[language]}")


def main() -> None:
    def filled(block: re.Match[str]) -> str:
        return f"{block[1]}{snippet(block[2], block[3])}```\n"

    for page in PAGES:
        page.write_text(re.sub(r"(?ms)^(```(\w+) recipe=([a-z-]+)\n).*?^```\n", filled, page.read_text()))


if __name__ == "__main__":
    main()
