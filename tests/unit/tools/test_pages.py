"""The pages of docs/: short paragraphs, links that lead somewhere, and one order for pages about a feature."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
MOST_CHARACTERS = 5 * 120  # five lines
# Pages that say what a feature is for, then an example, then these sections, in this order.
FEATURES = (
    *(
        "catalog",
        "client",
        "cluster",
        "console",
        "daft",
        "delta",
        "engines",
        "environments",
        "history",
        "models",
        "orchestration",
        "pipelines",
        "quarantine",
        "reads",
    ),
    *("security", "sinks", "stack", "streams", "tables", "upkeep", "upserts", "vector"),
)
SECTIONS = ["Options", "Guarantees", "Limits"]

FENCE = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```$", re.DOTALL | re.MULTILINE)
STARTS_BLOCK = re.compile(r"\s*(?:[-*] |\d+\. )")
NO_PROSE = re.compile(r"\s*(?:\||#|<!--|$)|    (?! *(?:[-*] |\d+\. ))")


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and list items of a page; code, tables and headings are none."""
    lines: list[str] = []
    for line in [*FENCE.sub("", text).splitlines(), ""]:
        code_or_gap = NO_PROSE.match(line) if not lines else not line.strip() or NO_PROSE.match(line.lstrip())
        if lines and (code_or_gap or STARTS_BLOCK.match(line)):
            yield " ".join(lines)
            lines = []
        if not code_or_gap:
            lines.append(line.strip())


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)


def anchor(heading: str) -> str:
    """The anchor that Markdown gives a heading.

    >>> anchor("`frazil log`: what happened")
    'frazil-log-what-happened'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_a_paragraph_has_at_most_five_lines(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [paragraph for paragraph in paragraphs(text) if len(paragraph) > MOST_CHARACTERS] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_to_a_heading_in_it(page: str) -> None:
    source = ROOT / page
    broken = []
    for target, name in re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", FENCE.sub("", source.read_text("utf-8"))):
        file = source if not target else source.parent / target
        if not file.exists() or (name and name not in map(anchor, headings(file.read_text("utf-8")))):
            broken.append(f"{target}#{name}")
    assert broken == []


@pytest.mark.parametrize("feature", FEATURES)
def test_a_page_about_a_feature_has_one_order(feature: str) -> None:
    text = (ROOT / "docs" / f"{feature}.md").read_text(encoding="utf-8")
    purpose, example, _ = text.split("```", 2)
    assert len("".join(paragraphs(purpose))) > 0, "says first what it is for"
    assert "\n## Options\n" not in purpose, "the example comes before the options"
    assert example.strip(), "has an example"
    assert [heading for heading in headings(text) if heading in SECTIONS] == SECTIONS


def test_paragraphs_leave_out_code_tables_and_headings() -> None:
    page = """# Title
One line
and another.

- an item
  that goes on
- a second one

    code = 1

| a | table |

```sh
more code
```
"""
    assert list(paragraphs(page)) == ["One line and another.", "- an item that goes on", "- a second one"]
