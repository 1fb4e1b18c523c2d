"""Work that runs at the same time in one Spark application, each in a session of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class SideBySide:
    """At most `threads` pieces of work at once. Sessions share the application, its executors and its tables; settings
    and temporary views are those of one session, so that work does not see those of its neighbours.
    """

    def __init__(self, spark: SparkSession, threads: int = 1) -> None:
        self.threads = threads
        self.first, self._free = spark, [spark]
        self._slots, self._lock = threading.BoundedSemaphore(threads), threading.Lock()
        self._tag = f"frazil-{uuid.uuid4().hex[:12]}"

    def run(self, name: str, work: Callable[[SparkSession], T]) -> T:
        """What the work gives, when there is room for it. Spark's own pages show its jobs by `name`."""
        with self._slots:
            spark = self._take()
            context = self.first.sparkContext
            try:
                context.addJobTag(self._tag)
                context.setJobDescription(name)
                return work(spark)
            finally:
                context.removeJobTag(self._tag)
                context.setJobDescription(None)  # type: ignore[arg-type]  # Spark's way to say none
                with self._lock:
                    self._free.append(spark)

    def cancel(self) -> None:
        """Cancels the jobs that are running; the work fails then."""
        self.first.sparkContext.cancelJobsWithTag(self._tag)

    def _take(self) -> SparkSession:
        with self._lock:
            return self._free.pop() if self._free else self._another()

    def _another(self) -> SparkSession:
        """A session with the settings of the first one: in a warm Spark, those of the catalog are the session's own."""
        return type(self.first)(self.first.sparkContext, self.first._jsparkSession.cloneSession())
