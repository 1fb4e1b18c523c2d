"""Row filters: bound to a schema with errors that help, cut into terms, and read from and written as the REST
specification's JSON.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.conversions import to_json as value_to_json
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundLiteralPredicate,
    BoundPredicate,
    BoundSetPredicate,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    SetPredicate,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import Literal, UUIDLiteral
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, FixedType, IcebergType, PrimitiveType

from frazil.errors import ScanError
from frazil.pyiceberg_compat import ids_by_name

UNARY: dict[str, Any] = {"is-null": IsNull, "not-null": NotNull, "is-nan": IsNaN, "not-nan": NotNaN}
COMPARISONS: dict[str, Any] = {"lt": LessThan, "lt-eq": LessThanOrEqual, "gt": GreaterThan, "gt-eq": GreaterThanOrEqual}
COMPARISONS |= {"eq": EqualTo, "not-eq": NotEqualTo, "starts-with": StartsWith, "not-starts-with": NotStartsWith}
SETS: dict[str, Any] = {"in": In, "not-in": NotIn}
MIRRORED = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}
SIGNS = {
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "EqualTo": "=",
    "NotEqualTo": "!=",
}
WORDS = {
    "IsNull": "IS NULL",
    "NotNull": "IS NOT NULL",
    "IsNaN": "IS NAN",
    "NotNaN": "IS NOT NAN",
    "In": "IN",
    "NotIn": "NOT IN",
}
WORDS |= {"StartsWith": "STARTS WITH", "NotStartsWith": "NOT STARTS WITH"}
SHOWN_VALUES = 5
NAME_LENGTH = 200  # of a column that does not exist, in messages


# --- binding ---------------------------------------------------------------------------------------------------------


def bind_filter(
    expr: BooleanExpression, schema: Schema, *, table: str, case_sensitive: bool = True
) -> BooleanExpression:
    """The expression bound to a schema and without `not`; an error names the column, and near ones, or the value that
    does not fit.
    """
    try:
        plain = rewrite_not(expr)
        for predicate in _predicates(plain):
            _check(predicate, schema, table=table, case_sensitive=case_sensitive)
        return bind(schema, plain, case_sensitive)
    except RecursionError as exc:
        raise ScanError(
            f"the filter on {table} is nested too deeply",
            hint="use IN for long lists of values",
            table=table,
            problem="too-deep",
        ) from exc


def _predicates(expr: BooleanExpression) -> Iterator[UnboundPredicate]:
    pending = [expr]
    while pending:
        expression = pending.pop()
        if isinstance(expression, And | Or):
            pending += [expression.left, expression.right]
        elif isinstance(expression, UnboundPredicate):
            yield expression


def _check(predicate: UnboundPredicate, schema: Schema, *, table: str, case_sensitive: bool) -> None:
    name = str(predicate.term.name)  # type: ignore[attr-defined]  # PyIceberg has references and no other terms
    kind = schema.find_type(check_column(name, schema, table=table, case_sensitive=case_sensitive))
    try:
        predicate.bind(schema, case_sensitive)
    except (TypeError, ValueError, ArithmeticError) as exc:
        shown = _values_of(predicate)
        raise ScanError(
            f"{table}: column '{name}' is of type {kind}, and cannot be compared with {shown}",
            hint=_example(kind),
            table=table,
            column=name,
            expected=str(kind),
            got=shown,
        ) from exc


def check_column(name: str, schema: Schema, *, table: str, case_sensitive: bool = True) -> str:
    """The column's name as the schema has it; an error names near ones."""
    try:
        field = schema.find_field(name, case_sensitive)
    except ValueError:
        ids = ids_by_name(schema)
        known = sorted(ids, key=lambda candidate: (candidate.count("."), ids[candidate]))
        short = name.lower()[:NAME_LENGTH]
        near = difflib.get_close_matches(short, [candidate.lower() for candidate in known], n=2, cutoff=0.6)
        names = [candidate for candidate in known if candidate.lower() in near] or known[:10]
        hint = (
            f"did you mean {' or '.join(names)}?"
            if near
            else f"it has: {', '.join(names)}{', ...' if len(known) > 10 else ''}"
        )
        raise ScanError(
            f"{table} has no column '{name[:NAME_LENGTH]}'", hint=hint, table=table, column=name[:NAME_LENGTH]
        ) from None
    return str(schema.find_column_name(field.field_id))


def _values_of(predicate: UnboundPredicate) -> str:
    if isinstance(predicate, LiteralPredicate):
        return repr(predicate.literal.value)
    if isinstance(predicate, SetPredicate):
        return ", ".join(sorted(repr(literal.value) for literal in predicate.literals)[:SHOWN_VALUES])
    return str(predicate)


def _example(kind: IcebergType) -> str | None:
    known = {
        "date": "'2024-01-18'",
        "timestamp": "'2024-01-18T09:30:00'",
        "timestamptz": "'2024-01-18T09:30:00+00:00'",
        "boolean": "true",
    }
    return f"write it as {known[str(kind)]}" if str(kind) in known else None


def split_terms(bound: BooleanExpression) -> list[BooleanExpression]:
    """The parts that must all hold; none for a filter that is always true."""
    if isinstance(bound, And):
        return [*split_terms(bound.left), *split_terms(bound.right)]
    return [] if isinstance(bound, AlwaysTrue) else [bound]


# --- shown to people -------------------------------------------------------------------------------------------------


def show(expr: BooleanExpression, schema: Schema) -> str:
    """A bound expression as SQL would have it."""
    match expr:
        case AlwaysTrue():
            return "true"
        case AlwaysFalse():
            return "false"
        case And():
            return f"{show(expr.left, schema)} AND {show(expr.right, schema)}"
        case Or():
            return f"({show(expr.left, schema)} OR {show(expr.right, schema)})"
        case BoundPredicate():
            return _show_predicate(expr, schema)
    return str(expr)


def _show_predicate(expr: BoundPredicate, schema: Schema) -> str:
    field = expr.term.ref().field
    column, word = schema.find_column_name(field.field_id) or field.name, type(expr).__name__.removeprefix("Bound")
    sign = SIGNS.get(word) or WORDS.get(word, word)
    if isinstance(expr, BoundLiteralPredicate):
        return f"{column} {sign} {_show_value(expr.literal.value, field.field_type)}"
    if isinstance(expr, BoundSetPredicate):
        values = sorted(_show_value(literal.value, field.field_type) for literal in expr.literals)
        more = f", ... {len(values) - SHOWN_VALUES} more" if len(values) > SHOWN_VALUES else ""
        return f"{column} {sign} ({', '.join(values[:SHOWN_VALUES])}{more})"
    return f"{column} {sign}"


def _show_value(value: Any, kind: IcebergType) -> str:
    if isinstance(value, bytes) and str(kind) == "uuid":
        value = UUID(bytes=value)
    assert isinstance(kind, PrimitiveType)
    try:
        plain = value_to_json(kind, value)
    except (TypeError, ValueError, NotImplementedError):
        plain = str(value)
    return f"'{plain}'" if isinstance(plain, str) and not isinstance(value, Decimal) else str(plain)


# --- the specification's JSON ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedFilter:
    """A filter that a client sent. What cannot be used to prune (transforms, functions) is left out of `expr`, and then
    `complete` is False: the filter as it was sent is what remains to be applied to the rows.
    """

    expr: BooleanExpression
    complete: bool


class FilterReader:
    """Reads filters in the specification's JSON, in its older and in its newer form."""

    def __init__(self, schema: Schema, *, table: str, case_sensitive: bool, max_literals: int | None = None) -> None:
        self._schema, self._table, self._case_sensitive = schema, table, case_sensitive
        self._complete = True
        self._literals, self._max_literals = 0, max_literals

    def read(self, node: Any) -> ParsedFilter:
        """The filter as an expression without `not`."""
        try:
            expr = self._expression(node, negated=False)
        except RecursionError as exc:
            raise ScanError(
                f"the filter on {self._table} is nested too deeply",
                hint="use in for long lists of values",
                table=self._table,
                problem="too-deep",
            ) from exc
        return ParsedFilter(expr, self._complete)

    def _expression(self, node: Any, *, negated: bool) -> BooleanExpression:
        if isinstance(node, bool):
            return AlwaysTrue() if node != negated else AlwaysFalse()
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise self._wrong("an expression must be true, false or an object with a type", node)
        kind = node["type"]
        if kind in ("true", "false"):
            return self._expression(kind == "true", negated=negated)
        if kind == "not":
            return self._expression(node.get("child"), negated=not negated)
        if kind in ("and", "or"):
            combine = And if (kind == "and") != negated else Or
            return combine(*(self._expression(node.get(side), negated=negated) for side in ("left", "right")))
        predicate = self._predicate(kind, node)
        if predicate is None:
            self._complete = False
            return AlwaysTrue()
        return ~predicate if negated else predicate

    def _predicate(self, kind: str, node: dict[str, Any]) -> BooleanExpression | None:
        """A predicate on a column; None for one on something else, which is right and of no use here."""
        self._count(1)
        if kind in UNARY:
            name = self._column(node.get("term", node.get("child")))
            return None if name is None else UNARY[kind](name)
        if kind in SETS:
            name = self._column(node.get("term", node.get("child")))
            return None if name is None else self._set(kind, name, node.get("values"))
        if kind not in COMPARISONS:
            known = ", ".join(["true", "false", "not", "and", "or", *UNARY, *COMPARISONS, *SETS])
            raise self._wrong(f"the expression type must be one of {known}", kind)
        left, right = node.get("term", node.get("left")), node["value"] if "value" in node else node.get("right")
        if _is_reference(right) and not _is_reference(left):
            if kind not in MIRRORED:
                return None
            kind, left, right = MIRRORED[kind], right, left
        name = self._column(left)
        if name is None or _is_reference(right):
            return None
        return COMPARISONS[kind](name, self._literal(name, right))  # type: ignore[no-any-return]

    def _set(self, kind: str, name: str, values: Any) -> BooleanExpression:
        if isinstance(values, dict):
            values = values.get("values")
        if not isinstance(values, list):
            raise self._wrong(f"the values of '{kind}' must be a list", values)
        self._count(len(values))
        return SETS[kind](name, [self._literal(name, value) for value in values])  # type: ignore[no-any-return]

    def _count(self, more: int) -> None:
        """Refuses a filter of too many values and predicates: each takes time for every manifest."""
        self._literals += more
        if self._max_literals is not None and self._literals > self._max_literals:
            raise ScanError(
                f"the filter on {self._table} has more than {self._max_literals} values and predicates",
                hint="use ranges, or join with a table of the values",
                table=self._table,
            )

    def _column(self, term: Any) -> str | None:
        """The column that a term names; None for a transform or function of one."""
        if isinstance(term, dict):
            if term.get("type") in ("transform", "apply"):
                return None
            if term.get("type") == "reference" and type(term.get("id")) is int:
                column_name = self._schema.find_column_name(term["id"])
                if column_name is None:
                    raise ScanError(f"{self._table} has no column with field id {term['id']}", table=self._table)
                return column_name
            term = term.get("name") if term.get("type") == "reference" else None
        if not isinstance(term, str):
            raise self._wrong("a predicate needs a term: a column's name, a reference or a transform", term)
        return check_column(term, self._schema, table=self._table, case_sensitive=self._case_sensitive)

    def _literal(self, name: str, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type") == "literal":
            value = value.get("value")
        kind = self._schema.find_type(name)
        if not isinstance(value, bool | int | float | str):
            raise self._wrong(f"column '{name}' must be compared with a value of type {kind}", value)
        if not isinstance(kind, PrimitiveType):
            raise ScanError(
                f"{self._table}: column '{name}' is of type {kind}, and cannot be compared with a value",
                table=self._table,
                column=name,
            )
        if isinstance(kind, BinaryType | FixedType):
            try:
                return bytes.fromhex(str(value))
            except ValueError:
                raise self._wrong(f"a value of type {kind} is written in hexadecimal digits", value) from None
        if str(kind) == "uuid":
            try:
                return UUID(str(value))
            except ValueError:
                raise self._wrong(f"column '{name}' is of type uuid", value) from None
        return value

    def _wrong(self, rule: str, value: Any) -> ScanError:
        shown = repr(value)
        return ScanError(
            f"filter on {self._table}: {rule}, got {shown if len(shown) <= 80 else shown[:77] + '...'}",
            got=shown if len(shown) <= 80 else shown[:77] + "...",
            table=self._table,
        )


def _is_reference(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in ("reference", "apply", "transform")


def filter_to_json(expr: BooleanExpression) -> Any:
    """An expression with names in the specification's JSON, in the form that all clients read."""
    match expr:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And():
            return {"type": "and", "left": filter_to_json(expr.left), "right": filter_to_json(expr.right)}
        case Or():
            return {"type": "or", "left": filter_to_json(expr.left), "right": filter_to_json(expr.right)}
        case Not():
            return {"type": "not", "child": filter_to_json(expr.child)}
    assert isinstance(expr, UnboundPredicate)
    name = str(expr.term.name)  # type: ignore[attr-defined]
    kind = next(kind for kind, operator in (UNARY | COMPARISONS | SETS).items() if type(expr) is operator)
    if isinstance(expr, LiteralPredicate):
        return {"type": kind, "term": name, "value": _plain_value(expr.literal)}
    if isinstance(expr, SetPredicate):
        values = [_plain_value(literal) for literal in expr.literals]
        return {"type": kind, "term": name, "values": sorted(values, key=lambda literal: (str(type(literal)), literal))}
    return {"type": kind, "term": name}


def _plain_value(literal: Literal[Any]) -> Any:
    value = literal.value
    if isinstance(value, bytes):
        return str(UUID(bytes=value)) if isinstance(literal, UUIDLiteral) else value.hex()
    return str(value) if isinstance(value, Decimal | UUID) else value
