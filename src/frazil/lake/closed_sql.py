"""Refuses what SQL must not call: functions of DuckDB that read files or memory, run SQL that stands in a value, or end
the process.

DuckDB's settings close files and the network. They do not close functions that take addresses of memory (`arrow_scan`),
those that make such addresses (`json_execute_serialized_sql`), and states of aggregates, which hold some. SQL may come
from anyone who can create a view, so functions that give rows are an allow list.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterator
from typing import Any

from frazil.errors import QueryError

Node = dict[str, Any]  # a piece of DuckDB's syntax tree, as JSON
ROW_FUNCTIONS = frozenset(("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"))
CLOSED_FUNCTIONS = frozenset(
    (
        *("finalize", "combine"),  # states of aggregates
        *("current_setting", "json_serialize_plan"),  # paths of the machine, addresses of memory
        *("pg_sleep", "sleep_ms", "write_log"),
        # A value that is nested deeply ends the process.
        *("json_contains", "json_deserialize_sql", "json_group_structure", "json_merge_patch", "json_serialize_sql"),
        "json_structure",
    )
)
SHAPED_BY_TEXT = frozenset(("from_json", "from_json_strict", "json_transform", "json_transform_strict"))
MOST_SHAPE = 4096  # characters of the text that gives the type; a long one may be nested deeply
CLOSED_TYPES = frozenset(("AGGREGATE_STATE", "POINTER", "VARIANT"))  # VARIANT: as functions for nested values
MOST_OFFSET = 1_000_000_000  # rows that LAG and LEAD may look away: some numbers end the process
# Of a statement without a tree, these are refused wherever they stand.
CLOSED_WORDS = frozenset(
    ("aggregate_state", "export_state", "information_schema", "lag", "lead", "pg_catalog", "variant")
)
FILE_FUNCTION = re.compile(r"(?:read|parquet|sniff)_\w+|glob", re.ASCII)
SYSTEM_VIEW = re.compile(r"(?:duckdb|pg|pragma|sqlite)_\w+", re.ASCII)
WORD = re.compile(r"\w+", re.ASCII)


def check_tree(tree: Node) -> None:
    """Raises if a statement calls a function that is closed, or reads the views in which DuckDB describes itself.

    >>> check_tree({"type": "TABLE_FUNCTION", "function": {"function_name": "range"}})
    >>> check_tree({"type": "TABLE_FUNCTION", "function": {"function_name": "Arrow_Scan"}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    frazil.errors.QueryError: SQL cannot call arrow_scan here...
    """
    for node in _nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            _check_name(node["function"]["function_name"], lambda name: name not in ROW_FUNCTIONS)
        elif node.get("class") in ("FUNCTION", "WINDOW"):
            _check_call(node)
        elif node.get("type") == "BASE_TABLE" and not node["schema_name"]:
            _check_name(node["table_name"], SYSTEM_VIEW.fullmatch)  # also where it means a CTE: that is hard to tell
        elif node.get("id") in CLOSED_TYPES and "type_info" in node:
            raise _refused(f"the type {node['id']}")


def _check_call(node: Node) -> None:
    name = str(node.get("function_name", "")).lower()
    _check_name(name, CLOSED_FUNCTIONS.__contains__)
    if node.get("export_state"):
        raise _refused("EXPORT_STATE")
    if name in SHAPED_BY_TEXT and not all(_is_short(child) for child in node["children"][1:]):
        raise _refused(f"{name} with a type that is no short text")
    offset = node.get("offset_expr")
    if offset is not None and not _is_offset(offset):
        raise _refused(f"{name} with an offset that is no small number")


def _is_short(node: Node) -> bool:
    return node.get("class") == "CONSTANT" and len(str(node["value"].get("value"))) <= MOST_SHAPE


def _is_offset(node: Node) -> bool:
    value = node["value"].get("value") if node.get("class") == "CONSTANT" else None
    return isinstance(value, int) and abs(value) <= MOST_OFFSET


def check_words(sql: str, table_functions: Collection[str]) -> None:
    """As `check_tree`, for a statement that has no tree (a PIVOT that looks for its columns). It also refuses texts and
    comments that look like a call.

    >>> check_words("PIVOT searches ON query", ["query"])
    >>> check_words('PIVOT (FROM "query" (1)) ON a', ["query"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    frazil.errors.QueryError: SQL cannot call query here...
    """
    closed = set(table_functions) - ROW_FUNCTIONS | CLOSED_FUNCTIONS | SHAPED_BY_TEXT
    for word in WORD.finditer(sql):
        name = word[0].lower()
        _check_name(name, lambda name: SYSTEM_VIEW.fullmatch(name) or name in CLOSED_WORDS)
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
        f"SQL cannot call {name} here" if name.islower() else f"SQL cannot use {name} here",
        hint=f"a query reads the lake's tables; functions that give rows: {', '.join(sorted(ROW_FUNCTIONS))}",
        problem="closed-function",
    )


def unbound_tables(tree: Node) -> Iterator[Node]:
    """The nodes of a statement that may name a table of the lake or call a function: all but names of its own CTEs."""
    yield from (node for node, bound in _scoped(tree, frozenset()) if not _is_bound(node, bound))


def _is_bound(node: Node, bound: frozenset[str]) -> bool:
    names = (node.get("catalog_name"), node.get("schema_name"))
    return node.get("type") == "BASE_TABLE" and not any(names) and node["table_name"].lower() in bound


def _scoped(node: Any, bound: frozenset[str]) -> Iterator[tuple[Node, frozenset[str]]]:
    """Every node, with the names of the CTEs that it sees. A CTE sees those before it; itself, if it is recursive."""
    if isinstance(node, dict):
        yield node, bound
        rest = dict(node)
        for cte in (rest.pop("cte_map", None) or {}).get("map", ()):
            name = frozenset((cte["key"].lower(),))
            is_recursive = cte["value"]["query"]["node"].get("type") == "RECURSIVE_CTE_NODE"
            yield from _scoped(cte["value"], bound | name if is_recursive else bound)
            bound |= name
        node = list(rest.values())
    if isinstance(node, list):
        for child in node:
            yield from _scoped(child, bound)


def _nodes(node: Any) -> Iterator[Node]:
    return (each for each, _ in _scoped(node, frozenset()))
