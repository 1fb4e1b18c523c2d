"""Tasks that wait for each other, on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from frazil.pipelines.models.schedule import Outcome, Schedule


def failing() -> str:
    raise ValueError("wrong")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_stops_what_depends_on_it_and_nothing_else(threads: int) -> None:
    tasks: list[Callable[[], str]] = [failing, lambda: "b", lambda: "c", lambda: "d", lambda: "e"]
    outcomes = Schedule(tasks, [(), (), (0,), (1,), (2, 3)], threads=threads).run()
    assert [(outcome.value, outcome.blocked_by) for outcome in outcomes] == [
        (None, None),
        ("b", None),
        (None, 0),
        ("d", None),
        (None, 0),  # what failed, and not what was skipped because of it
    ]
    assert isinstance(outcomes[0].error, ValueError)


def test_independent_tasks_run_at_the_same_time_and_are_reported_in_order() -> None:
    second_ran, reported = threading.Event(), list[int]()

    def first() -> str:
        assert second_ran.wait(30)
        return "a"

    def second() -> str:
        second_ran.set()
        return "b"

    def tell(number: int, _: Outcome[str]) -> None:
        reported.append(number)

    Schedule([first, second, lambda: "c"], [(), (), (1,)], threads=2, on_end=tell).run()
    assert reported == [0, 1, 2]


def test_no_more_tasks_run_at_once_than_there_are_threads() -> None:
    both, most, running = threading.Barrier(2, timeout=30), list[int](), set[int]()

    def task(number: int) -> Callable[[], None]:
        def run() -> None:
            running.add(number)
            both.wait()
            most.append(len(running))
            both.wait()
            running.discard(number)

        return run

    Schedule([task(number) for number in range(6)], [()] * 6, threads=2).run()
    assert max(most) == 2


def test_an_interrupt_begins_no_other_task() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    begun: list[int] = []
    schedule = Schedule([interrupted, lambda: begun.append(1)], [(), (0,)], threads=2)
    with pytest.raises(KeyboardInterrupt):
        schedule.run()
    assert begun == []
