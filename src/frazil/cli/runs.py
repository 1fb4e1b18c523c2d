"""`runs`: what pipelines have done, from the `__runs` tables of their targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from frazil.cli.complete import complete_pipelines_and_tables
from frazil.cli.context import Context
from frazil.cli.show import echo, output_option, print_json
from frazil.errors import ProjectError
from frazil.project import FILE_NAME, load_project
from frazil.terminal import visible
from frazil.units import size

SHOWN = (
    "started_at",
    "pipeline",
    "status",
    "files",
    "bytes",
    "rows_in",
    "rows",
    "duplicates",
    "quarantined",
    "seconds",
    "snapshot_id",
)


@click.command()
@click.argument("name", metavar="[PIPELINE|TABLE]", required=False, shell_complete=complete_pipelines_and_tables)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show at most this many, the latest first.",
)
@output_option("text", "json", former={"table": "text"})
@click.pass_obj
def runs(context: Context, name: str | None, limit: int, output: str) -> None:
    """Show what runs have read, written and quarantined.

    Of all pipelines and models, of one pipeline, or into one table.
    """
    from frazil.pipelines import read_runs

    rows: list[dict[str, Any]] = []
    for target, pipeline in _wanted(name):
        rows += read_runs(target, context.catalog, pipeline=pipeline)
    rows = sorted(rows, key=lambda row: row["started_at"], reverse=True)[:limit]
    if output == "json":
        print_json(rows)
    elif rows:
        _show(rows)
    else:
        echo(f"no runs of {name} are remembered" if name else "no runs are remembered")


def _wanted(name: str | None) -> list[tuple[str, str | None]]:
    """The tables whose runs to read, and of which pipeline."""
    project = load_project(Path.cwd()) if (Path.cwd() / FILE_NAME).exists() else None
    declared, models = (project.pipelines, project.models) if project else ((), ())
    if name is None:
        names = [*(pipeline.target.name for pipeline in declared), *(model.name for model in models)]
        if not names:
            raise ProjectError(
                f"no pipeline or model is declared in {Path.cwd() / FILE_NAME}",
                hint="name a table: frazil runs lakehouse.sales",
            )
        return [(table, None) for table in dict.fromkeys(names)]
    if match := next((pipeline for pipeline in declared if pipeline.name == name), None):
        return [(match.target.name, match.name)]
    if "." not in name:
        known = ", ".join(pipeline.name for pipeline in declared) or "none"
        raise ProjectError(
            f"there is no pipeline '{name}'; declared are: {known}",
            hint="or name a table: frazil runs lakehouse.sales",
            pipeline=name,
        )
    return [(name, None)]


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid()
    for column_name in SHOWN:
        grid.add_column(
            column_name,
            justify="left" if column_name in ("started_at", "pipeline", "status") else "right",
            no_wrap=True,
        )
    for row in rows:
        grid.add_row(*(Text(visible(_spell(name, row[name]))) for name in SHOWN))
    # A pipe has no width of its own: one line per run, however long.
    console = Console() if Console().is_terminal else Console(width=200)
    console.print(grid)
    for row in rows:
        if row["error"]:
            console.print(
                visible(f"{_spell('started_at', row['started_at'])} {row['pipeline']}: {row['error']}"),
                markup=False,
                soft_wrap=True,
            )


def _spell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "started_at":
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if name == "bytes":
        return size(value)
    if name == "seconds":
        return f"{value:.1f}"
    return str(value) if name in ("pipeline", "status", "snapshot_id") else f"{value:,}"
