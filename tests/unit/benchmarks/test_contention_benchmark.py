"""The figures of benchmarks.contention: goals stand where they are meant, and can be missed."""

from __future__ import annotations

import pytest

from benchmarks.catalog.measure import Sample
from benchmarks.catalog.servers import REFERENCE
from benchmarks.contention.measure import (
    CLIENTS,
    REBASED,
    REFUSED,
    RELOADS,
    WRITERS,
    Samples,
    Shares,
    make_figures,
    share_figures,
)
from benchmarks.report import Figure, Options, goals_for


def samples(rebased: dict[int, float]) -> Samples:
    """Rates with rebase by the number of writers; the reference has 10 commits per second, no rebase 50."""
    rates = {REBASED: rebased, REFUSED: dict.fromkeys(WRITERS, 50.0), REFERENCE: dict.fromkeys(WRITERS, 10.0)}
    return {(case, writers): [Sample(rate, 1.0)] for case, each in rates.items() for writers, rate in each.items()}


def goals(figures: list[Figure]) -> list[tuple[str | None, float | None, bool | None]]:
    return [(figure.peer_name, figure.goal, figure.met) for figure in figures if figure.goal is not None]


def test_eight_writers_are_held_against_the_reference_and_32_against_eight() -> None:
    fast = make_figures(samples({1: 100.0, 8: 120.0, 32: 130.0}))
    assert goals(fast) == [(f"{REFERENCE}, {RELOADS}", 10.0, True), ("Frazil, 8 writers", 1.0, True)]
    slow = make_figures(samples({1: 100.0, 8: 90.0, 32: 80.0}))
    assert goals(slow) == [(f"{REFERENCE}, {RELOADS}", 10.0, False), ("Frazil, 8 writers", 1.0, False)]


def test_a_short_run_shows_no_goals() -> None:
    figures = make_figures(samples({1: 1.0, 8: 1.0, 32: 1.0}))
    assert goals(goals_for(figures, Options(quick=True))) == []


def shares(rebased: float, refused: float, reference: float) -> Shares:
    cases = ((REBASED, rebased), (REFUSED, refused), (REFERENCE, reference))
    return {(case, writers): share for case, share in cases for writers in CLIENTS}


def test_the_share_of_appends_that_succeed_is_shown_next_to_both_peers() -> None:
    figures = [figure for figure in share_figures(shares(100.0, 20.0, 10.0)) if figure.goal is None]
    assert [(figure.ours, figure.peer, figure.ratio) for figure in figures] == [(100, 10, 10), (100, 20, 5)] * 2


@pytest.mark.parametrize(("share", "met"), [(100.0, True), (99.7, False)])
def test_every_append_that_is_rebased_is_to_succeed_in_a_short_run_too(share: float, met: bool) -> None:
    figures = goals_for(share_figures(shares(share, 20.0, 10.0)), Options(quick=True))
    assert goals(figures) == [("all of them", 1.0, met)] * 2
