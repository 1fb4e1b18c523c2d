"""`frazil search`: the rows of a table that are nearest to a text or a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.explain import read_vector
from frazil.cli.query import check_terminal, print_batches
from frazil.cli.show import REFERENCE, output_option
from frazil.errors import VectorError
from frazil.protocol import METRICS

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.argument("text", required=False)
@click.option("--vector", metavar="[0.1,...]", help="A vector instead of a text: JSON, or @FILE that has it.")
@click.option("--column", help="The column of vectors; needed if the table has several.")
@click.option("-k", default=10, show_default=True, help="How many rows to show.")
@click.option("--where", metavar="FILTER", help="Which rows: country = 'NO' AND amount > 10.")
@click.option("--columns", metavar="A,B", help="Which columns; all but the vectors unless given.")
@click.option("--at", metavar="REFERENCE", shell_complete=complete_any_ref, help=f"As of when: {REFERENCE}.")
@click.option("--metric", type=click.Choice(METRICS), help="That of the column's only index unless given.")
@click.option("--exact", is_flag=True, help="Compare every row, without an index.")
@output_option("text", "json", "csv", "arrow")
@click.pass_obj
def search(
    context: Context,
    table: str,
    text: str | None,
    vector: str | None,
    column: str | None,
    k: int,
    where: str | None,
    columns: str | None,
    at: str | None,
    metric: str | None,
    exact: bool,
    output: str,
) -> None:
    """Show the rows of a table that are nearest to a text or a vector.

    A text needs an embedder, which lakehouse.py declares with the index: vector_index("embedding", embed=model). The
    rows have their distance, the nearest one first.
    """
    from frazil.lake import Lake

    check_terminal(output)
    if (text is None) == (vector is None):
        raise VectorError("a search is for a text or for a --vector", table=table, problem="arguments")
    wanted: Any = text if vector is None else read_vector(vector)
    lake_table = Lake(context.settings, catalog=context.catalog).table(table)
    schema = lake_table.schema
    column = column or _only_vectors(table, schema)
    shown = [field.name for field in schema.fields if field.name != column] if columns is None else columns.split(",")
    nearest = lake_table.scan(where, [name.strip() for name in shown], at=at).nearest(
        column, wanted, k=k, metric=metric, exact=exact
    )
    print_batches(nearest.to_arrow().to_reader(), output)


def _only_vectors(table: str, schema: Schema) -> str:
    """The column of the table that has vectors."""
    from pyiceberg.types import DoubleType, FloatType, ListType

    columns = [
        field.name
        for field in schema.fields
        if isinstance(field.field_type, ListType) and isinstance(field.field_type.element_type, FloatType | DoubleType)
    ]
    if len(columns) != 1:
        there = f"there are: {', '.join(columns)}" if columns else "a list of float or double is one"
        problem = "has several columns of vectors" if columns else "has no column of vectors"
        raise VectorError(f"{table} {problem}", hint=f"--column says which; {there}", table=table, problem="column")
    return columns[0]
