"""Progress while Spark works: a bar with stages and rows on a terminal, log lines at intervals elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from frazil.spark import Progressed, watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.cli.show import Talk

LINE_SECONDS = 10.0
log = logging.getLogger("frazil.cli")


@contextmanager
def starting_spark(label: str, talk: Talk) -> Iterator[None]:
    """Says on a terminal that Spark is starting, which takes seconds, until the block ends."""
    console = Console(stderr=True)
    with console.status(Text(f"{label}: starting Spark")) if console.is_terminal and not talk.json else nullcontext():
        yield


@contextmanager
def spark_progress(spark: SparkSession, label: str, talk: Talk) -> Iterator[None]:
    """Shows what Spark is doing until the block ends: on a terminal as a bar, else as log lines, which -v shows."""
    console = Console(stderr=True)
    on_terminal = console.is_terminal and not talk.json
    log.info("%s: running on Spark %s, %s", label, spark.version, spark.sparkContext.master)
    if not on_terminal and not log.isEnabledFor(logging.INFO):
        yield
        return
    with _bar(console, label) if on_terminal else _lines(label) as show, watching(spark, show):
        yield


Show = Callable[[Progressed], None]


def bar_columns(console: Console, unit: str = "") -> list[ProgressColumn]:
    """A line that fits the terminal: the numbers first, then as much of the description as there is room for."""
    units = [TextColumn(unit)] if unit else []
    description = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    bar = BarColumn(bar_width=max(5, min(40, console.width // 6)))
    return [SpinnerColumn(), bar, MofNCompleteColumn(), *units, TimeElapsedColumn(), description]


@contextmanager
def _bar(console: Console, label: str) -> Iterator[Show]:
    with Progress(*bar_columns(console, "tasks"), console=console, transient=True, expand=True) as progress:
        bar = progress.add_task(label, total=None)
        yield lambda now: progress.update(
            bar, description=f"{label}: {now.describe()}", completed=now.done, total=now.total or None
        )


@contextmanager
def _lines(label: str) -> Iterator[Show]:
    start = last = time.monotonic()

    def show(now: Progressed) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            facts = {"stage": now.finished_stages + 1, "tasks": now.total, "done": now.done, "rows": now.rows}
            log.info(
                "%s: %s, %d of %d tasks, %.0f s",
                *(label, now.describe(), now.done, now.total, last - start),
                extra={"fields": facts},
            )

    yield show
