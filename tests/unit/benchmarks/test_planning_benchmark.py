"""The tables of the planning benchmark: what is made of bytes is what PyIceberg reads, and both planners find the same
files in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.planning.case import ours, pyiceberg
from benchmarks.planning.tables import make_table


@pytest.mark.parametrize(("query", "tasks"), [("day", 1), ("needle", 1), ("full", 1_100)])
def test_both_planners_find_the_same_files_in_a_made_table(tmp_path: Path, query: str, tasks: int) -> None:
    metadata = make_table(tmp_path / "made", 1_100)
    assert [plan(query, metadata, 1_100)() for plan in (ours, pyiceberg)] == [tasks, tasks]
