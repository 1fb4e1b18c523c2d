"""The parts of pages that come from code: they stand between two marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fill(text: str, name: str, content: str) -> str:
    """The page with `content` between the marks of this name.

    >>> fill("a\\n<!-- x: from make docs -->\\nold\\n<!-- end of x -->\\nb", "x", "new").splitlines()[2]
    'new'
    """
    begin, end = f"<!-- {name}: from make docs -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"the page has no section between '{begin}' and '{end}'")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text)


def fill_page(page: str, name: str, content: str) -> str:
    """A page of the repository with `content` between the marks of this name."""
    return fill((ROOT / page).read_text(encoding="utf-8"), name, f"\n{content}\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(table(("a", "b"), [("1", "x | y")]))
    | a | b |
    | --- | --- |
    | 1 | x \\| y |
    """
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
