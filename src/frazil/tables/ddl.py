"""A table from the CREATE TABLE of Trino or Spark. Every clause is honoured or named in an error; none is
passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from frazil.errors import DeclarationError, MissingExtra
from frazil.tables.ddl_types import Node, to_type
from frazil.tables.terms import quote_path
from frazil.tables.types import Column, NotAType

DIALECTS = ("trino", "spark")
T = TypeVar("T")


def table_from_ddl(
    make: Callable[..., T],
    text: str,
    *,
    dialect: str,
    checks: Sequence[str] = (),
    key: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    dropped: Sequence[str] = (),
) -> T:
    """The declared table that the statement means; the other arguments say what it cannot."""
    if dialect not in DIALECTS:
        raise DeclarationError(f"there is no dialect '{dialect}'", hint=f"dialects are {', '.join(DIALECTS)}")
    parsed = _Reader(dialect).read(_parse(text, dialect))
    return make(
        parsed.name,
        *parsed.columns,
        partition_by=parsed.partition_by,
        sort_by=[*parsed.sort_by, *sort_by],
        properties=parsed.properties,
        checks=[*parsed.checks, *checks],
        key=[*parsed.key, *(name for name in key if name not in parsed.key)],
        format_version=parsed.format_version,
        location=parsed.location,
        dropped=dropped,
    )


def _parse(text: str, dialect: str) -> Node:
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ModuleNotFoundError as exc:
        raise MissingExtra("sqlglot", extra="sinks") from exc
    try:
        statements: list[Node] = [statement for statement in sqlglot.parse(text, read=dialect) if statement is not None]
    except SqlglotError as exc:
        raise DeclarationError(
            f"the statement is not understood as {dialect}'s SQL: {str(exc).splitlines()[0]}"
        ) from exc
    if len(statements) != 1 or type(statements[0]).__name__ != "Create" or statements[0].kind != "TABLE":
        raise DeclarationError(f"expected one CREATE TABLE, got: {' '.join(text.split())[:80]}")
    return statements[0]


@dataclass
class _Found:
    name: str = ""
    columns: list[Column] = field(default_factory=list)
    partition_by: list[str] = field(default_factory=list)
    sort_by: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    format_version: int | None = None
    location: str | None = None


class _Reader:
    """Reads the parsed statement, clause by clause."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._found = _Found()

    def read(self, create: Node) -> _Found:
        schema = create.this
        if type(schema).__name__ != "Schema":
            raise DeclarationError("the statement declares no columns", hint="CREATE TABLE name (column type, ...)")
        self._found.name = self._table_name(schema.this)
        self._only(create, "this", "kind", "exists", "properties")
        for item in schema.expressions:
            self._item(item)
        for clause in create.args["properties"].expressions if create.args.get("properties") else ():
            self._clause(clause)
        return self._found

    # --- names and columns -------------------------------------------------------------------------------------------

    def _table_name(self, table: Node) -> str:
        parts = [self._name(part) for part in table.parts]
        return ".".join(parts[1:] if len(parts) > 2 else parts)

    def _name(self, node: Node) -> str:
        return str(node.name).lower() if self._dialect == "trino" else str(node.name)  # Trino has no other letters

    def _item(self, item: Node) -> None:
        kind = type(item).__name__
        if kind == "ColumnDef":
            self._found.columns.append(self._column(item))
        elif kind == "PrimaryKey":
            self._found.key += [self._name(column) for column in item.expressions]
        elif kind == "Constraint" and all(type(part).__name__ == "CheckColumnConstraint" for part in item.expressions):
            self._found.checks += [part.this.sql(dialect="spark") for part in item.expressions]
        else:
            raise self._refused(item)

    def _column(self, item: Node) -> Column:
        name = self._name(item.this)
        self._only(item, "this", "kind", "constraints")
        if item.args.get("kind") is None:
            raise DeclarationError(
                f"table '{self._found.name}': column '{name}' has no type", table=self._found.name, column=name
            )
        try:
            kind = to_type(item.args["kind"], self._dialect, self._column)
        except NotAType as exc:
            raise DeclarationError(
                f"table '{self._found.name}': column '{name}': {exc}",
                table=self._found.name,
                column=name,
                reason=str(exc),
            ) from exc
        required, doc, default = False, None, None
        for constraint in item.args.get("constraints") or ():
            match type(constraint.kind).__name__:
                case "NotNullColumnConstraint":
                    required = not constraint.kind.args.get("allow_null")
                case "CommentColumnConstraint":
                    doc = str(constraint.kind.this.name)
                case "DefaultColumnConstraint":
                    default = self._default(name, constraint.kind.this)
                case "PrimaryKeyColumnConstraint":
                    self._found.key.append(name)
                case "CheckColumnConstraint":
                    self._found.checks.append(constraint.kind.this.sql(dialect="spark"))
                case _:
                    raise self._refused(constraint, f"column '{name}': ")
        return Column(name, kind, required, doc, default)

    def _default(self, column: str, node: Node) -> object:
        """A default that is written out; it is stored in the table, so it cannot be computed later."""
        kind = type(node).__name__
        if kind == "Null":
            return None
        if kind == "Boolean":
            return bool(node.this)
        if kind == "Neg" and type(node.this).__name__ == "Literal":
            return _number(f"-{node.this.name}")
        if kind in ("Cast", "TryCast") and type(node.this).__name__ == "Literal":
            return str(node.this.name)
        if kind != "Literal":
            raise self._refused(node, f"column '{column}': DEFAULT ")
        return str(node.name) if node.is_string else _number(node.name)

    # --- clauses -----------------------------------------------------------------------------------------------------

    def _clause(self, clause: Node) -> None:
        match type(clause).__name__:
            case "FileFormatProperty":
                self._format(clause.this.name)
            case "PartitionedByProperty":
                self._found.partition_by += [self._spark_term(item) for item in clause.this.expressions]
            case "LocationProperty":
                self._found.location = str(clause.this.name)
            case "SchemaCommentProperty":
                self._found.properties["comment"] = str(clause.this.name)
            case "Property":
                key = clause.this.name
                self._trino_property(key.lower(), clause.args["value"]) if self._dialect == "trino" else self._property(
                    key, clause
                )
            case _:
                raise self._refused(clause)

    def _format(self, name: str) -> None:
        if self._dialect == "spark" and name.lower() != "iceberg":
            raise DeclarationError(
                f"table '{self._found.name}': USING {name} is not honoured",
                hint="write USING iceberg",
                table=self._found.name,
            )
        if self._dialect == "trino":
            self._found.properties["write.format.default"] = name.lower()

    def _property(self, key: str, clause: Node) -> None:
        value = _text(clause.args["value"])
        if key == "format-version":
            self._found.format_version = int(value)
        else:
            self._found.properties[key] = value

    def _trino_property(self, key: str, value: Node) -> None:
        known: dict[str, Callable[[Node], None]] = {
            "partitioning": lambda v: self._found.partition_by.extend(map(_trino_term, _texts(v))),
            "sorted_by": lambda v: self._found.sort_by.extend(text.lower() for text in _texts(v)),
            "format_version": lambda v: setattr(self._found, "format_version", int(v.name)),
            "extra_properties": lambda v: self._found.properties.update(
                zip(_texts(v.args["keys"]), _texts(v.args["values"]), strict=True)
            ),
            "parquet_bloom_filter_columns": lambda v: self._found.properties.update(
                {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in _texts(v)}
            ),
        }
        if key in known:
            known[key](value)
        elif key in _TRINO_PROPERTIES:
            self._found.properties[_TRINO_PROPERTIES[key]] = (
                _text(value).lower() if key != "data_location" else _text(value)
            )
        else:
            names = ", ".join(sorted({"format", "location", *known, *_TRINO_PROPERTIES}))
            raise DeclarationError(
                f"table '{self._found.name}': WITH ({key} = ...) is not honoured",
                hint=f"honoured are {names}",
                table=self._found.name,
            )

    def _spark_term(self, item: Node) -> str:
        """A partition in Spark's words, in ours."""
        kind = type(item).__name__
        if kind in ("PartitionedByBucket", "PartitionByTruncate"):
            return f"{'bucket' if 'Bucket' in kind else 'truncate'}({item.expression.name}, {self._path(item.this)})"
        if kind in ("Identifier", "Column"):
            return self._path(item)
        name = (
            item.name.lower() if kind == "Anonymous" else item.sql_name().lower() if hasattr(item, "sql_name") else ""
        )
        name = {"date": "day", "date_hour": "hour"}.get(name.rstrip("s"), name.rstrip("s"))
        columns = [node for node in item.walk() if type(node).__name__ == "Column"]
        if name not in ("year", "month", "day", "hour") or len(columns) != 1:
            raise self._refused(item, "PARTITIONED BY ")
        return f"{name}({self._path(columns[0])})"

    def _path(self, node: Node) -> str:
        return quote_path(".".join(part.name for part in getattr(node, "parts", [node])))

    # --- refusals ----------------------------------------------------------------------------------------------------

    def _only(self, node: Node, *honoured: str) -> None:
        """Refuses a node with an argument that is not supported."""
        for key, value in node.args.items():
            if value and key not in honoured:
                shown = value.sql(dialect=self._dialect) if hasattr(value, "sql") else key.replace("_", " ").upper()
                raise self._refused(node, f"{shown[:60]}: ", short=True)

    def _refused(self, node: Any, prefix: str = "", *, short: bool = False) -> DeclarationError:
        what = prefix.rstrip(": ") if short else prefix + node.sql(dialect=self._dialect)
        return DeclarationError(
            f"table '{self._found.name}': '{what}' cannot be honoured",
            hint="remove it from the statement, or write Table(...)",
            table=self._found.name,
        )


_TRINO_PROPERTIES = {
    "compression_codec": "write.parquet.compression-codec",
    "data_location": "write.data.path",
    "max_commit_retry": "commit.retry.num-retries",
    "object_store_layout_enabled": "write.object-storage.enabled",
}


def _trino_term(text: str) -> str:
    """A partition in Trino's words, in ours: it puts the column first, and knows small letters only.

    >>> _trino_term("bucket(Id, 16)"), _trino_term("day(ts)"), _trino_term('"my day"')
    ('bucket(16, id)', 'day(ts)', '"my day"')
    """
    call = re.fullmatch(r"\s*(bucket|truncate)\s*\(\s*(.+?)\s*,\s*(\d+)\s*\)\s*", text.lower())
    return f"{call[1]}({call[3]}, {call[2]})" if call else text.lower()


def _text(value: Node) -> str:
    return str(value.this).lower() if type(value).__name__ == "Boolean" else str(value.name)


def _texts(value: Node) -> list[str]:
    return [str(item.name) for item in value.expressions]


def _number(text: str) -> object:
    return int(text) if text.lstrip("-").isdigit() else float(text)
