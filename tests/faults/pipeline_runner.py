"""One run of the sales pipeline in a process of its own, which may kill or pause itself at a call to the catalog.

`python -m tests.faults.pipeline_runner FOLDER URI CALL WHEN`: dies -9 before or after its CALL-th call; 0 means never.
With WHEN `pause` it stops (SIGSTOP) before that call, until it is continued. Says `begin` when Spark is up. Ends with 3
if another run came first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.config import load_settings
from frazil.errors import PipelineError
from frazil.pipelines.batch.run import run_pipeline
from frazil.project import load_project
from frazil.spark.session import spark_session

# A JVM that will not live long should not spend its time on compiling itself.
CAME_FIRST = 3
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
        """At the chosen call; at the latest when the rows are committed and nobody knows it yet."""
        self.calls += when == "before"
        if self.die_at and self.when == "pause":
            if when == "before" and self.calls == self.die_at:
                os.kill(os.getpid(), signal.SIGSTOP)
        elif self.die_at and ((self.calls == self.die_at and when == self.when) or last):
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, uri: str, die_at: str, when: str) -> None:
    """Runs the pipeline once."""
    flags = {"catalog.uri": uri, "spark.master": "local[2]", "spark.conf.spark.driver.extraJavaOptions": QUICK}
    settings = load_settings(flags=flags, folder=Path(folder), environ={})
    project = load_project(Path(folder))
    catalog = DyingCatalog("lake", uri=uri)
    with spark_session(settings, app_name="kills", log=Path(folder) / "spark.log") as spark:
        print("begin", flush=True)
        catalog.die_at, catalog.when = int(die_at), when
        try:
            result = run_pipeline(project.pipeline("daily_sales"), spark=spark, catalog=catalog, folder=project.folder)
        except PipelineError as exc:
            if "came first" not in exc.message:
                raise
            print(exc.message, flush=True)
            sys.exit(CAME_FIRST)
        print(f"{result.files} files, {catalog.calls} calls", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
