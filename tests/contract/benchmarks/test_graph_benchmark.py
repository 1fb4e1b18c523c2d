"""The benchmark of graphs: what is made of the measurements, and that all cases must come to the same tables."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.graph.measure import check_tables, figures
from benchmarks.graph.rows import QUICK, ids


def result(cpu_s: float, tables: object = ()) -> dict[str, Any]:
    return {"start": {"cpu_s": 0, "wall_s": 9.0}, "changes": [{"cpu_s": cpu_s, "wall_s": cpu_s}] * 3, "tables": tables}


@pytest.mark.parametrize(("again_s", "met"), [(50.0, True), (49.0, False)])
def test_a_change_takes_a_tenth_of_the_cpu_of_a_rebuild(again_s: float, met: bool) -> None:
    first, *others = figures({"ours": result(5.0), "rebuild": result(again_s)}, QUICK)
    assert (first.ratio, first.met) == (again_s / 5, met)
    assert [figure.met for figure in others] == [None, None]


def test_cases_that_differ_are_an_error() -> None:
    check_tables({"ours": result(1.0, [1]), "rebuild": result(2.0, [1])})
    with pytest.raises(RuntimeError, match="differ"):
        check_tables({"ours": result(1.0, [1]), "rebuild": result(2.0, [2])})


def test_loads_follow_each_other_and_a_change_is_one_percent() -> None:
    assert [ids(QUICK, number) for number in range(3)] == [(0, 400_000), (400_000, 404_000), (404_000, 408_000)]
