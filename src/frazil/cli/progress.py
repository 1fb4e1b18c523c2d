"""Progress while Spark works: a bar with stages and rows on a terminal, log lines at intervals elsewhere."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.cli.show import Talk

POLL_SECONDS = 0.2
LINE_SECONDS = 10.0
ROWS = "number of output rows"  # the name of Spark's SQL metric, of every operator that counts
log = logging.getLogger("frazil.cli")


@dataclass(frozen=True)
class Stage:
    """A stage that Spark is running."""

    id: int
    name: str
    tasks: int
    done: int


@dataclass
class Progressed:
    """What Spark has done since the command began, from one look to the next."""

    finished_tasks: int = 0
    finished_stages: int = 0
    rows: int = 0
    active: dict[int, Stage] = field(default_factory=dict)

    def update(self, stages: Sequence[Stage], rows: int) -> None:
        """Takes note of the stages that run now; those that are missing have ended."""
        now = {stage.id: stage for stage in stages}
        ended = [stage for number, stage in self.active.items() if number not in now]
        self.finished_stages += len(ended)
        self.finished_tasks += sum(stage.tasks for stage in ended)
        self.rows = max(self.rows, rows)
        self.active = now

    @property
    def done(self) -> int:
        return self.finished_tasks + sum(stage.done for stage in self.active.values())

    @property
    def total(self) -> int:
        return self.finished_tasks + sum(stage.tasks for stage in self.active.values())

    def describe(self) -> str:
        """
        >>> progress = Progressed()
        >>> progress.describe()
        'planning'
        >>> progress.update([Stage(3, "collect at driver.py:1", tasks=8, done=2)], rows=1200)
        >>> progress.describe()
        'stage 1, collect, 1,200 rows'
        """
        rows = f", {self.rows:,} rows" if self.rows else ""
        if not self.active:
            return f"{'on the driver' if self.finished_stages else 'planning'}{rows}"
        name = next(iter(self.active.values())).name.split(" at ")[0]
        return f"stage {self.finished_stages + 1}, {name}{rows}"


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
    with _bar(console, label) if on_terminal else _lines(label) as show:
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(spark, show, done), daemon=True, name="frazil-progress")
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


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


def _watch(spark: SparkSession, show: Show, done: threading.Event) -> None:
    progress = Progressed()
    count: Callable[[SparkSession], int] = count_rows
    while not done.wait(POLL_SECONDS):
        try:
            rows = count(spark)
        except Exception:  # not of Spark's public interface: another release may not have it
            log.debug("Spark does not say how many rows it has processed", exc_info=True)
            rows, count = 0, _no_rows
        try:
            progress.update(active_stages(spark), rows)
        except Exception:  # the session may be ending; progress is not worth an error
            log.debug("Spark's progress cannot be read", exc_info=True)
            return
        show(progress)


def _no_rows(_: SparkSession) -> int:
    return 0


def active_stages(spark: SparkSession) -> list[Stage]:
    """The stages of this session that run now; other sessions of a warm Spark may have their own."""
    tracker = spark.sparkContext.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, own_jobs(spark)))
    own = {number for job in jobs for number in job.stageIds} & set(tracker.getActiveStageIds())
    infos = ((number, tracker.getStageInfo(number)) for number in sorted(own))
    return [Stage(number, info.name, info.numTasks, info.numCompletedTasks) for number, info in infos if info]


def own_jobs(spark: SparkSession) -> list[int]:
    """The jobs of this session that run now: Spark tags them with the session."""
    tracker: Any = spark.sparkContext._jsc.sc().statusTracker()
    tagged = set(tracker.getJobIdsForTag(spark._jsparkSession.sessionJobTag()))
    return sorted(tagged & set(tracker.getActiveJobIds()))


def count_rows(spark: SparkSession) -> int:
    """The most rows that an operator of a running query has put out so far; 0 if Spark does not say."""
    store: Any = spark._jsparkSession.sharedState().statusStore()
    queries = store.executionsList()
    jobs = own_jobs(spark)
    running = [
        query
        for query in _each(queries)
        if query.completionTime().isEmpty() and any(query.jobs().contains(job) for job in jobs)
    ]
    return max((_query_rows(store, query) for query in running), default=0)


def _query_rows(store: Any, query: Any) -> int:
    values = store.executionMetrics(query.executionId())
    wanted = {metric.accumulatorId() for metric in _each(query.metrics()) if metric.name() == ROWS}
    texts = (values.get(number).get() for number in wanted if values.contains(number))
    return max((int(digits) for text in texts if (digits := text.replace(",", "")).isdecimal()), default=0)


def _each(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))
