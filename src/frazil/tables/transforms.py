"""The partition transforms as calls, for those who prefer them to text: `partition_by=[transforms.day("ts")]` is
`["day(ts)"]`.
"""

from __future__ import annotations

from frazil.tables.terms import quote_path

__all__ = ["bucket", "day", "hour", "identity", "month", "truncate", "void", "year"]


def identity(column: str) -> str:
    """One partition a value."""
    return quote_path(column)


def year(column: str) -> str:
    """One partition a year."""
    return f"year({quote_path(column)})"


def month(column: str) -> str:
    """One partition a month."""
    return f"month({quote_path(column)})"


def day(column: str) -> str:
    """One partition a day."""
    return f"day({quote_path(column)})"


def hour(column: str) -> str:
    """One partition an hour."""
    return f"hour({quote_path(column)})"


def bucket(count: int, column: str) -> str:
    """So many partitions, by the value's hash.

    >>> bucket(16, "id")
    'bucket(16, id)'
    """
    return f"bucket({count}, {quote_path(column)})"


def truncate(width: int, column: str) -> str:
    """One partition for values that start alike: the first `width` characters, or a multiple of `width`."""
    return f"truncate({width}, {quote_path(column)})"


def void(column: str) -> str:
    """Always NULL: the place of a partition field that is no more."""
    return f"void({quote_path(column)})"
