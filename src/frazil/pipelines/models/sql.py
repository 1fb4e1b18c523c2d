"""The SQL of models: parses a query of Spark SQL, and finds the tables that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import sqlglot
import sqlglot.expressions as exp
from sqlglot.errors import SqlglotError

from frazil.errors import DeclarationError
from frazil.write.contract import why_unreadable

DIALECT = "spark"
Node = Any  # a node of sqlglot's syntax tree, which is compiled in some installations and has no useful types
_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Command)
_FILES = ("avro", "binaryfile", "csv", "delta", "iceberg", "json", "orc", "parquet", "text")


@dataclass(frozen=True)
class Reference:
    """A place in a query that reads a table."""

    parts: tuple[str, ...]
    start: int  # of the name in the text
    end: int
    alias: str | None
    node: Node

    @property
    def name(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Query:
    """A parsed query and the places in it that read tables, in the order of the text."""

    sql: str
    tree: Node
    references: tuple[Reference, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables, each once."""
        return tuple(dict.fromkeys(reference.name for reference in self.references))


def parse_query(sql: str) -> Query:
    """The query in the text; raises `DeclarationError` for what is not one SELECT.

    >>> parse_query("WITH o AS (SELECT * FROM silver.orders) SELECT * FROM o JOIN `silver`.customers USING (id)").tables
    ('silver.orders', 'silver.customers')
    """
    tree = _parse(sql)
    _refuse_unsupported(tree)
    references = sorted(_references(sql, tree), key=lambda reference: reference.start)
    return Query(sql, tree, tuple(references))


def find_tables(sql: str) -> tuple[str, ...]:
    """The names of the tables that a query reads, in order of appearance: not those of CTEs, aliases and functions.

    >>> find_tables("SELECT * FROM silver.orders, range(3) WHERE id IN (SELECT id FROM bronze.good)")
    ('silver.orders', 'bronze.good')
    """
    return parse_query(sql).tables


def strip_end(sql: str) -> str:
    """The text without a semicolon and spaces at its end.

    >>> strip_end("SELECT ';' -- one; two\\n ; ")
    "SELECT ';' -- one; two"
    """
    tokens = tokens_of(sql)
    while tokens and tokens[-1].text == ";" and sql[tokens[-1].start] == ";":  # the text of a string has no quotes
        sql = sql[: tokens.pop().start]
    return sql.rstrip()


def normalise_sql(sql: str) -> str:
    """The text without comments and layout: two texts that differ in these alone give the same.

    >>> normalise_sql("-- doc: revenue\\nSELECT  a,\\n  'x  y' FROM s.t") == normalise_sql("SELECT a, 'x  y' FROM s.t;")
    True
    """
    return " ".join(sql[token.start : token.end + 1] for token in tokens_of(strip_end(sql)))


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- parsing ---------------------------------------------------------------------------------------------------------


def tokens_of(sql: str) -> list[Node]:
    return list(sqlglot.tokenize(sql, read=DIALECT))


def _parse(sql: str) -> Node:
    if reason := why_unreadable(sql):
        _refuse(f"the query is {reason}", problem="too-deep", reason=reason)
    try:
        statements = [statement for statement in sqlglot.parse(sql, read=DIALECT) if statement is not None]
    except SqlglotError as exc:
        first: dict[str, Any] = (getattr(exc, "errors", None) or [{}])[0]
        line, what = first.get("line"), first.get("description") or str(exc).splitlines()[0]
        at = f" in line {line}" if line else ""
        raise DeclarationError(
            f"the query is not Spark SQL{at}: {what}", option="sql", line=line, reason=what, problem="syntax"
        ) from exc
    except RecursionError as exc:
        raise DeclarationError("the query is nested too deeply", option="sql", problem="too-deep") from exc
    if not statements:
        _refuse("the query is empty", problem="empty", hint="SELECT ... FROM namespace.table")
    if len(statements) > 1:
        _refuse(
            f"expected one query, got {len(statements)} statements", problem="statements", hint="one model for each"
        )
    if not isinstance(statements[0], exp.Select | exp.SetOperation | exp.Subquery):
        kind = statements[0].key.upper() if not isinstance(statements[0], exp.Command) else statements[0].name.upper()
        _refuse(f"expected a query, got {kind}", problem="not-a-query", hint="SELECT ..., or WITH ... SELECT ...")
    return statements[0]


def _refuse_unsupported(tree: Node) -> None:
    """Refuses what changes data, and what hides from the parser which tables are read."""
    for node in tree.walk():
        if isinstance(node, _CHANGES):
            _refuse(f"a model only reads, but the query has {node.key.upper()}", problem="not-a-query")
        if isinstance(node, exp.Into):
            _refuse("SELECT INTO writes a table", problem="not-a-query", hint="leave INTO out")
        if isinstance(node, exp.Placeholder | exp.Parameter):
            _refuse(
                "the query has a parameter or a template, and models have neither",
                problem="parameter",
                hint="write the value; in lakehouse.py, an f-string can make the query",
            )
        if isinstance(node, exp.Select) and not node.expressions:
            _refuse("SELECT names no column", problem="syntax", hint="SELECT *, or the columns")
        if isinstance(node, exp.Anonymous) and node.name.upper() == "TABLE" and node.find(exp.Column):
            _refuse(
                "TABLE(...) as an argument names a table", problem="table-argument", hint="TABLE(SELECT * FROM ...)"
            )
        if isinstance(node, exp.Anonymous) and node.name.upper() == "IDENTIFIER":
            _refuse("IDENTIFIER(...) hides which table is read", problem="identifier", hint="write the name itself")


def _references(sql: str, tree: Node) -> Iterator[Reference]:
    for table in tree.find_all(exp.Table):
        if table.find_ancestor(exp.Hint) or isinstance(table.this, exp.Func):
            continue  # a hint names an alias; a table function makes rows of its arguments
        parts = tuple(part.name for part in table.parts)
        if len(parts) == 1 and parts[0].lower() in _visible_ctes(table):
            continue
        _check_reference(sql, table, parts)
        first, last = table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1
        yield Reference(parts, first, last, table.alias or None, table)


def _check_reference(sql: str, table: Node, parts: Sequence[str]) -> None:
    name = ".".join(parts)
    if table.args.get("version") is not None:
        _refuse(
            f"'{name}' is read AS OF a version, but the run decides which snapshot it reads",
            problem="version",
            name=name,
            hint="leave VERSION AS OF and TIMESTAMP AS OF out",
        )
    if any(sql[part.meta["start"]] in "\"'" for part in table.parts):
        _refuse(
            f"the table '{name}' is in quotes, which make a text in Spark",
            problem="quotes",
            name=name,
            hint="use backticks: `namespace`.`table`",
        )
    if table.alias and not isinstance(table.args["alias"].this, exp.Identifier):
        _refuse(f"what follows '{name}' is not an alias", problem="syntax", name=name)
    if any("." in part or not part.strip() for part in parts):
        _refuse(f"'{name}': the names of tables and namespaces have no dots", problem="name", name=name)
    if parts[0].lower() in _FILES and "/" in parts[-1]:
        _refuse(
            f"the query reads files, '{name}'",
            problem="files",
            name=name,
            hint="load them with a pipeline: sources.parquet(...)",
        )


def _visible_ctes(node: Node) -> set[str]:
    """The names that WITH clauses around a node define for it; a CTE sees those before it, and itself if RECURSIVE."""
    names: set[str] = set()
    child: Node = node
    parent: Node = node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            ctes = parent.expressions
            place = next(index for index, cte in enumerate(ctes) if cte is child)
            names |= {cte.alias.lower() for cte in ctes[: place + bool(parent.args.get("recursive"))]}
            child = parent.parent  # the query itself: its body comes after
            parent = child.parent
            continue
        if isinstance(parent, exp.Query):
            names |= {cte.alias.lower() for cte in parent.ctes}
        child, parent = parent, parent.parent
    return names


def _refuse(message: str, *, problem: str, **facts: Any) -> NoReturn:
    raise DeclarationError(message, option="sql", problem=problem, **facts)
