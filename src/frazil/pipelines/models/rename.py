"""Other names for the tables of a query, by their positions in the text: all else stays as the user wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot.expressions as exp

from frazil.errors import ArgumentError
from frazil.pipelines.models.sql import Node, Query, Reference, parse_query, tokens_of, words

Edit = tuple[int, int, str]  # start, end, new text
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Words that Spark takes for a part of the next join where they follow a table.
_NO_ALIAS = words("anti cross except full inner intersect join lateral left minus natural on right semi union using")


def rename_tables(sql: str, names: Mapping[str, str]) -> str:
    """The text with other names for tables; columns that are qualified with a table's name still find it.

    A table without an alias gets its last name as one.

    >>> rename_tables("SELECT silver.orders.id, amount FROM silver.orders -- all", {"silver.orders": "v1"})
    'SELECT orders.id, amount FROM v1 AS orders -- all'
    >>> rename_tables("SELECT o.id FROM silver.orders o WHERE id IN (SELECT id FROM b.ids)", {"silver.orders": "v1"})
    'SELECT o.id FROM v1 o WHERE id IN (SELECT id FROM b.ids)'

    Where columns tell tables with the same last name apart, the aliases do so, too:

    >>> rename_tables("SELECT a.t.x, b.t.y FROM a.t JOIN b.t ON a.t.x = b.t.x", {"a.t": "v1", "b.t": "v2"})
    'SELECT a_t.x, b_t.y FROM v1 AS a_t JOIN v2 AS b_t ON a_t.x = b_t.x'
    """
    query = parse_query(sql)
    _refuse_taken(query, names)
    renamed = [reference for reference in query.references if reference.name in names]
    bare = [reference for reference in renamed if reference.alias is None]
    columns = list(_qualified_columns(query, bare))
    aliases = {id(reference.node): _alias(query, reference, columns) for reference in bare}
    edits: list[Edit] = []
    for reference in renamed:
        edits += _rename(sql, reference, names[reference.name], aliases.get(id(reference.node)))
    edits += [column.edit(aliases[id(column.reference.node)]) for column in columns]
    edits += _short_columns(query, [(reference, aliases[id(reference.node)]) for reference in bare])
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def quote_word(word: str) -> str:
    """A name as it stands in Spark SQL: in backticks where it is not a plain word.

    >>> quote_word("orders"), quote_word("my orders"), quote_word("left"), quote_word("a`b")
    ('orders', '`my orders`', '`left`', '`a``b`')
    """
    if _PLAIN.fullmatch(word) and word.lower() not in _NO_ALIAS:
        return word
    return "`" + word.replace("`", "``") + "`"


@dataclass(frozen=True)
class QualifiedColumn:
    """A column that is qualified with the whole name of a table."""

    node: Node
    reference: Reference
    qualifier: Sequence[Node]

    def edit(self, alias: str) -> Edit:
        return self.qualifier[0].meta["start"], self.qualifier[-1].meta["end"] + 1, alias


def _rename(sql: str, reference: Reference, name: str, alias: str | None) -> Iterator[Edit]:
    yield reference.start, reference.end, ".".join(quote_word(part) for part in name.split("."))
    if alias is not None:
        end = _end_of_sample(sql, reference)
        yield end, end, f" AS {alias}"


def _refuse_taken(query: Query, names: Mapping[str, str]) -> None:
    """A new name that a CTE has would read the CTE."""
    taken = {cte.alias.lower() for cte in query.tree.find_all(exp.CTE)}
    if clash := sorted(name for name in names.values() if name.lower() in taken):
        raise ArgumentError("names", clash[0], expected="a name that no WITH clause of the query defines")


def _end_of_sample(sql: str, reference: Reference) -> int:
    """Where an alias can stand: after the name, or after `TABLESAMPLE (...) REPEATABLE (...)`."""
    end = reference.end
    if reference.node.args.get("sample") is None:
        return end
    depth = 0
    for token in (token for token in tokens_of(sql) if token.start >= reference.end):
        if depth == 0 and token.text.upper() not in ("TABLESAMPLE", "REPEATABLE", "("):
            break
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        end = token.end + 1
    return end


def _alias(query: Query, reference: Reference, columns: Sequence[QualifiedColumn]) -> str:
    """The table's last name; its whole name where a column needs that to find the table."""
    last = reference.parts[-1]
    own = [column for column in columns if column.reference is reference]
    if not any(_is_hidden(column.node, reference) for column in own):
        return quote_word(last)
    taken = {name for select in query.tree.find_all(exp.Select) for name, _ in _relations(select)}
    alias = "_".join(reference.parts)
    while alias.lower() in taken:
        alias += "_"
    return quote_word(alias)


def _is_hidden(column: Node, reference: Reference) -> bool:
    """Whether the last name alone could mean another relation, where the column stands."""
    last = reference.parts[-1].lower()
    for select in _scopes(column):
        if any(name == last and node is not reference.node for name, node in _relations(select)):
            return True
        if select is _select_of(reference.node):
            return False
    return False


def _qualified_columns(query: Query, references: Sequence[Reference]) -> Iterator[QualifiedColumn]:
    for column in query.tree.find_all(exp.Column):
        path = _path(column)
        for reference in _in_scope(column, references):
            size = len(reference.parts)
            if len(path) > size and _same(path[:size], reference.parts):
                yield QualifiedColumn(column, reference, path[:size])
                break


def _short_columns(query: Query, aliased: Sequence[tuple[Reference, str]]) -> Iterator[Edit]:
    """Columns that are qualified with the last name of a table whose alias is another one."""
    others = {id(reference.node): alias for reference, alias in aliased if alias != quote_word(reference.parts[-1])}
    for column in query.tree.find_all(exp.Column) if others else ():
        path = _path(column)
        node = _only_relation(column, path[0].name.lower()) if len(path) > 1 else None
        if node is not None and id(node) in others:
            yield path[0].meta["start"], path[0].meta["end"] + 1, others[id(node)]


def _only_relation(column: Node, name: str) -> Node | None:
    """The relation that a qualifier means, if the innermost query that knows the name has one of it."""
    for select in _scopes(column):
        matches = [node for known, node in _relations(select) if known == name]
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None


def _path(column: Node) -> list[Node]:
    """The parts of a column's name, with the fields that follow it: sqlglot takes the first four for the column."""
    parts = list(column.parts)
    node = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node:
        node = node.parent
        parts.append(node.expression)
    return parts


def _same(path: Sequence[Node], parts: Sequence[str]) -> bool:
    return [node.name.lower() for node in path] == [part.lower() for part in parts]


def _in_scope(column: Node, references: Sequence[Reference]) -> Iterator[Reference]:
    """The tables that a column can name: those of its own SELECT first, then those around it."""
    for select in _scopes(column):
        yield from (reference for reference in references if _select_of(reference.node) is select)


def _scopes(node: Node) -> Iterator[Node]:
    """The SELECTs around a node, from the inside out."""
    while (node := _select_of(node)) is not None:
        yield node


def _select_of(node: Node) -> Node | None:
    """The SELECT in whose clauses a node stands."""
    return node.find_ancestor(exp.Select)


def _relations(select: Node) -> Iterator[tuple[str, Node]]:
    """What a SELECT reads, by the names that its columns may have before them."""
    clause = select.args.get("from_") or select.args.get("from")
    tops = [clause, *(select.args.get("joins") or ()), *(select.args.get("laterals") or ())]
    for top in tops:
        for node in top.find_all(exp.Table, exp.Subquery, exp.Lateral, exp.Values) if top is not None else ():
            if _select_of(node) is select and node.alias_or_name:
                yield node.alias_or_name.lower(), node
