"""Which landing files count, and which do not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.errors import DeclarationError
from frazil.pipelines import sources
from frazil.pipelines.files.listing import _as_regex
from tests.kit.raising import raises


def listed(folder: Path, pattern: str) -> list[str]:
    return [file.path for file in sources.csv(pattern).list_files(folder)]


def test_files_that_match_are_listed_in_order_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_part.csv", ".tmp.csv", "other.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.csv").mkdir()
    assert listed(tmp_path, "*.csv") == ["a.csv", "b.csv"]


def test_a_file_in_a_hidden_folder_is_hidden_unless_the_pattern_names_the_folder(tmp_path: Path) -> None:
    for folder in ("_temporary", "done"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").touch()
    assert listed(tmp_path, "**/*.csv") == ["done/a.csv"]
    assert listed(tmp_path, "_temporary/*.csv") == ["_temporary/a.csv"]


def test_a_missing_or_empty_landing_folder_holds_no_files(tmp_path: Path) -> None:
    assert listed(tmp_path, "landing/*.csv") == []


def test_files_outside_the_project_are_named_by_their_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert listed(Path("/"), f"{tmp_path}/*.csv") == [f"{tmp_path}/a.csv"]


def test_a_pattern_on_an_unsupported_store_is_refused() -> None:
    with raises(DeclarationError, option="pattern", got="gs://bucket/*.csv"):
        sources.csv("gs://bucket/*.csv")


def test_a_file_that_was_rewritten_counts_as_another(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    before = sources.csv("*.csv").list_files(tmp_path)
    (tmp_path / "a.csv").write_text("2")
    os.utime(tmp_path / "a.csv", ns=(1, 1))
    assert set(sources.csv("*.csv").list_files(tmp_path)).isdisjoint(before)


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("landing/*.csv", "landing/a.csv", True),
        ("landing/*.csv", "landing/2024/a.csv", False),
        ("landing/**/*.csv", "landing/2024/01/a.csv", True),
        ("landing/**/*.csv", "landing/a.csv", True),
        ("landing/sales-????.csv", "landing/sales-2024.csv", True),
        ("landing/[a-c]*.csv", "landing/d.csv", False),
        ("landing/a.csv", "landing/aXcsv", False),
    ],
)
def test_keys_match_patterns_as_paths_do(pattern: str, key: str, matches: bool) -> None:
    assert bool(re.fullmatch(_as_regex(pattern), key)) is matches


def test_a_table_source_reads_new_rows_changes_or_all() -> None:
    read = [sources.table("s.t"), sources.table("s.t", changes=True), sources.table("s.t", full=True)]
    assert [(source.name, source.changes, source.full) for source in read] == [
        ("s.t", False, False),
        ("s.t", True, False),
        ("s.t", False, True),
    ]


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda: sources.table("orders"), {"option": "name", "got": "orders"}),
        (lambda: sources.table("s..t"), {"option": "name"}),
        (lambda: sources.table("s.t", changes=True, full=True), {"option": "full", "problem": "exclusive"}),
        (lambda: sources.spark(""), {"option": "format"}),
        (lambda: sources.spark("jdbc", high_water_mark=""), {"option": "high_water_mark"}),
        (lambda: sources.spark("jdbc", url=None), {"option": "url", "problem": "missing"}),
    ],
)
def test_a_wrong_table_or_spark_source_is_refused(make: Callable[[], object], facts: dict[str, object]) -> None:
    with raises(DeclarationError, **facts):
        make()


def test_the_options_of_a_spark_source_are_text_and_are_not_shown() -> None:
    source = sources.spark("jdbc", high_water_mark="id", url="jdbc:x", password="secret", fetchsize=100, ssl=True)
    assert dict(source.options) == {"url": "jdbc:x", "password": "secret", "fetchsize": "100", "ssl": "true"}
    assert (source.high_water_mark, "secret" in repr(source)) == ("id", False)
