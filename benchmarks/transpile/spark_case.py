"""The example on Spark, with its sink and without, in one session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import on_spark as example  # `case` has put the example's folder on the path
from files import QueryFiles
from slices import Slice
from transpiling import Dialects

from benchmarks.transpile.processes import tree_cpu_s
from frazil.config import Settings
from frazil.spark.session import spark_session


class Watcher:
    """Shows nothing."""

    def begin(self, rows: int) -> None: ...

    def advance(self, rows: int, errors: int) -> None: ...


@dataclass
class OnSpark:
    """Does a file twice: into the table, and into nothing. Which comes first changes from file to file."""

    job: example.Job
    settings: Settings
    sink_first: bool = False

    @classmethod
    def open(cls, settings: Settings, stack: ExitStack, log: Path) -> OnSpark:
        spark = stack.enter_context(spark_session(settings, app_name="benchmark", log=log))
        sink, ledger = example.open_sink(None, settings)
        files = QueryFiles.at(".", settings)
        return cls(example.Job(spark, files, sink, Dialects(), Watcher(), ledger), settings)

    def __call__(self, file: Path) -> dict[str, float]:
        self.job.files = QueryFiles.at(str(file), self.settings)
        self.sink_first = not self.sink_first
        if self.sink_first:
            sink, bare = _measured(self.job.run), _measured(self._bare)
        else:
            bare, sink = _measured(self._bare), _measured(self.job.run)
        return {"wall_s": sink[0], "cpu_s": sink[1], "bare_wall_s": bare[0], "bare_s": bare[1]}

    def _bare(self) -> None:
        (file,) = self.job.files.list()
        rows = self.job.files.count_rows(file)
        self.job.ship()
        numbers, transpile = self.job.work([Slice(file, 0, rows, rows)])
        numbers.mapInArrow(transpile.step, transpile.columns).write.format("noop").mode("overwrite").save()


def _measured(work: Callable[[], None]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of the driver, the JVM and its Python workers."""
    cpu, wall = tree_cpu_s(os.getpid()), time.perf_counter()
    work()
    return time.perf_counter() - wall, tree_cpu_s(os.getpid()) - cpu
