"""Prints rows as a table, for people: query results in Python and on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    title: str | None = None,
    console: Console | None = None,
) -> None:
    """A table; columns named in `right` are aligned as numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from frazil.terminal import visible

    table = Table(box=SIMPLE_HEAD, title=Text(visible(title)) if title else None, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(Text(visible(column)), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        # Text, not str: brackets in a value are no markup.
        table.add_row(*(Text("" if value is None else visible(str(value)), overflow="fold") for value in row))
    if console is None:
        console = Console()
        console = console if console.is_terminal else Console(width=240)
    console.print(table)


def is_number(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are aligned as numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
