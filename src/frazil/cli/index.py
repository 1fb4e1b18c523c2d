"""`frazil index`: the vector indexes of a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_json, print_rows
from frazil.errors import VectorError
from frazil.protocol import METRICS
from frazil.units import count, size

if TYPE_CHECKING:
    from frazil.vector import Engine, Indexes, IndexRecord

TABLE = click.argument("table", shell_complete=complete_tables)
ENGINE = click.option(
    "--engine",
    type=click.Choice(["python", "spark"]),
    default="python",
    show_default=True,
    help="Where vectors are read and segments written.",
)
LABELS = {
    "sample": "reading a sample",
    "lists": "finding lists",
    "segments": "writing segments",
    "merge": "merging segments",
    "check": "reading segments",
}


@click.group()
def index() -> None:
    """Create, refresh, check and drop the vector indexes of a table."""


@contextmanager
def _indexes(context: Context, table: str, *, quiet: bool, engine: str = "python") -> Iterator[Indexes]:
    """The indexes of a table; on a terminal with a bar that shows the progress of a build."""
    from rich.console import Console
    from rich.progress import Progress

    from frazil.lake import Lake
    from frazil.vector import Builder, Indexes

    name = Lake(context.settings, catalog=context.catalog).table(table).name
    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    with _engine(context, engine) as works, Progress(console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task("index", total=None)

        def show(step: str, done: int, total: int) -> None:
            progress.update(bar, description=LABELS[step], completed=done, total=total or None)

        yield Indexes(context.catalog, name, Builder(show, works))


@contextmanager
def _engine(context: Context, name: str) -> Iterator[Engine]:
    """Where segments are written."""
    from frazil.vector import LocalEngine, SparkEngine

    if name == "python":
        yield LocalEngine()
        return
    from frazil.cli.spark import spark_log
    from frazil.spark import spark_session

    with spark_session(context.settings, app_name="frazil index", log=spark_log(context)) as session:
        yield SparkEngine(session)


def _as_json(record: IndexRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "field_id": record.field_id,
        "metric": record.metric,
        "dimension": record.dimension,
        "vectors": record.vectors,
        "segments": len(record.segments),
        "bytes": sum(segment.size for segment in record.segments),
        "version": record.version,
    }


def _say(table: str, record: IndexRecord, did: str, output: str) -> None:
    if output == "json":
        print_json({"table": table, **_as_json(record)})
    else:
        segments = count(len(record.segments), "segment")
        echo(f"index '{record.name}' of {table} {did}: {count(record.vectors, 'vector')} in {segments}")


@index.command("list")
@TABLE
@OUTPUT
@click.pass_obj
def list_(context: Context, table: str, output: str) -> None:
    """List the vector indexes of a table."""
    with _indexes(context, table, quiet=True) as indexes:
        records = indexes.records()
    if output == "json":
        print_json([_as_json(record) for record in records])
    elif records:
        columns = ("name", "metric", "dimension", "vectors", "segments", "size")
        facts = [_as_json(record) for record in records]
        print_rows(
            columns,
            (
                (
                    fact["name"],
                    fact["metric"],
                    fact["dimension"],
                    fact["vectors"],
                    fact["segments"],
                    size(fact["bytes"]),
                )
                for fact in facts
            ),
        )
    else:
        echo(f"{table} has no vector indexes")


@index.command()
@TABLE
@click.argument("column")
@click.option("--metric", type=click.Choice(METRICS), default="cosine", show_default=True)
@click.option("--name", help="Its name.  [default: COLUMN_METRIC]")
@click.option(
    "--lists", type=click.IntRange(1, 65_536), help="How many lists.  [default: 4 times the root of the rows]"
)
@ENGINE
@OUTPUT
@click.pass_obj
def create(
    context: Context,
    table: str,
    column: str,
    metric: Any,
    name: str | None,
    lists: int | None,
    engine: str,
    output: str,
) -> None:
    """Build a vector index of a column over the newest snapshot. A build that was killed goes on where it was."""
    with _indexes(context, table, quiet=output == "json", engine=engine) as indexes:
        record = indexes.create(column, metric=metric, name=name, lists=lists)
    _say(table, record, "is created", output)


@index.command()
@TABLE
@click.argument("name")
@ENGINE
@OUTPUT
@click.pass_obj
def refresh(context: Context, table: str, name: str, engine: str, output: str) -> None:
    """Index the files that an index does not cover yet, and repair it. NAME is an index or its column."""
    with _indexes(context, table, quiet=output == "json", engine=engine) as indexes:
        record = indexes.refresh(name)
    _say(table, record, "is up to date", output)


@index.command()
@TABLE
@click.argument("name")
@OUTPUT
@click.pass_obj
def check(context: Context, table: str, name: str, output: str) -> None:
    """Read all of an index: exit 1 if a part is damaged or missing. NAME is an index or its column."""
    with _indexes(context, table, quiet=output == "json") as indexes:
        report = indexes.check(name)
    if output == "json":
        print_json(
            {
                "table": table,
                "name": report.name,
                "files": report.files,
                "uncovered": report.uncovered,
                "problems": list(report.problems),
            }
        )
    else:
        covered = report.files - report.uncovered
        echo(f"index '{report.name}' of {table} covers {covered} of {count(report.files, 'file')}")
        for problem in report.problems:
            echo(f"  {problem}")
        if report.problems or report.uncovered:
            echo(f"  {shlex.join(['frazil', 'index', 'refresh', table, report.name])}")
    if report.problems:
        sys.exit(1)


@index.command()
@TABLE
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@OUTPUT
@click.pass_obj
def drop(context: Context, table: str, name: str, yes: bool, output: str) -> None:
    """Drop an index. Its files are removed with the table's orphans. NAME is an index or its column."""
    with _indexes(context, table, quiet=True) as indexes:
        record = indexes.find(name)
        if not yes:
            if output == "json" or not sys.stdin.isatty():
                raise VectorError(
                    f"confirmation required, and there is no terminal: drop index '{record.name}' of {table}?",
                    hint="add --yes",
                    table=table,
                    problem="no-terminal",
                )
            click.confirm(
                f"drop index '{record.name}' of {table}, {count(record.vectors, 'vector')}?", abort=True, err=True
            )
        indexes.drop(record.name)
    _say(table, record, "is dropped", output)
