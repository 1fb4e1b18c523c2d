"""`frazil log`: the snapshots of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_rows, to_json

if TYPE_CHECKING:
    from frazil.history import LogEntry

COLUMNS = ("snapshot", "time (UTC)", "operation", "rows", "files", "total rows", "total files", "by", "refs")


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--ref",
    default="main",
    shell_complete=complete_any_ref,
    show_default=True,
    help="A branch or tag: its snapshot and all before it.",
)
@click.option("-n", "limit", type=click.IntRange(min=1), help="Only the newest N.")
@click.option("--all", "everything", is_flag=True, help="Also snapshots that were undone, and those of other branches.")
@OUTPUT
@click.pass_obj
def log(context: Context, table: str, ref: str, limit: int | None, everything: bool, output: str) -> None:
    """Show the snapshots of a table.

    When, what, how much, by whom. TABLE is namespace.table.
    """
    from frazil.lake import Lake

    entries = Lake(context.settings, catalog=context.catalog).table(table).history(ref=ref, all=everything, limit=limit)
    if output == "json":
        echo(to_json([as_json(entry) for entry in entries]))
    elif entries:
        print_rows(COLUMNS, map(as_row, entries), right=COLUMNS[3:7])
    else:
        echo(f"{table} has no snapshots yet")


def as_row(entry: LogEntry) -> tuple[object, ...]:
    """A line of the table; what is not on the line of the ref is marked."""
    from frazil.scan.planning import show_time

    rows, files = _change(entry.added_rows, entry.removed_rows), _change(entry.added_files, entry.removed_files)
    total = _number(entry.total_rows) + (f" ({entry.total_deletes:,} deleted)" if entry.total_deletes else "")
    refs = ", ".join(entry.refs) or ("" if entry.is_ancestor else "(not on this line)")
    return (
        entry.snapshot_id,
        show_time(entry.time_ms),
        entry.operation,
        rows,
        files,
        total,
        _number(entry.total_files),
        entry.by,
        refs,
    )


def as_json(entry: LogEntry) -> dict[str, object]:
    """The entry for programs, with the time in words as well."""
    from frazil.scan.planning import show_time

    return {**asdict(entry), "time": show_time(entry.time_ms).replace(" ", "T") + "Z"}


def _change(added: int, removed: int) -> str:
    """
    >>> _change(1200, 0), _change(3, 5), _change(0, 0)
    ('+1,200', '+3 -5', '')
    """
    return " ".join(([f"+{added:,}"] if added else []) + ([f"-{removed:,}"] if removed else []))


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
