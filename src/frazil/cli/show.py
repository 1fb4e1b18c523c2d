"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

import click

from frazil.lake import print_rows as print_rows

OUTPUT = click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)


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
