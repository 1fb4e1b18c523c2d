"""`frazil diff`: what changed between two points of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, to_json
from frazil.units import count, size

if TYPE_CHECKING:
    from frazil.history import RowChange, RowDiff, TableDiff
    from frazil.scan.planning import Point


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.argument("before", metavar="A", shell_complete=complete_any_ref)
@click.argument("after", metavar="B", default="main", shell_complete=complete_any_ref)
@click.option(
    "--key",
    metavar="COL[,COL]",
    help="Compare rows by these columns: added, removed, changed. Only files that differ are read.",
)
@click.option("--files", is_flag=True, help="List every file that was added or removed.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="How many rows to list; all are counted."
)
@OUTPUT
@click.pass_obj
def diff(
    context: Context, table: str, before: str, after: str, key: str | None, files: bool, limit: int, output: str
) -> None:
    """Show what changed in a table between two snapshots.

    Compares schema, partitioning, files and, with --key, rows. A and B are a snapshot id, a timestamp
    ('2024-01-18 09:30', UTC), a branch or a tag. B is main unless given.
    """
    from frazil.lake import Lake

    live = Lake(context.settings, catalog=context.catalog).table(table)
    difference = live.diff(before, after)
    rows = live.diff_rows(before, after, key=[name.strip() for name in key.split(",")], limit=limit) if key else None
    if output == "json":
        echo(to_json(as_json(difference, rows)))
        return
    for line in [*describe(table, difference, files=files), *(describe_rows(rows) if rows else [])]:
        echo(line)


def describe(table: str, diff: TableDiff, *, files: bool = False) -> Iterator[str]:
    """The differences, a line each."""
    yield f"{table}: {diff.before} -> {diff.after}"
    if diff.is_empty:
        yield "no difference"
        return
    yield from (f"  {change}" for change in (*diff.schema, *diff.partitioning))
    for deletes, noun in ((False, "data file"), (True, "delete file")):
        for sign in "+-":
            total = diff.sum(sign, deletes=deletes)
            if total.files:
                yield f"  {sign} {count(total.files, noun)}, {count(total.rows, 'row')}, {size(total.bytes)}"
    if files:
        for file in diff.files:
            yield (
                f"    {file.sign} {file.path}  {count(file.rows, 'row')}{', deletes' if file.deletes else ''}  "
                f"{file.partition}"
            ).rstrip()
    if diff.rows_before is not None and diff.rows_after is not None:
        yield f"  rows in data files: {diff.rows_before:,} -> {diff.rows_after:,}"


def describe_rows(rows: RowDiff) -> Iterator[str]:
    """How many rows differ, and the first of them."""
    yield (
        f"rows by key: {rows.added:,} added, {rows.removed:,} removed, {rows.changed:,} changed "
        f"({count(rows.files_read, 'file')} read)"
    )
    yield from (f"  {_describe_row(row)}" for row in rows.rows)
    if hidden := rows.added + rows.removed + rows.changed - len(rows.rows):
        yield f"  ... and {hidden:,} more (--limit)"


def _describe_row(row: RowChange) -> str:
    named = ", ".join(f"{name}={value}" for name, value in row.key.items())
    if row.before is not None and row.after is not None:
        return f"~ {named}: " + ", ".join(f"{name} {row.before[name]} -> {row.after[name]}" for name in row.columns)
    values = row.after or row.before or {}
    return f"{row.sign} {named}: " + ", ".join(
        f"{name}={value}" for name, value in values.items() if name not in row.key
    )


def as_json(diff: TableDiff, rows: RowDiff | None) -> dict[str, Any]:
    """The same for programs."""
    value: dict[str, Any] = {
        "before": point_as_json(diff.before),
        "after": point_as_json(diff.after),
        "schema": [asdict(change) for change in diff.schema],
        "partitioning": [asdict(change) for change in diff.partitioning],
        "files": [asdict(file) for file in diff.files],
        "rows_before": diff.rows_before,
        "rows_after": diff.rows_after,
    }
    return {**value, "rows": asdict(rows)} if rows else value


def point_as_json(point: Point) -> dict[str, Any]:
    """A point, as it was named and as it was found."""
    return {
        "name": point.name,
        "kind": point.kind,
        "snapshot_id": point.snapshot.snapshot_id,
        "time_ms": point.snapshot.timestamp_ms,
    }
