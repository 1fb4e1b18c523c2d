"""`frazil explain`: which files a scan reads, and why not the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.show import REFERENCE, output_option, print_json
from frazil.errors import VectorError
from frazil.protocol import METRICS

if TYPE_CHECKING:
    from frazil.scan import Scan
    from frazil.scan.planning import ScanReport
    from frazil.vector import NearestReport


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--where", metavar="FILTER", help="Which rows: country = 'NO' AND amount > 10.")
@click.option("--columns", metavar="A,B", help="Which columns; all unless given.")
@click.option(
    "--at",
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    help=f"As of when: {REFERENCE}.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "daft", "spark"]),
    help="Show also what this engine pushes down, and what not.",
)
@click.option(
    "--row-groups/--no-row-groups",
    default=True,
    show_default=True,
    help="Look into the footers of the files that are left.",
)
@click.option("--nearest", metavar="COLUMN", help="Run a vector search of this column, and show what it did.")
@click.option("--vector", metavar="[0.1,...]", help="Its vector: JSON, or @FILE that has it.")
@click.option("-k", default=10, show_default=True, help="How many rows it gives.")
@click.option("--metric", type=click.Choice(METRICS), help="That of the column's only index unless given.")
@click.option("--exact", is_flag=True, help="Without an index.")
@output_option("text", "json", former={"tree": "text"})
@click.pass_obj
def explain(
    context: Context,
    table: str,
    where: str | None,
    columns: str | None,
    at: str | None,
    engine: str | None,
    row_groups: bool,
    nearest: str | None,
    vector: str | None,
    k: int,
    metric: str | None,
    exact: bool,
    output: str,
) -> None:
    """Show which files a scan of a table skips, and why.

    Layer by layer, with the term of the filter that decides. Nothing but metadata is read: the manifest list,
    manifests, and the footers of the files that are left.

    With --nearest and --vector, run a vector search and show what it did: lists probed, bytes read, rows scored, what
    came from the index, and what was compared one by one.
    """
    from frazil.lake import Lake

    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    scan = Lake(context.settings, catalog=context.catalog).table(table).scan(where, names, at=at)
    if nearest is not None or vector is not None:
        _show(_search(scan, nearest, vector, k=k, metric=metric, exact=exact), output)
        return
    if engine == "spark":
        from frazil.spark import spark_session

        log = context.settings.stack.folder / "logs" / "explain-spark.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with spark_session(context.settings, app_name="frazil explain", log=log) as session:
            report = scan.explain(row_groups=row_groups, engine=engine, session=session)
    else:
        report = scan.explain(row_groups=row_groups, engine=engine)
    _show(report, output)


def _search(
    scan: Scan, column: str | None, vector: str | None, *, k: int, metric: str | None, exact: bool
) -> NearestReport:
    """What the search did."""
    if column is None or vector is None:
        raise VectorError("a vector search needs --nearest COLUMN and --vector", problem="arguments")
    report: NearestReport = scan.nearest(column, read_vector(vector), k=k, metric=metric, exact=exact).explain()
    return report


def read_vector(vector: str) -> Any:
    """The numbers of `--vector`: JSON, or the file that has it."""
    try:
        return json.loads(Path(vector[1:]).read_text("utf-8") if vector.startswith("@") else vector)
    except (OSError, ValueError) as exc:
        raise VectorError(
            f"--vector cannot be read: {exc}",
            hint="write --vector '[0.1, 0.2]', or --vector @file.json",
            option="vector",
        ) from exc


def _show(report: ScanReport | NearestReport, output: str) -> None:
    if output == "json":
        print_json(report.to_json())
        return
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=160)).print(report.tree())
