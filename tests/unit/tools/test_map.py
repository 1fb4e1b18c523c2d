"""The map in docs/architecture.md: a newcomer finds every folder in it, and every file that is more than a detail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import frazil

SOURCE = Path(frazil.__file__).parent
FOLDERS = sorted(folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists())
LONG = 150  # lines: from here on a file has a subject of its own


def entries() -> dict[str, str]:
    """What the map says, by folder or file."""
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text().partition("    src/frazil/\n")[2].partition("    examples/")[0]
    return dict(re.findall(r"^ {6}([a-z]\S*?)/? +(.*(?:\n {20}.*)*)", text, re.MULTILINE))


def test_every_folder_and_no_other_is_in_the_map() -> None:
    said = entries()
    planned = {name for name, text in said.items() if text.startswith("(planned)")}
    assert sorted(name for name in said if "." not in name and name not in planned) == FOLDERS
    assert planned.isdisjoint(FOLDERS)


@pytest.mark.parametrize("folder", sorted(set(FOLDERS) - {"cli"}))  # there a file is a command
def test_the_files_of_a_folder_that_are_more_than_a_detail_are_named(folder: str) -> None:
    large = {file.stem for file in (SOURCE / folder).glob("*.py") if len(file.read_text().splitlines()) >= LONG}
    assert sorted(large - set(re.findall(r"\w+", entries()[folder]))) == []
