"""`run`: a pipeline of `lakehouse.py`, once."""

from __future__ import annotations

from pathlib import Path

import click

from frazil.cli.context import Context
from frazil.cli.progress import spark_progress
from frazil.pipelines.run import RunResult
from frazil.project import load_project


@click.command()
@click.argument("name")
@click.pass_obj
def run(context: Context, name: str) -> None:
    """Run a pipeline: everything new since the last run, then stop."""
    from frazil.pipelines.run import run_pipeline
    from frazil.pipelines.session import spark_session

    project = load_project(Path.cwd())
    pipeline = project.pipeline(name)
    if not pipeline.source.list_files(project.folder):
        click.echo(f"{name}: no file matches '{pipeline.source.pattern}' in {project.folder}; {pipeline.target.name} is unchanged")
        return
    catalog = context.catalog
    with spark_session(context.settings, app_name=f"frazil {name}", log=spark_log(context)) as spark, spark_progress(spark, name):
        result = run_pipeline(pipeline, spark=spark, catalog=catalog, folder=project.folder)
    click.echo(describe(result))


def spark_log(context: Context) -> Path:
    """Where the JVM's own output goes."""
    return context.settings.stack.folder / "spark" / "spark.log"


def describe(result: RunResult) -> str:
    """The result in a line.

    >>> describe(RunResult("daily", "l.sales", files=2, rows=1200, snapshot_id=7))
    'daily: 1,200 rows from 2 files are in l.sales, snapshot 7'
    >>> describe(RunResult("daily", "l.sales"))
    'daily: no new files; l.sales is unchanged'
    """
    if result.snapshot_id is None:
        return f"{result.pipeline}: no new files; {result.table} is unchanged"
    files = f"{result.files} file" + ("" if result.files == 1 else "s")
    return f"{result.pipeline}: {result.rows:,} rows from {files} are in {result.table}, snapshot {result.snapshot_id}"
