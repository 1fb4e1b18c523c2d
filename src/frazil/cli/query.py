"""`frazil query`: SQL over the lake's tables, now or at a point of their past."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.context import Context
from frazil.cli.show import REFERENCE, echo, output_option, print_rows, to_json
from frazil.errors import QueryError
from frazil.terminal import visible

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.lake import QueryEngine

MOST_ROWS = 1000  # that a table shows where there is no one to turn its pages
PAGE_ROWS = 500


@click.command()
@click.argument("sql")
@click.option("--at", metavar="REFERENCE", help=f"Every table as of then: {REFERENCE}.")
@click.option("--snapshot", type=int, metavar="ID", help="The table at this snapshot.")
@click.option("--ref", metavar="NAME", help="Every table at this branch or tag.")
@click.option("--env", metavar="NAME", help="Every table at the branch of this environment if it has one, else main.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "trino", "spark"]),
    default="duckdb",
    show_default=True,
    help="What runs it.",
)
@click.option("--write", is_flag=True, help="Let it change something; on Trino and Spark.")
@click.option("--limit", type=click.IntRange(1), metavar="ROWS", help="Only the first rows of the result.")
@output_option("text", "json", "csv", "arrow", former={"table": "text"})
@click.pass_obj
def query(
    context: Context,
    sql: str,
    at: str | None,
    snapshot: int | None,
    ref: str | None,
    env: str | None,
    engine: QueryEngine,
    write: bool,
    limit: int | None,
    output: str,
) -> None:
    """Run a SELECT over the catalog's tables.

    Runs on an embedded DuckDB unless --engine says otherwise. Tables are named namespace.table. Inside the query,
    one table travels by itself: FROM a.b AT (VERSION => 'tag'), AT (VERSION => 123), AT (TIMESTAMP =>
    '2024-01-18'). FROM nearest('a.b', 'column', [0.1, 0.2], k := 10) gives the rows whose vectors are nearest, with
    their _distance. EXPLAIN, DESCRIBE, SUMMARIZE and PIVOT work, too. On a terminal the result comes in pages;
    `--output arrow` is an Arrow stream for other programs.
    """
    from frazil.lake import Lake

    points = [point for point in (at, snapshot, ref) if point is not None]
    if len(points) + (env is not None) > 1:
        raise QueryError(
            "--at, --snapshot, --ref and --env exclude each other",
            hint="inside the query, tables can differ: a.b AT (VERSION => 'tag')",
            problem="exclusive-options",
        )
    if write and engine == "duckdb":
        raise QueryError("the embedded DuckDB only reads", hint="--write goes with --engine trino or spark")
    check_terminal(output)
    lake = Lake(context.settings, catalog=context.catalog)
    point = points[0] if points else None
    rows = lake.sql(sql, at=point, env=env, engine=engine, write=write).to_batches()
    print_batches(rows if limit is None else first_rows(rows, limit), output)


def first_rows(rows: pa.RecordBatchReader, limit: int) -> pa.RecordBatchReader:
    """The first rows; the rest is not computed."""
    import pyarrow as pa

    def batches() -> Iterator[pa.RecordBatch]:
        left = limit
        while left > 0 and (batch := next(rows, None)) is not None:
            yield batch.slice(0, left)
            left -= batch.num_rows

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def check_terminal(output: str) -> None:
    """An Arrow stream is not written to a terminal."""
    if output == "arrow" and sys.stdout.isatty():
        raise QueryError(
            "an Arrow stream is no text for a terminal", hint="send it to a file or a program: > rows.arrow"
        )


def print_batches(rows: pa.RecordBatchReader, output: str) -> None:
    """Prints rows in one of the formats `text`, `json`, `csv` and `arrow`."""
    printers: dict[str, Callable[[pa.RecordBatchReader], None]] = {"text": _print_table, "json": _print_json}
    printers |= {"csv": _print_csv, "arrow": _write_arrow}
    printers[output](rows)


def _print_table(result: pa.RecordBatchReader) -> None:
    from frazil.lake import is_number

    numbers = [field.name for field in result.schema if is_number(field.type)]
    if sys.stdout.isatty():
        click.echo_via_pager(_pages(result, numbers))
        return
    rows = _rows(result)
    shown = list(islice(rows, MOST_ROWS))
    print_rows(result.schema.names, (list(row.values()) for row in shown), right=numbers)
    if next(rows, None) is not None:
        echo(f"the first {MOST_ROWS:,} rows; --output csv, json or arrow gives all", err=True)


def _pages(result: pa.RecordBatchReader, numbers: Sequence[str]) -> Iterator[str]:
    """Tables of some rows each, made as far as someone reads."""
    from rich.console import Console

    rows, width = _rows(result), Console().width
    page = list(islice(rows, PAGE_ROWS))
    while True:
        text = io.StringIO()
        print_rows(
            result.schema.names,
            (list(row.values()) for row in page),
            right=numbers,
            console=Console(file=text, width=width),
        )
        yield text.getvalue()
        page = list(islice(rows, PAGE_ROWS))
        if not page:
            return


def _print_json(result: pa.RecordBatchReader) -> None:
    """A list, row after row: the result is never in memory as a whole."""
    first = True
    for row in _rows(result):
        echo(("[\n" if first else ",\n") + to_json(row), nl=False)
        first = False
    echo("[]" if first else "\n]")


def _print_csv(result: pa.RecordBatchReader) -> None:
    """Values as they are for a file or a program; on a terminal, control characters are written out."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    shown: Callable[[str], str] = visible if sys.stdout.isatty() else str
    writer.writerow(map(shown, result.schema.names))
    for row in _rows(result):
        writer.writerow("" if value is None else shown(str(value)) for value in row.values())


def _write_arrow(result: pa.RecordBatchReader) -> None:
    from pyarrow import ipc

    out = sys.stdout.buffer
    with ipc.new_stream(out, result.schema) as stream:
        for batch in result:
            stream.write_batch(batch)
    out.flush()


def _rows(result: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """The rows as dicts, one after the other."""
    for batch in result:
        yield from batch.to_pylist()
