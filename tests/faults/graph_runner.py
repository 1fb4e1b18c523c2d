"""Runs of the sales example's loads and models in a process of its own, which may kill or stop itself at a call to the
catalog.

`python -m tests.faults.graph_runner FOLDER URI` prints `ready` when Spark is up and the tables are there. Each line
`WHAT CALL WHEN` that it reads is a run. WHAT is `load`, `graph`, or `refresh`, a full refresh of the models; CALL and
WHEN are as `pipeline_runner` has them. It answers with a line: `N tables, N calls`, or the problem if it was refused.
A run that has fewer calls stops itself at its end.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from frazil.client import FrazilCatalog
from frazil.config import Settings, load_settings
from frazil.errors import PipelineError
from frazil.pipelines.batch.run import run_pipeline
from frazil.pipelines.models import GraphRun, ModelSchemas, derivation_of, in_order, split_units
from frazil.project import Project, load_project
from frazil.spark.session import spark_session
from frazil.tables.apply import apply_steps, plan
from tests.faults.pipeline_runner import QUICK, DyingCatalog


def runner_settings(folder: Path, uri: str, **flags: str) -> Settings:
    """The settings of all runs; the warm Spark that runs in the folder, if there is one, has the same."""
    conf = {"spark.driver.extraJavaOptions": QUICK, "spark.sql.shuffle.partitions": "2"}
    settings = {"catalog.uri": uri, "stack.folder": str(folder / ".frazil"), "spark.master": "local[2]", **flags}
    settings |= {f"spark.conf.{name}": value for name, value in conf.items()}
    return load_settings(flags=settings, folder=folder, environ={})


def main(folder: str, uri: str) -> None:
    """Answers each line with what became of its run."""
    settings, project = runner_settings(Path(folder), uri), load_project(Path(folder))
    with spark_session(settings, app_name="kills", log=Path(folder) / "spark.log") as spark:
        apply(project, spark, FrazilCatalog("lake", uri=uri))
        print("ready", flush=True)
        for line in sys.stdin:
            what, die_at, when = line.split()
            catalog = DyingCatalog("lake", uri=uri)
            catalog.die_at, catalog.when = int(die_at), when
            answer = run_once(what, project, spark, catalog)
            if when == "pause" and catalog.calls < catalog.die_at:  # the test waits for it to stop
                os.kill(os.getpid(), signal.SIGSTOP)
            print(answer, flush=True)


def apply(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    """Makes the tables of the project, those of its models among them."""
    models = [project.model(each.name) for each in in_order([derivation_of(model) for model in project.models])]
    finder = ModelSchemas(lambda: spark, project.folder / ".frazil" / "models")
    for table in [*project.tables, *finder.tables(models, {table.name: table.schema() for table in project.tables})]:
        list(apply_steps(plan(table, catalog), catalog))


def run_once(what: str, project: Project, spark: SparkSession, catalog: DyingCatalog) -> str:
    """Does one run; the answer says what became of it."""
    try:
        changed = load(project, spark, catalog) if what == "load" else graph(what, project, spark, catalog)
    except PipelineError as exc:
        if not exc.problem:
            raise
        return exc.problem
    return f"{changed} tables, {catalog.calls} calls"


def load(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> int:
    """Loads the landing files; the number of tables that have new rows."""
    results = [
        run_pipeline(pipeline, spark=spark, catalog=catalog, folder=project.folder) for pipeline in project.pipelines
    ]
    return sum(result.snapshot_id is not None for result in results)


def graph(what: str, project: Project, spark: SparkSession, catalog: FrazilCatalog) -> int:
    """Computes what is out of date; the number of tables that were published."""
    derivations = in_order([derivation_of(model) for model in project.models])
    refreshed = frozenset(each.name for each in derivations) if what == "refresh" else frozenset[str]()
    results = [
        result
        for unit in split_units(derivations)
        for result in GraphRun(unit, spark, catalog, project.folder, full_refresh=refreshed).run_together()
    ]
    return sum(result.snapshot_id is not None for result in results)


if __name__ == "__main__":
    main(*sys.argv[1:])
