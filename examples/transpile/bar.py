"""Progress of a run, on the terminal."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Watcher(Protocol):
    """A listener for the progress of a run."""

    def begin(self, rows: int) -> None:
        """Adds to the number of expected rows."""

    def advance(self, rows: int, errors: int) -> None:
        """So many were written, and so many of them are errors."""


class ProgressBar:
    """Rows, rate and errors on the terminal; one line at the end elsewhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]} queries/s"))
        more = (TextColumn("{task.fields[errors]} errors"), TimeRemainingColumn())
        self.progress = Progress(
            *columns, *more, console=self.console, transient=True, disable=not self.console.is_terminal
        )
        self.task: TaskID = self.progress.add_task("transpile", total=0, errors=0, rate="-")
        self.rows = self.errors = self.total = 0
        self.start = time.monotonic()

    def begin(self, rows: int) -> None:
        self.total += rows
        self.progress.update(self.task, total=self.total)

    def advance(self, rows: int, errors: int) -> None:
        self.rows, self.errors = self.rows + rows, self.errors + errors
        self.progress.update(self.task, completed=self.rows, errors=self.errors, rate=f"{self.rate:,.0f}")

    @property
    def rate(self) -> float:
        return self.rows / max(time.monotonic() - self.start, 1e-9)

    def finish(self) -> None:
        self.console.print(f"{self.rows:,} queries at {self.rate:,.0f}/s, {self.errors:,} of them with an error")
