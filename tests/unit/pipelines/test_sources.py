"""Which landing files count, and which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import PipelineError
from frazil.pipelines import sources


def listed(folder: Path, pattern: str) -> list[str]:
    return [file.path for file in sources.csv(pattern).list_files(folder)]


def test_files_that_match_are_listed_in_order_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_part.csv", ".tmp.csv", "other.txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.csv").mkdir()
    assert listed(tmp_path, "*.csv") == ["a.csv", "b.csv"]


def test_a_missing_or_empty_landing_folder_holds_no_files(tmp_path: Path) -> None:
    assert listed(tmp_path, "landing/*.csv") == []


@pytest.mark.parametrize("pattern", ["/data/*.csv", "s3://bucket/*.csv"])
def test_a_pattern_outside_the_project_is_refused_instead_of_matching_nothing(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(PipelineError, match=r"does not lie in the project"):
        listed(tmp_path, pattern)


def test_a_file_that_was_rewritten_counts_as_another(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    before = sources.csv("*.csv").list_files(tmp_path)
    (tmp_path / "a.csv").write_text("22")
    assert set(sources.csv("*.csv").list_files(tmp_path)).isdisjoint(before)
