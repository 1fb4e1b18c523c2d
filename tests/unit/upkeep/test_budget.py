"""The budget of upkeep: pauses in proportion to the work, and an end in the midst of one."""

from __future__ import annotations

import pytest

from frazil.upkeep.budget import Budget
from frazil.upkeep.halt import Halt, Stopped


class Clock(Halt):
    """A clock that pauses move on, and that counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.paused = 0.0, 0.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.paused += seconds
        return self.requested

    def __call__(self) -> float:
        return self.now


def spend(budget: Budget, clock: Clock, *work: tuple[float, int]) -> float:
    """Works for these times, each on this number of bytes; gives how long was paused."""
    for seconds, size in work:
        clock.now += seconds
        budget.spend(size)
    return clock.paused


def test_a_share_of_a_quarter_pauses_three_times_as_long_as_it_works() -> None:
    clock = Clock()
    budget = Budget(0.25, halt=clock, clock=clock)
    assert spend(budget, clock, (1.0, 0), (0.5, 0)) == pytest.approx(4.5)


def test_short_pauses_are_saved_up() -> None:
    clock = Clock()
    budget = Budget(0.5, halt=clock, clock=clock)
    assert spend(budget, clock, (0.01, 0)) == 0
    assert spend(budget, clock, (0.015, 0)) == pytest.approx(0.025)


def test_bytes_per_second_hold_when_the_share_would_allow_more() -> None:
    clock = Clock()
    budget = Budget(1.0, 1000, halt=clock, clock=clock)
    assert spend(budget, clock, (0.5, 2000)) == pytest.approx(1.5)


def test_time_before_the_work_is_not_counted() -> None:
    clock = Clock()
    budget = Budget(0.5, halt=clock, clock=clock)
    clock.now += 100
    budget.begin()
    assert spend(budget, clock, (1.0, 0)) == pytest.approx(1.0)


def test_work_that_is_to_end_ends_at_the_next_piece() -> None:
    clock = Clock()
    budget = Budget(0.5, halt=clock, clock=clock)
    clock.request("SIGTERM")
    with pytest.raises(Stopped, match="SIGTERM"):
        budget.spend()
    assert clock.paused == 0
