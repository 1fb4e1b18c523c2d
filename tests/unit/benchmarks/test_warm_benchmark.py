"""The figures of `benchmarks.warm`: the second run has the goal, whatever the others took."""

from __future__ import annotations

import pytest

from benchmarks.report import Figure
from benchmarks.warm.measure import Runs, figures_of


@pytest.mark.parametrize(("seconds", "met"), [(2.9, True), (3.1, False)])
def test_the_second_run_in_the_warm_spark_is_to_take_three_seconds(seconds: float, met: bool) -> None:
    first, second, goal, later = figures_of(Runs([20.0, 30.0, 25.0], [8.0, seconds, 2.0, 4.0, 3.0]))
    assert (first.ours, first.peer, second.ours, later.ours) == (8.0, 25.0, seconds, 3.0)
    assert goal == Figure("load of 500 rows, second run, s", seconds, 3.0, "the limit", goal.ratio, 1.0, met)
