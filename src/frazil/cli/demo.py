"""`frazil demo`: the whole way once, on this machine alone: catalog, tables, landing files, Spark, models, a first look
at the rows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.context import Context
from frazil.cli.progress import spark_progress
from frazil.cli.run_files import describe, describe_counts
from frazil.cli.show import echo
from frazil.cli.spark import spark_log
from frazil.errors import ProjectError
from frazil.project import FILE_NAME, Project, load_project

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog
    from frazil.tables import Table as DeclaredTable

SHOWN = "gold.revenue"
SUMMARY = """
    SELECT day, sum(orders) AS orders, sum(revenue) AS revenue, max_by(country, revenue) AS most_in
    FROM {table} GROUP BY day ORDER BY day
"""
WORDS = ("day", "most_in")  # columns that are not numbers

NEXT = """Try next, in {folder}:
  frazil serve                 the catalog on http://127.0.0.1:8181, for PyIceberg, Spark, Trino, DuckDB
  python landing.py --days 7   two more days land; then, with the catalog up:
  frazil run                   loads the new files, and computes the days that they change
  frazil graph                 what is made from what"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("frazil-demo"))
@click.pass_obj
def demo(context: Context, folder: Path) -> None:
    """Try the sales lakehouse here: one process, SQLite, local files."""
    _copy_example(folder)
    os.chdir(folder)  # so that settings and relative paths are those of the project, as for every other command there
    started = time.monotonic()
    if subprocess.run([sys.executable, "landing.py"], check=False).returncode != 0:
        raise ProjectError(f"the landing files could not be made by {Path.cwd() / 'landing.py'}; what it said is above")
    from frazil.catalog import running_catalog

    server = context.settings.server
    with running_catalog(database=server.database.get_secret_value(), warehouses=server.warehouses) as catalog:
        echo(f"catalog    {catalog.uri}, tables in {catalog.warehouse}")
        _load_and_show(
            Context(context.profile, {**context.overrides, "catalog.uri": catalog.uri}, context.talk),
            load_project(Path.cwd()),
        )
    echo(f"done in {time.monotonic() - started:.1f} s; the tables stay. {NEXT.format(folder=Path.cwd())}")


def _load_and_show(context: Context, project: Project) -> None:
    from frazil.pipelines.batch import run_pipeline
    from frazil.spark import spark_session

    catalog = context.catalog
    _apply(project.tables, catalog)
    with spark_session(context.settings, app_name="frazil demo", log=spark_log(context)) as spark:
        _apply(_model_tables(context, project, spark), catalog)
        for pipeline in project.pipelines:
            with spark_progress(spark, pipeline.name, context.talk):
                result = run_pipeline(pipeline, spark=spark, catalog=catalog, folder=project.folder)
            echo(f"run        {describe(result)}")
            if result.snapshot_id is not None:
                echo(describe_counts(result))
        _compute(context, project, spark)
        _show(spark, catalog.load_table(SHOWN), f"{catalog.name}.{SHOWN}")


def _apply(tables: Sequence[DeclaredTable], catalog: FrazilCatalog) -> None:
    from frazil.tables import apply_steps, plan

    for table in tables:
        steps = plan(table, catalog)
        for step in apply_steps(steps, catalog):
            echo(f"apply      {step}")
        if not steps:
            echo(f"apply      {table.name} is as declared")


def _model_tables(context: Context, project: Project, spark: SparkSession) -> list[DeclaredTable]:
    """The tables of the models, inputs first."""
    from frazil.pipelines.models import ModelSchemas, derivation_of, in_order

    models = [project.model(each.name) for each in in_order([derivation_of(model) for model in project.models])]
    schemas = {table.name: table.schema() for table in project.tables}
    return ModelSchemas(lambda: spark, context.settings.stack.folder / "models").tables(models, schemas)


def _compute(context: Context, project: Project, spark: SparkSession) -> None:
    """Computes the models; those of a group are published in one commit."""
    from frazil.cli.run_graph import describe_result
    from frazil.pipelines.models import GraphRun, derivation_of, in_order, split_units

    for unit in split_units(in_order([derivation_of(model) for model in project.models])):
        with spark_progress(spark, unit[0].name, context.talk):
            results = GraphRun(unit, spark, context.catalog, project.folder).run_together()
        for result in results:
            echo(f"run        {describe_result(result)}")


def _show(spark: SparkSession, live: LiveTable, name: str) -> None:
    from rich.console import Console
    from rich.table import Table

    frame = spark.sql(SUMMARY.format(table=name))
    snapshot = live.current_snapshot()
    table = Table(title=f"{name} at snapshot {snapshot.snapshot_id if snapshot else 'none'}")
    for column in frame.columns:
        table.add_column(column, justify="left" if column in WORDS else "right")
    for row in frame.collect():
        table.add_row(*(str(value) if column in WORDS else f"{value:,}" for column, value in row.asDict().items()))
    Console().print(table)


def _copy_example(folder: Path) -> None:
    """Puts the sales example into `folder`, unless it is there."""
    if (folder / "landing.py").exists() and (folder / FILE_NAME).exists():
        return
    if (folder / FILE_NAME).exists():
        hint = "run your own project with: frazil apply, frazil run NAME; or name a new folder: frazil demo my-demo"
        raise ProjectError(
            f"{folder.resolve()} holds a project that is not the sales example (it has no landing.py)",
            hint=hint,
            path=str(folder.resolve()),
        )
    if folder.exists() and any(folder.iterdir()):
        raise ProjectError(
            f"{folder} holds files, but no {FILE_NAME}",
            hint="name an empty or new folder: frazil demo my-demo",
            path=str(folder),
        )
    package = Path(__file__).resolve().parent.parent
    # Inside a wheel the examples lie in the package; in a checkout, next to src/.
    source = next(
        path for path in (package / "examples/sales", package.parent.parent / "examples/sales") if path.exists()
    )
    shutil.copytree(
        source, folder, ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"), dirs_exist_ok=True
    )
