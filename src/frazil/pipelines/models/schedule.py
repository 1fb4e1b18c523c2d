"""Runs tasks that wait for each other on a bounded number of threads. What they do is not known here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How a task ended: with a value, with an error, or not begun, since task number `blocked_by` failed."""

    value: T | None = None
    error: Exception | None = None
    blocked_by: int | None = None

    @property
    def is_done(self) -> bool:
        return self.error is None and self.blocked_by is None


class Schedule(Generic[T]):
    """Tasks by their numbers; `waits[n]` are the tasks that task n needs, all of them with smaller numbers.

    A task that fails stops those that need it, and no others; without `keep_going` all that have not begun. `on_end` is
    called for each task in the order of their numbers, in the thread that called `run`, so that what is printed does
    not depend on which one was faster.
    """

    def __init__(
        self,
        tasks: Sequence[Callable[[], T]],
        waits: Sequence[Collection[int]],
        *,
        threads: int = 1,
        keep_going: bool = True,
        on_end: Callable[[int, Outcome[T]], None] = lambda _number, _outcome: None,
        on_interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        self.tasks, self.waits, self.threads, self.keep_going = tasks, waits, threads, keep_going
        self.on_end, self.on_interrupt = on_end, on_interrupt
        self.outcomes: dict[int, Outcome[T]] = {}
        self._reported = 0

    def run(self) -> list[Outcome[T]]:
        """How each task ended. An interrupt begins no other task, calls `on_interrupt`, which may cancel those that are
        running, and waits for them.
        """
        if self.threads == 1 or len(self.tasks) == 1:
            for number, task in enumerate(self.tasks):
                self._end(number, self._blocked(number) or _attempt(task))
        else:
            self._run_side_by_side()
        return [self.outcomes[number] for number in range(len(self.tasks))]

    def _run_side_by_side(self) -> None:
        waiting = set(range(len(self.tasks)))
        running: dict[Future[Outcome[T]], int] = {}
        with ThreadPoolExecutor(self.threads, thread_name_prefix="frazil-run") as pool:
            try:
                while waiting or running:
                    for number in sorted(waiting):
                        self._begin(number, waiting, running, pool)
                    ended, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in sorted(ended, key=running.__getitem__):
                        self._end(running.pop(future), future.result())
            except BaseException:
                self.on_interrupt()
                raise

    def _begin(
        self, number: int, waiting: set[int], running: dict[Future[Outcome[T]], int], pool: ThreadPoolExecutor
    ) -> None:
        if (blocked := self._blocked(number)) is not None:
            waiting.discard(number)
            self._end(number, blocked)
        elif len(running) < self.threads and all(needed in self.outcomes for needed in self.waits[number]):
            waiting.discard(number)
            running[pool.submit(_attempt, self.tasks[number])] = number

    def _blocked(self, number: int) -> Outcome[T] | None:
        """The outcome of a task that cannot begin any more, with the first failure that is in its way."""
        for needed in sorted(self.waits[number] if self.keep_going else self.outcomes):
            outcome = self.outcomes.get(needed)
            if outcome is not None and not outcome.is_done:
                return Outcome(blocked_by=needed if outcome.blocked_by is None else outcome.blocked_by)
        return None

    def _end(self, number: int, outcome: Outcome[T]) -> None:
        self.outcomes[number] = outcome
        while self._reported in self.outcomes:
            self._reported += 1
            self.on_end(self._reported - 1, self.outcomes[self._reported - 1])


def _attempt(task: Callable[[], T]) -> Outcome[T]:
    try:
        return Outcome(task())
    except Exception as exc:
        return Outcome(error=exc)
