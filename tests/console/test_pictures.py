"""The pictures of docs/console.md: each page and tab of the console has one in each theme, and the page shows it."""

from __future__ import annotations

import re
from pathlib import Path

import frazil.console
from tests.console.pictures import FOLDER, OPERATOR_PAGES, PAGES, PROJECT_PAGES

STATIC = Path(frazil.console.__file__).parent / "static"
ADDRESSES = {**PAGES, **PROJECT_PAGES, **OPERATOR_PAGES}
FIRST = re.compile(r'\["([\w-]+)"')


def keys(file: str, constant: str) -> list[str]:
    """The keys of a list of pages or tabs in a file of the front end."""
    text = (STATIC / file).read_text(encoding="utf-8")
    match = re.search(rf"const {constant} = \[(.+?)\];", text, re.DOTALL)
    assert match is not None, f"{file} has no {constant}"
    return FIRST.findall(match[1])


def test_each_page_and_tab_has_a_picture_in_both_themes() -> None:
    shown = {address.split("?")[0] for address in ADDRESSES.values()}
    places = [tuple(address.split("/")) for address in shown]
    pages = {*keys("shell.js", "PAGES"), *keys("shell.js", "OPERATOR_PAGES")} - {"tables"}
    assert pages <= {place[0] for place in places}, "and the list of tables has no address"
    first = {"table.js": "overview", "access.js": "keys"}  # tabs that an address need not name
    for file, page, at in (("table.js", "table", 4), ("access.js", "access", 2), ("pipelines.js", "pipelines", 2)):
        named = {place[at] if len(place) > at else first[file] for place in places if place[0] == page}
        assert named == set(keys(file, "TABS")), page
    views = {name.partition("-")[2] for name in PAGES if name.startswith("sql-")}
    assert {"rows", *views} == set(keys("sql.js", "VIEWS"))
    files = {file.stem for file in FOLDER.glob("*.png")}
    assert files == {f"{name}-{theme}" for name in ADDRESSES for theme in ("light", "dark")}


def test_every_picture_is_shown_or_linked() -> None:
    text = (FOLDER.parent / "console.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(console/([\w-]+)\.png\)", text))
    assert linked == {file.stem for file in FOLDER.glob("*.png")}
