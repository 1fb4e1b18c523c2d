"""Refuses what SQL must not call: functions of DuckDB that read files or memory, or that run SQL hidden in a value.

DuckDB's settings close files and the network. They do not close functions that take addresses of memory
(`arrow_scan`), and those that make such addresses out of text (`json_execute_serialized_sql`). SQL may come from
anyone who can create a view, so functions that give tables are an allow list.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterator
from typing import Any

from frazil.errors import QueryError

Node = dict[str, Any]  # a piece of DuckDB's syntax tree, as JSON
ROW_FUNCTIONS = frozenset(
    ("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"),
)
# What the process is: plans with addresses of memory, and settings with paths of the machine.
CLOSED_FUNCTIONS = frozenset(("current_setting", "json_serialize_plan", "write_log"))
FILE_FUNCTION = re.compile(r"(?:read|parquet|sniff)_\w+|glob", re.ASCII)
SYSTEM_VIEW = re.compile(r"(?:duckdb|pg|pragma|sqlite)_\w+", re.ASCII | re.IGNORECASE)
SYSTEM_SCHEMAS = frozenset(("information_schema", "pg_catalog"))
WORD = re.compile(r"\w+", re.ASCII)


def check_tree(tree: Node) -> None:
    """Raises if a statement calls a function that is closed, or reads the views in which DuckDB describes itself.

    >>> check_tree({"type": "TABLE_FUNCTION", "function": {"function_name": "range"}})
    >>> check_tree({"type": "TABLE_FUNCTION", "function": {"function_name": "Arrow_Scan"}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    frazil.errors.QueryError: SQL cannot call arrow_scan here...
    """
    known = {cte["key"].lower() for node in _nodes(tree) for cte in (node.get("cte_map") or {}).get("map", ())}
    for node in _nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            _check_name(str(node["function"]["function_name"]), lambda name: name not in ROW_FUNCTIONS)
        elif node.get("class") == "FUNCTION":
            _check_name(str(node["function_name"]), CLOSED_FUNCTIONS.__contains__)
        elif node.get("type") == "BASE_TABLE" and not node["schema_name"] and node["table_name"].lower() not in known:
            _check_name(node["table_name"], SYSTEM_VIEW.fullmatch)


def check_words(sql: str, table_functions: Collection[str]) -> None:
    """As `check_tree`, for a statement that has no tree (a PIVOT that looks for its columns). It also refuses texts and
    comments that look like a call.

    >>> check_words("PIVOT searches ON query", ["query"])
    >>> check_words('PIVOT (FROM "query" (1)) ON a', ["query"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    frazil.errors.QueryError: SQL cannot call query here...
    """
    closed = set(table_functions) - ROW_FUNCTIONS | CLOSED_FUNCTIONS
    for word in WORD.finditer(sql):
        name = word[0].lower()
        _check_name(name, lambda name: SYSTEM_VIEW.fullmatch(name) or name in SYSTEM_SCHEMAS)
        if name in closed and _may_be_called(sql[word.end() :]):
            raise _refused(name)


def _may_be_called(rest: str) -> bool:
    """Whether a parenthesis follows; a comment, or a space that is not ASCII, may hide one."""
    rest = rest.lstrip(string.whitespace + '"')
    return rest.startswith(("(", "/*", "--")) or not rest[:1].isascii()


def _check_name(name: str, is_closed: Callable[[str], object]) -> None:
    if is_closed(name.lower()):
        raise _refused(name.lower())


def _refused(name: str) -> QueryError:
    if FILE_FUNCTION.fullmatch(name):
        return QueryError(
            f"a query reads the lake's tables, and no files: it calls {name}",
            hint="load the file into a table first",
            problem="file-access",
        )
    return QueryError(
        f"SQL cannot call {name} here",
        hint=f"a query reads the lake's tables; functions that give rows: {', '.join(sorted(ROW_FUNCTIONS))}",
        problem="closed-function",
    )


def _nodes(node: Any) -> Iterator[Node]:
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _nodes(child)
