"""`frazil query`: SQL over the lake's tables, now or at a point of their past."""

from __future__ import annotations

import csv
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.context import Context
from frazil.cli.show import print_rows, to_json
from frazil.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1000  # that a table on the screen shows


@click.command()
@click.argument("sql")
@click.option("--at", metavar="TIME", help="Every table as it was at this time, UTC unless it names a zone.")
@click.option("--snapshot", type=int, metavar="ID", help="The table at this snapshot.")
@click.option("--ref", metavar="NAME", help="Every table at this branch or tag.")
@click.option("--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.pass_obj
def query(context: Context, sql: str, at: str | None, snapshot: int | None, ref: str | None, output: str) -> None:
    """Run a SELECT over the catalog's tables, on an embedded DuckDB.

    Tables are named namespace.table. Inside the query, one table travels by itself: FROM a.b AT (VERSION => 'tag'), AT (VERSION => 123),
    AT (TIMESTAMP => '2024-01-18').
    """
    from frazil.lake import Lake

    given = [point for point in (at, snapshot, ref) if point is not None]
    if len(given) > 1:
        raise QueryError(
            "--at, --snapshot and --ref exclude each other", hint="inside the query, tables can differ: a.b AT (VERSION => 'tag')"
        )
    result = Lake(context.settings, catalog=context.catalog).query(sql, at=given[0] if given else None)
    {"table": _print_table, "json": _print_json, "csv": _print_csv}[output](result)


def _print_table(result: pa.RecordBatchReader) -> None:
    numbers = [field.name for field in result.schema if _is_number(field.type)]
    rows = _rows(result)
    shown = list(islice(rows, MOST_ROWS))
    print_rows(result.schema.names, (row.values() for row in shown), right=numbers)
    if next(rows, None) is not None:
        click.echo(f"the first {MOST_ROWS:,} rows; --output csv or json gives all", err=True)


def _print_json(result: pa.RecordBatchReader) -> None:
    click.echo(to_json(list(_rows(result))))


def _print_csv(result: pa.RecordBatchReader) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.schema.names)
    for row in _rows(result):
        writer.writerow("" if value is None else value for value in row.values())


def _rows(result: pa.RecordBatchReader) -> Any:
    """The rows as dicts, one after the other."""
    for batch in result:
        yield from batch.to_pylist()


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
