"""Runs of the sales pipeline in a process of its own, which may kill or pause itself at a call to the catalog.

`python -m tests.faults.pipeline_runner FOLDER URI` prints `ready` when Spark is up. Each line `CALL WHEN` that it reads
is a run: it dies -9 before or after its CALL-th call, 0 means never; with WHEN `pause` it stops (SIGSTOP) before that
call, until it is continued. It answers a run with a line. A Spark takes longer to start than a run, so a process that
was not killed is used again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from pyspark.sql import SparkSession

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.config import load_settings
from frazil.errors import PipelineError
from frazil.pipelines.batch.run import run_pipeline
from frazil.project import load_project
from frazil.spark.session import spark_session

# A JVM that will not live long should not spend its time on compiling itself.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class DyingCatalog(FrazilCatalog):
    """The catalog, on a driver that is killed at one of its calls."""

    calls = 0
    die_at = 0
    when = "before"

    def load_table(self, identifier: str | Identifier) -> Table:
        self._die("before")
        table: Table = super().load_table(identifier)
        self._die("after")
        return table

    def commit_changes(self, changes: Sequence[Change]) -> None:
        self._die("before")
        super().commit_changes(changes)
        self._die("after", last=len(changes) > 1)

    def _die(self, when: str, *, last: bool = False) -> None:
        """At the chosen call; at the latest when the rows are committed and no reply was sent yet."""
        self.calls += when == "before"
        if self.die_at and self.when == "pause":
            if when == "before" and self.calls == self.die_at:
                os.kill(os.getpid(), signal.SIGSTOP)
        elif self.die_at and ((self.calls == self.die_at and when == self.when) or last):
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, uri: str) -> None:
    """Answers each line with what became of its run."""
    flags = {"catalog.uri": uri, "spark.master": "local[2]", "spark.conf.spark.driver.extraJavaOptions": QUICK}
    settings = load_settings(flags=flags, folder=Path(folder), environ={})
    with spark_session(settings, app_name="kills", log=Path(folder) / "spark.log") as spark:
        print("ready", flush=True)
        for line in sys.stdin:
            die_at, when = line.split()
            print(run_once(spark, Path(folder), uri, int(die_at), when), flush=True)


def run_once(spark: SparkSession, folder: Path, uri: str, die_at: int, when: str) -> str:
    """Runs the pipeline with a catalog of its own; `N files, N calls`, or `overtaken` if another was first."""
    project, catalog = load_project(folder), DyingCatalog("lake", uri=uri)
    catalog.die_at, catalog.when = die_at, when
    try:
        result = run_pipeline(project.pipeline("daily_sales"), spark=spark, catalog=catalog, folder=project.folder)
    except PipelineError as exc:
        if exc.problem != "overtaken":
            raise
        return exc.problem
    return f"{result.files} files, {catalog.calls} calls"


if __name__ == "__main__":
    main(*sys.argv[1:])
