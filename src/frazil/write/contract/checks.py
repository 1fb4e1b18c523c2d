"""Checks on rows: SQL expressions, evaluated over whole Arrow columns.

As a SQL CHECK: a row fails only where the expression is false; where it is NULL, the row passes. The text is read as
Spark SQL, so that a check means the same in a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CheckError, MissingExtra
from frazil.write.contract.sql_limits import why_unreadable
from frazil.write.files import column_at

# A column, or one value for all rows; Arrow publishes no types.
Values = Any
Evaluate = Callable[[pa.Table], Values]
LONG_MAX = 2**63 - 1
_SHORTER = "write several checks: a row must pass all of them"


@dataclass(frozen=True)
class Check:
    """A condition that rows must meet."""

    text: str
    evaluate: Evaluate
    # the parsed text; sqlglot is optional, and so are its types
    tree: Any = field(default=None, repr=False, compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that it reads."""
        from sqlglot import exp

        return frozenset(node.parts[0].name for node in self.tree.find_all(exp.Column))

    def fails(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """True where a row fails; None when all pass."""
        passed = pc.fill_null(self._values(rows), True)
        return None if pc.all(passed, min_count=0).as_py() else pc.invert(passed)

    def holds(self, rows: pa.Table) -> pa.ChunkedArray:
        """True where the condition is true; false where it is false or NULL."""
        return pc.fill_null(self._values(rows), False)

    def _values(self, rows: pa.Table) -> pa.ChunkedArray:
        try:
            values = self.evaluate(rows)
        except pa.ArrowException as exc:
            raise CheckError(
                f"check '{self.text}' cannot be computed: {str(exc).splitlines()[0]}", check=self.text
            ) from exc
        if isinstance(values, pa.Scalar):
            return pa.chunked_array([pa.array([values.as_py()] * rows.num_rows, pa.bool_())])
        return values


def compile_checks(texts: Sequence[str], schema: pa.Schema) -> tuple[Check, ...]:
    """The checks, each tried on no rows at once: a column that is not there and types that do not fit show before the
    first row.
    """
    return tuple(_compile(text, schema) for text in texts)


def _compile(text: str, schema: pa.Schema) -> Check:
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ModuleNotFoundError as exc:
        raise MissingExtra("sqlglot", extra="sinks") from exc
    if reason := why_unreadable(text):
        message = f"check '{text:.80}...': {reason}"
        raise CheckError(message, hint=_SHORTER, check=text, reason=reason, problem="too-deep")
    try:
        tree = sqlglot.parse_one(text, read="spark")
        check = Check(text, _Compiler(text, schema).visit(tree), tree)
        kind = check.evaluate(schema.empty_table()).type
    except SqlglotError as exc:
        message = f"check '{text}' is not a SQL expression: {str(exc).splitlines()[0]}"
        raise CheckError(message, check=text, problem="syntax") from exc
    except RecursionError as exc:
        raise CheckError(
            f"check '{text:.80}...': nested too deeply", hint=_SHORTER, check=text, problem="too-deep"
        ) from exc
    except pa.ArrowException as exc:
        raise CheckError(
            f"check '{text}' does not fit the columns: {str(exc).splitlines()[0]}",
            hint=_columns(schema),
            check=text,
            problem="types",
        ) from exc
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        message = f"check '{text}' gives {kind}, expected true or false"
        raise CheckError(message, check=text, expected="boolean", got=str(kind), problem="not-boolean")
    return check


def split_comparison(text: str, left: Any, right: Any, schema: pa.Schema) -> tuple[Values, Values]:
    """The two sides of a comparison over no rows, as `Check` compares them: a side without columns is a scalar."""
    compiler, rows = _Compiler(text, schema), schema.empty_table()
    return _alike(compiler.visit(left)(rows), compiler.visit(right)(rows))


def _columns(schema: pa.Schema) -> str:
    return "the columns are " + ", ".join(f"{field.name} {field.type}" for field in schema)


class _Compiler:
    """Turns a parsed expression into a function from rows to values; a method a kind of node, found by its class's
    name.
    """

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema

    def visit(self, node: Any) -> Evaluate:
        kind = type(node).__name__
        if kind in _BINARY:
            return self._binary(_BINARY[kind], node.this, node.expression)
        if kind in _UNARY:
            function, operand = _UNARY[kind], self.visit(node.this)
            return lambda rows: function(operand(rows))
        method: Callable[[Any], Evaluate] | None = getattr(self, f"_{kind.lower()}", None)
        if method is None:
            raise CheckError(
                f"check '{self._text}': '{node.sql(dialect='spark')}' is not supported ({kind})",
                hint="supported: comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, RLIKE, IS NULL, + - * / %, CASE, CAST, "
                "COALESCE, "
                "length, lower, upper, trim, abs",
                check=self._text,
                name=node.sql(dialect="spark"),
                problem="unsupported",
            )
        compiled = method(node)
        return (lambda rows: pc.invert(compiled(rows))) if node.args.get("negate") else compiled  # NOT LIKE, NOT RLIKE

    def _binary(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Evaluate:
        first, second = self.visit(left), self.visit(right)
        return lambda rows: function(*_alike(first(rows), second(rows)))

    def _paren(self, node: Any) -> Evaluate:
        return self.visit(node.this)

    def _column(self, node: Any) -> Evaluate:
        path = [part.name for part in node.parts]
        kind: pa.DataType = pa.struct(list(self._schema))
        for name in path:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                raise CheckError(
                    f"check '{self._text}': there is no column '{'.'.join(path)}'",
                    hint=_columns(self._schema),
                    check=self._text,
                    column=".".join(path),
                )
            kind = kind.field(name).type
        return lambda rows: column_at(rows, path)

    def _literal(self, node: Any) -> Evaluate:
        value = _scalar(node)
        return lambda _: value

    def _boolean(self, node: Any) -> Evaluate:
        value = pa.scalar(bool(node.this))
        return lambda _: value

    def _null(self, node: Any) -> Evaluate:
        return lambda _: pa.scalar(None)

    def _is(self, node: Any) -> Evaluate:
        operand = self.visit(node.this)
        wanted = type(node.expression).__name__
        if wanted == "Null":
            return lambda rows: pc.is_null(operand(rows))
        if wanted == "Boolean":
            return lambda rows: pc.fill_null(pc.equal(operand(rows), bool(node.expression.this)), False)
        message = f"check '{self._text}': IS {wanted.upper()} is not supported"
        raise CheckError(message, check=self._text, name=f"IS {wanted.upper()}", problem="unsupported")

    def _in(self, node: Any) -> Evaluate:
        operand = self.visit(node.this)
        choices = [self.visit(choice) for choice in node.expressions]
        if not choices:
            raise CheckError(f"check '{self._text}': IN needs a list of values", check=self._text, problem="in-list")

        def evaluate(rows: pa.Table) -> Values:
            values = operand(rows)
            matches = [pc.equal(*_alike(values, choice(rows))) for choice in choices]
            return _fold(pc.or_kleene, matches)

        return evaluate

    def _between(self, node: Any) -> Evaluate:
        above = self._binary(pc.greater_equal, node.this, node.args["low"])
        below = self._binary(pc.less_equal, node.this, node.args["high"])
        return lambda rows: pc.and_kleene(above(rows), below(rows))

    def _like(self, node: Any) -> Evaluate:
        return self._match(node, lambda values, pattern: pc.match_like(values, pattern))

    def _ilike(self, node: Any) -> Evaluate:
        return self._match(node, lambda values, pattern: pc.match_like(values, pattern, ignore_case=True))

    def _regexplike(self, node: Any) -> Evaluate:
        return self._match(node, lambda values, pattern: pc.match_substring_regex(values, pattern))

    def _match(self, node: Any, function: Callable[[Any, str], Any]) -> Evaluate:
        if type(node.expression).__name__ != "Literal":
            message = f"check '{self._text}': a pattern must be a text in quotes"
            raise CheckError(message, check=self._text, problem="pattern")
        operand, pattern = self.visit(node.this), str(node.expression.this)
        return lambda rows: function(operand(rows), pattern)

    def _coalesce(self, node: Any) -> Evaluate:
        parts = [self.visit(part) for part in (node.this, *node.expressions)]
        return lambda rows: pc.coalesce(*[part(rows) for part in parts])

    def _case(self, node: Any) -> Evaluate:
        if node.this is not None:
            message = f"check '{self._text}': write CASE WHEN condition THEN ..."
            raise CheckError(message, check=self._text, name="CASE", problem="unsupported")
        branches = [(self.visit(branch.this), self.visit(branch.args["true"])) for branch in node.args["ifs"]]
        otherwise = self.visit(node.args["default"]) if node.args.get("default") else self._null(node)

        def evaluate(rows: pa.Table) -> Values:
            result = otherwise(rows)
            for condition, value in reversed(branches):
                result = pc.if_else(pc.fill_null(condition(rows), False), value(rows), result)
            return result

        return evaluate

    def _cast(self, node: Any) -> Evaluate:
        name = node.to.this.name
        if name not in _CASTS:
            raise CheckError(
                f"check '{self._text}': CAST to {name} is not supported",
                hint=f"supported: {', '.join(_CASTS)}",
                check=self._text,
                name=f"CAST to {name}",
                problem="unsupported",
            )
        operand, kind = self.visit(node.this), _CASTS[name]
        return lambda rows: _to(operand(rows), kind)

    _trycast = _cast  # Spark's plain CAST is read as this one


def _scalar(node: Any) -> pa.Scalar:
    if node.is_string:
        return pa.scalar(str(node.this))
    text = str(node.this)
    is_long = text.isdigit() and int(text) <= LONG_MAX
    return pa.scalar(int(text)) if is_long else pa.scalar(Decimal(text))


def _alike(left: Values, right: Values) -> tuple[Values, Values]:
    """Both sides in types that Arrow compares: a text in quotes becomes what it is compared with, 0.5 a float next to
    floats.
    """
    return _towards(left, right.type), _towards(right, left.type)


def _towards(value: Values, other: pa.DataType) -> Values:
    if isinstance(value, pa.Scalar):
        if pa.types.is_string(value.type) and (pa.types.is_temporal(other) or pa.types.is_decimal(other)):
            return _to(value, other)
        if pa.types.is_decimal(value.type) and pa.types.is_floating(other):
            return value.cast(other)
        # TIMESTAMP '...' has a zone in Spark; the column may have none.
        if pa.types.is_timestamp(value.type) and pa.types.is_timestamp(other):
            return value.cast(other)
    elif pa.types.is_integer(value.type) and pa.types.is_decimal(other):
        return pc.cast(value, pa.decimal128(19, 0))
    return value


def _to(value: Values, kind: pa.DataType) -> Values:
    """A cast; a text without a zone means UTC."""
    if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_string(value.type):
        value = pc.cast(value, pa.timestamp(kind.unit))
    return pc.cast(value, kind)


def _fold(function: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = function(result, value)
    return result


def _divide(left: Values, right: Values) -> Values:
    """As in Spark: always a fraction, and NULL where the divisor is zero."""
    divisor = pc.cast(right, pa.float64())
    return pc.divide(
        pc.cast(left, pa.float64()), pc.if_else(pc.equal(divisor, 0.0), pa.scalar(None, pa.float64()), divisor)
    )


def _remainder(left: Values, right: Values) -> Values:
    divisor = pc.if_else(pc.equal(right, pa.scalar(0)), pa.scalar(None, right.type), right)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "And": pc.and_kleene,
    "Or": pc.or_kleene,
    "EQ": pc.equal,
    "NEQ": pc.not_equal,
    "GT": pc.greater,
    "GTE": pc.greater_equal,
    "LT": pc.less,
    "LTE": pc.less_equal,
    "Add": pc.add_checked,
    "Sub": pc.subtract_checked,
    "Mul": pc.multiply_checked,
    "Div": _divide,
    "Mod": _remainder,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "Not": pc.invert,
    "Neg": pc.negate,
    "Length": pc.utf8_length,
    "Lower": pc.utf8_lower,
    "Upper": pc.utf8_upper,
    "Trim": pc.utf8_trim_whitespace,
    "Abs": pc.abs,
}
_CASTS: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}
