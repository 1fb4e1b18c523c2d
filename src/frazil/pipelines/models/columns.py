"""The columns that a query gives, as far as its text says."""

from __future__ import annotations

import sqlglot.expressions as exp

from frazil.errors import DeclarationError
from frazil.pipelines.models.sql import DIALECT, Node, Query, words

# These give several columns, or one with a name of Spark's own.
_GENERATORS = words("explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack")


def output_names(query: Query) -> tuple[str, ...] | None:
    """The names of the result's columns; None where `*` or a generator leaves them open.

    >>> from frazil.pipelines.models.sql import parse_query
    >>> output_names(parse_query("SELECT o.id, amount * 2 AS twice, address.city FROM silver.orders o"))
    ('id', 'twice', 'city')
    >>> output_names(parse_query("SELECT o.* FROM silver.orders o"))
    """
    names: list[str] = []
    for place, expression in enumerate(_first_select(query.tree).expressions, start=1):
        own = _names(expression)
        if own is None:
            return None
        if not own:
            text = expression.sql(dialect=DIALECT)
            raise DeclarationError(
                f"column {place} of the query has no name: {text:.100}",
                hint=f"{text:.100} AS ...",
                option="sql",
                problem="unnamed",
                got=text,
            )
        names += own
    _refuse_twice(names)
    return tuple(names)


def _first_select(tree: Node) -> Node:
    """The SELECT whose names the result has: the first of a UNION."""
    while not isinstance(tree, exp.Select):
        tree = tree.this
    return tree


def _names(expression: Node) -> list[str] | None:
    """The names of one expression: none if it has no name, None if they are not known."""
    if isinstance(expression, exp.Alias):
        return [expression.alias]
    if isinstance(expression, exp.Aliases):
        return [name.name for name in expression.aliases] if expression.aliases else None
    if expression.is_star or _is_generator(expression):
        return None
    if isinstance(expression, exp.Dot):
        return None if isinstance(expression.expression, exp.Star) else [expression.expression.name]
    return [expression.name] if isinstance(expression, exp.Column) else []


def _is_generator(expression: Node) -> bool:
    if isinstance(expression, exp.Anonymous):
        return expression.name.lower() in _GENERATORS
    return isinstance(expression, exp.Func) and any(name.lower() in _GENERATORS for name in expression.sql_names())


def _refuse_twice(names: list[str]) -> None:
    lower = [name.lower() for name in names]
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise DeclarationError(
            f"the query gives column '{twice}' twice",
            hint="name one of them otherwise: ... AS ...",
            option="sql",
            column=twice,
            problem="twice",
        )
