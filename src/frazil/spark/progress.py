"""What Spark is doing now: the stages of a session, and the rows that its queries have put out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2
ROWS = "number of output rows"  # the name of Spark's SQL metric, of every operator that counts
log = logging.getLogger("frazil.spark")


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


Show = Callable[[Progressed], None]


@contextmanager
def watching(spark: SparkSession, show: Show) -> Iterator[None]:
    """Tells `show` what Spark has done, several times a second until the block ends, from a thread."""
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, show, done), daemon=True, name="frazil-progress")
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


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
