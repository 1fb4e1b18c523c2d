"""What a run of the tests says depends on the code alone, not on the tests that ran before in the same process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def draw_examples() -> list[int]:
    seen: list[int] = []

    @settings(max_examples=300)
    @given(st.integers())
    def note(number: int) -> None:
        seen.append(number)

    note()
    return seen


def test_examples_are_the_same_whatever_else_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = draw_examples()
    (tmp_path / "imported_later.py").write_text(f"NUMBERS = {[7_000_003 + number for number in range(50)]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_later")
    try:
        assert draw_examples() == before
    finally:
        del sys.modules["imported_later"]
