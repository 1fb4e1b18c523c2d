"""No file uses a word or phrase that this project has replaced (see tools/language.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import language


def test_the_repository_uses_the_words_of_its_field() -> None:
    findings = [str(finding) for path in language.files() for finding in language.check(path)]
    assert findings == []


def test_every_exception_is_needed() -> None:
    """An entry of the allow list that no line needs is removed."""
    for name, part in language.ALLOWED:
        if part:
            assert part in (language.ROOT / name).read_text(encoding="utf-8"), f"{name}: {part}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for one in files:\n    pass\n", ["one"]),
        ("found = 1  # nobody knows\n", ["found", "nobody"]),
        ('"""Publishes\na commit a batch."""\n', ["a commit a batch"]),
        ("def read_abreast() -> None: ...\n", ["read_abreast"]),
        ('field = "next to"  # one commit per batch\n', []),
        ("from hypothesis import given\n\n\n@given()\ndef test() -> None: ...\n", []),
    ],
)
def test_names_comments_and_strings_are_checked(source: str, expected: list[str]) -> None:
    assert [text for _, text, _ in language.check_python(source)] == expected


def test_a_file_is_reported_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("Rows.\n\nSums begin at nought.\n")
    assert [str(finding) for finding in language.check(page)] == ["page.md:3: 'nought': write zero"]
