"""Progress of long work: a bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2


@contextmanager
def spark_progress(spark: SparkSession, label: str) -> Iterator[None]:
    """Shows the tasks of the stages that Spark is running, until the block ends."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    if not console.is_terminal:
        console.print(f"{label}: running on Spark {spark.version}, {spark.sparkContext.master}")
    done = threading.Event()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        watcher = threading.Thread(target=_watch, args=(spark, label, progress, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _watch(spark: SparkSession, label: str, progress: Progress, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    bar = progress.add_task(label, total=None)
    finished = 0
    seen: dict[int, int] = {}
    while not done.wait(POLL_SECONDS):
        active = {stage: info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))}
        finished += sum(tasks for stage, tasks in seen.items() if stage not in active)
        seen = {stage: info.numTasks for stage, info in active.items()}
        running = sum(info.numCompletedTasks for info in active.values())
        name = next(iter(active.values())).name.split(" at ")[0] if active else "planning"
        progress.update(
            bar,
            description=f"{label}: {name}",
            completed=finished + running,
            total=finished + sum(seen.values()) or None,
        )
