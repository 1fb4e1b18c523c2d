"""Names of tables, namespaces and columns, as callers write them: `lakehouse.sales` or `("lakehouse", "sales")`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from frazil.errors import ArgumentError

TABLE_NAME = "the name of a table, such as 'lakehouse.sales' or ('lakehouse', 'sales')"


def name_parts(name: object) -> tuple[str, ...] | None:
    """The parts of a name; None for what cannot be a name. A part is not empty and has no dot.

    >>> name_parts("lakehouse.sales"), name_parts(("lakehouse", "sales"))
    (('lakehouse', 'sales'), ('lakehouse', 'sales'))
    >>> name_parts("lakehouse..sales"), name_parts(("lakehouse.sales",)), name_parts(None), name_parts(())
    (None, None, None, None)
    """
    parts = name.split(".") if isinstance(name, str) else name
    if not isinstance(parts, list | tuple) or not parts or not all(map(_is_part, parts)):
        return None
    return tuple(parts)


def as_columns(names: str | Sequence[str], *, argument: str = "columns") -> tuple[str, ...]:
    """The names of columns; a text is one name.

    >>> as_columns("id"), as_columns(["id", "day"])
    (('id',), ('id', 'day'))
    """
    if isinstance(names, str):
        return (names,)
    columns: tuple[str, ...] | None = tuple(names) if isinstance(names, Iterable) else None
    if columns is not None and all(isinstance(name, str) for name in columns):
        return columns
    raise ArgumentError(argument, names, expected="the name of a column, or a list of names")


def index_name(column: str, metric: str) -> str:
    """The name of a vector index that is given none. Other characters than names of indexes have become `_`.

    >>> index_name("embedding", "cosine"), index_name("-größe 2", "l2")
    ('embedding_cosine', '_gr__e_2_l2')
    """
    name = re.sub(r"^[.-]|[^A-Za-z0-9_.-]", "_", column)
    return f"{name[:120]}_{metric}"


def _is_part(part: object) -> bool:
    return isinstance(part, str) and bool(part.strip()) and "." not in part
