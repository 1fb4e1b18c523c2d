"""The figures and the plot of `benchmarks.upkeep`, from series that need no server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.upkeep.measure import Series, figures_of, keep
from benchmarks.upkeep.plot import draw
from benchmarks.upkeep.polling import poll_ms

P99 = "p99 of 110 commits, ms, median of 1"


def series(files: list[int], plan_ms: list[float], commit_seconds: float, last_seconds: float) -> Series:
    times = [commit_seconds] * 99 + [last_seconds]
    return Series(
        commits=[(float(at), seconds) for at, seconds in enumerate([9.9] * 10 + times)],
        files=[(float(at), number) for at, number in enumerate(files)],
        snapshots=[(0.0, 1)],
        plans=[(float(at), ms) for at, ms in enumerate(plan_ms)],
        phases=[0],
    )


def phases(*last_seconds: float) -> Series:
    """A phase of 110 commits for each of these times of its slowest commit."""
    each = [series([5, 9, 6], [1.0, 1.2, 1.1], 0.05, last) for last in last_seconds]
    commits = [commit for phase in each for commit in phase.commits]
    return replace(each[0], commits=commits, phases=[110 * number for number in range(len(each))])


def test_flat_files_and_a_p99_within_a_tenth_reach_the_goals() -> None:
    kept = series([5, 9, 6], [1.0, 1.2, 1.1], 0.05, 0.109)
    without = series([1, 50, 100], [1.0, 9.0, 20.0], 0.05, 0.1)
    figures = {figure.figure: figure for figure in figures_of(kept, without)}
    assert {name: figure.met for name, figure in figures.items() if figure.goal is not None} == {
        P99: True,
        "data files, median of the last third": True,
        "plan, ms, median of the last third": True,
    }
    assert (figures["most data files"].ours, figures["most data files"].peer) == (9, 110)


def test_a_p99_of_more_than_a_tenth_above_misses_its_goal() -> None:
    kept, without = (series([5, 9, 6], [1.0, 1.2, 1.1], 0.05, last) for last in (0.111, 0.1))
    figures = {figure.figure: figure.met for figure in figures_of(kept, without)}
    assert figures[P99] is False


def test_the_p99_compares_the_phases_that_both_have_made() -> None:
    kept, without = series([5, 9, 6], [1.0, 1.2, 1.1], 0.05, 0.1), series([1, 50, 100], [1.0, 9.0, 20.0], 0.05, 0.1)
    kept.phases.append(len(kept.commits))
    kept.commits += [(float(at), 9.0) for at in range(110, 300)]
    figures = {figure.figure: figure for figure in figures_of(kept, without)}
    assert figures[P99].met
    assert figures["p99 of all 300 commits, ms"].ours == 9000


def test_a_noisy_second_of_either_case_decides_only_its_own_phase() -> None:
    quiet, noisy = phases(0.1, 0.1, 0.1), phases(0.1, 0.1, 9.0)
    for kept, without in ((noisy, quiet), (quiet, noisy)):
        figure = figures_of(kept, without)[0]
        assert (figure.figure, figure.ratio, figure.met) == ("p99 of 110 commits, ms, median of 3", 1.0, True)
    # Each is compared with its neighbour: a machine that slows down in the course of the run slows down both.
    assert figures_of(phases(0.1, 0.2, 0.4), phases(0.1, 0.2, 0.4))[0].met
    assert figures_of(phases(0.1, 0.23, 0.45), phases(0.1, 0.2, 0.4))[0].met is False


def test_the_p99_of_all_leaves_out_the_commits_that_find_caches_cold() -> None:
    kept = phases(0.1, 0.1, 0.1)
    assert {figure.figure: figure.ours for figure in figures_of(kept, kept)}["p99 of all 330 commits, ms"] == 100.0


@pytest.mark.parametrize(("last", "met"), [(12, True), (13, False)])
def test_flat_is_at_most_a_quarter_more(last: int, met: bool) -> None:
    kept = series([10, 10, last], [1.0, 1.0, last / 10], 0.05, 0.1)
    figures = figures_of(kept, series([1, 50, 100], [1.0, 9.0, 20.0], 0.05, 0.1))
    assert [figure.met for figure in figures if "last third" in figure.figure and figure.goal is not None] == [met] * 2


def test_files_that_grow_and_a_slower_writer_miss_them() -> None:
    kept = series([1, 50, 100], [1.0, 9.0, 20.0], 0.05, 0.2)
    without = series([1, 50, 100], [1.0, 9.0, 20.0], 0.05, 0.1)
    assert {figure.met for figure in figures_of(kept, without) if figure.goal is not None} == {False}


def test_the_plot_is_an_image_with_a_line_for_each_case_and_measure() -> None:
    cases = {"with upkeep": {"files": [[0, 1], [9, 3]], "plans": [[0, 2.5], [9, 2.0]]}}
    cases["without"] = {"files": [[0, 1], [9, 90]], "plans": [[0, 2.5], [9, 40.0]]}
    image = ElementTree.fromstring(draw(cases))
    assert len(image.findall("{http://www.w3.org/2000/svg}polyline")) == 4


def test_a_poll_over_tables_that_have_not_changed_finds_none() -> None:
    assert poll_ms(50) > 0


def test_a_recorded_run_leaves_its_plot_next_to_the_record(tmp_path: Path) -> None:
    kept = series([5, 9, 6], [1.0, 1.2, 1.1], 0.05, 0.1)
    keep(kept, kept, series=tmp_path / "series.json", plots=tmp_path / "benchmarks")
    (plot,) = (tmp_path / "benchmarks").iterdir()
    assert plot.name == "upkeep-over-time.svg"
    assert plot.read_text() == draw(json.loads((tmp_path / "series.json").read_text()))
