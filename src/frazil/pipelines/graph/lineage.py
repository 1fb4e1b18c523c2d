"""Lineage of columns: from which columns of its inputs each column of a model is computed.

What the query leaves open is reported as unknown, with the reason; nothing is guessed. Conditions (WHERE, JOIN ... ON)
decide which rows there are, and do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
import sqlglot.expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope

from frazil.pipelines.graph.nodes import Graph
from frazil.pipelines.models import Model, output_names, parse_query, rename_tables
from frazil.tables import Table

DIALECT = "spark"
Schemas = Mapping[str, Sequence[str]]  # the names of the columns by table


@dataclass(frozen=True)
class ColumnLineage:
    """A column of a model: its expression, and the columns of inputs that the expression uses."""

    column: str
    expression: str
    inputs: tuple[tuple[str, str], ...] = ()  # table and column
    unknown: str | None = None  # why the inputs are not known


@dataclass(frozen=True)
class Lineage:
    """The columns of a model, or why they are not known."""

    model: str
    columns: tuple[ColumnLineage, ...] = ()
    unknown: str | None = None


class _Open(Exception):
    """The query leaves something open; the message says what."""


def trace_columns(graph: Graph, models: Iterable[Model], tables: Iterable[Table]) -> dict[str, Lineage]:
    """The lineage of each model, by name; the columns of a model are known to those that read it."""
    schemas = {table.name: tuple(column.name for column in table.columns) for table in tables}
    by_name = {model.name: model for model in models}
    result = {}
    for model in (by_name[node.name] for node in graph.nodes if node.name in by_name):
        result[model.name] = traced = trace_model(model, schemas)
        names = [column.name for column in model.columns] or [column.column for column in traced.columns]
        if names:
            schemas[model.name] = tuple(names)
    return result


def trace_model(model: Model, schemas: Schemas) -> Lineage:
    """The lineage of one model, given the columns of the tables that it reads, where they are known.

    >>> from frazil.pipelines.models import model
    >>> revenue = model("gold.revenue", "SELECT day, sum(amount) AS revenue FROM silver.orders GROUP BY day")
    >>> for column in trace_model(revenue, {"silver.orders": ["day", "amount"]}).columns:
    ...     print(column.column, column.expression, column.inputs)
    day day (('silver.orders', 'day'),)
    revenue SUM(amount) (('silver.orders', 'amount'),)
    """
    query = _Traced(model, schemas)
    try:
        names, expressions = query.names(), query.expressions()
    except _Open as exc:
        return Lineage(model.name, unknown=str(exc))
    columns = []
    for place, name in enumerate(names):
        expression = expressions[place] if len(expressions) == len(names) else name
        try:
            columns.append(ColumnLineage(name, expression, tuple(query.inputs(place))))
        except _Open as exc:
            columns.append(ColumnLineage(name, expression, unknown=str(exc)))
    return Lineage(model.name, tuple(columns))


class _Traced:
    """A query with all columns qualified, as far as the schemas allow."""

    def __init__(self, model: Model, schemas: Schemas) -> None:
        self.model, self.query = model, parse_query(model.sql)
        # Names of one part: sqlglot wants the same number of parts in all names of a schema.
        self.aliases = {table: f"__input_{number}" for number, table in enumerate(model.inputs)}
        self.tables = {alias: table for table, alias in self.aliases.items()}
        self.columns = {
            table: {column.lower(): column for column in schemas[table]} for table in model.inputs if table in schemas
        }
        self.problem: str | None = None
        self.tree: Any = None
        self._qualify()

    def _qualify(self) -> None:
        renamed = sqlglot.parse_one(rename_tables(self.model.sql, self.aliases), read=DIALECT)
        self.schema: Any = {
            self.aliases[table]: dict.fromkeys(columns, "unknown") for table, columns in self.columns.items()
        }
        try:
            self.tree = qualify(renamed, schema=self.schema, dialect=DIALECT, validate_qualify_columns=False)
            self.scope = build_scope(self.tree)
        except SqlglotError as exc:
            self.problem = self._reason(exc)

    def names(self) -> tuple[str, ...]:
        """The names of the result's columns, as the text or the schemas have them."""
        names = output_names(self.query)
        if names is not None:
            return names
        if self.tree is None:
            raise _Open(self._why())
        selects = self.tree.selects
        if any(select.is_star or not select.alias_or_name for select in selects):
            raise _Open(self._why())
        written = {lower: name for columns in self.columns.values() for lower, name in columns.items()}
        return tuple(written.get(select.alias_or_name, select.alias_or_name) for select in selects)

    def _why(self) -> str:
        if self.undeclared:
            return f"the columns of {self.undeclared} are not declared, and SELECT * needs them"
        return self.problem or "the query does not name its columns"

    @property
    def undeclared(self) -> str:
        """The inputs without a schema."""
        return ", ".join(table for table in self.model.inputs if table not in self.columns)

    def _reason(self, exc: Exception) -> str:
        """Why sqlglot cannot resolve the query."""
        if self.undeclared:
            return f"the columns of {self.undeclared} are not declared, and the query needs them"
        return str(exc).partition("\n")[0].partition(". Line")[0].rstrip(".") or type(exc).__name__

    def expressions(self) -> list[str]:
        """The text of each expression; none where `*` stands for some."""
        tree = self.query.tree
        while not isinstance(tree, exp.Select):
            tree = tree.this
        if any(expression.is_star for expression in tree.expressions):
            return []
        return [expression.unalias().sql(dialect=DIALECT) for expression in tree.expressions]

    def inputs(self, place: int) -> Iterator[tuple[str, str]]:
        """The columns of tables that a column of the result is computed from."""
        if self.tree is None:
            raise _Open(self.problem or "the query cannot be resolved")
        name = self.tree.selects[place].alias_or_name
        try:
            node = lineage(name, self.tree, self.schema, dialect=DIALECT, scope=self.scope, copy=False)
            leaves = [leaf for leaf in node.walk() if not leaf.downstream]
        except (SqlglotError, ValueError) as exc:
            raise _Open(self._reason(exc)) from exc
        columns = {column for leaf in leaves for column in self._leaf(leaf)}
        yield from sorted(columns, key=lambda column: (self.model.inputs.index(column[0]), column[1]))

    def _leaf(self, leaf: Any) -> Iterator[tuple[str, str]]:
        if isinstance(leaf.expression, exp.Placeholder):
            raise _Open(f"the query does not say where {leaf.name.replace(chr(34), '')} comes from")
        if not isinstance(leaf.expression, exp.Table) or isinstance(leaf.expression.this, exp.Func):
            return  # a literal, VALUES, count(*), or a function that makes rows
        table = self.tables[leaf.expression.name]
        column = sqlglot.parse_one(leaf.name).name if leaf.name != "*" else "*"
        if column == "*":
            raise _Open(f"the columns of {table} are not declared, and SELECT * needs them")
        known = self.columns.get(table)
        if known is not None and column.lower() not in known:
            raise _Open(f"{table} has no column '{column}'")
        yield table, column if known is None else known[column.lower()]
