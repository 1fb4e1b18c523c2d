"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

OUTPUT = click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)


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

    table = Table(box=SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        # Text, not str: brackets in a value are no markup.
        table.add_row(*(Text("" if value is None else str(value), overflow="fold") for value in row))
    if console is None:
        console = Console()
        console = console if console.is_terminal else Console(width=240)
    console.print(table)


def to_json(value: Any) -> str:
    """The value as indented JSON; what JSON has no word for is text."""
    return json.dumps(value, indent=2, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """
    >>> import datetime, decimal
    >>> _plain(datetime.date(2024, 1, 18)), _plain(decimal.Decimal("1.50")), _plain(b"ab"), _plain({3, 1})
    ('2024-01-18', '1.50', '6162', [1, 3])
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def count(number: int, noun: str) -> str:
    """
    >>> count(1, "file"), count(1200, "row")
    ('1 file', '1,200 rows')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size(number: int) -> str:
    """
    >>> size(512), size(2_345_678)
    ('512 B', '2.3 MB')
    """
    for unit, bytes_ in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= bytes_:
            return f"{number / bytes_:.1f} {unit}"
    return f"{number} B"
