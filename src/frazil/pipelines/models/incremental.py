"""Whether a query over new rows of one table gives the new rows of its result, and with which caveats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot.expressions as exp

from frazil.pipelines.models.sql import Node, Query, words

# Functions of Spark whose results differ between two runs over the same rows.
_CHANGING = words(
    "curdate current_database current_date current_time current_timestamp input_file_name localtimestamp "
    "monotonically_increasing_id now rand randn random randstr shuffle spark_partition_id uuid"
)
# Aggregates of Spark that sqlglot does not know as such.
_AGGREGATES = words(
    "any bitmap_and_agg count_min_sketch every histogram_numeric hll_sketch_agg hll_union_agg kll_sketch_agg_bigint "
    "kll_sketch_agg_double kll_sketch_agg_float mean schema_of_json_agg schema_of_variant_agg some std "
    "theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum"
)


@dataclass(frozen=True)
class Obstacle:
    """What makes the result over new rows alone wrong."""

    kind: str  # "aggregate", "distinct", "window", "limit", "join", "twice", "subquery", "union", "set", "unread"
    reason: str


def find_obstacles(query: Query, driving: str) -> tuple[Obstacle, ...]:
    """Why new rows of `driving` alone do not give the new rows of the result; nothing if they do.

    >>> from frazil.pipelines.models.sql import parse_query
    >>> find_obstacles(parse_query("SELECT o.id FROM s.orders o LEFT JOIN s.customers c USING (id)"), "s.orders")
    ()
    >>> query = parse_query("SELECT day, sum(x) AS x FROM s.orders GROUP BY day LIMIT 3")
    >>> [obstacle.kind for obstacle in find_obstacles(query, "s.orders")]
    ['limit', 'aggregate', 'aggregate']
    """
    return tuple(_Reader(driving).obstacles(query.tree))


def find_partition_obstacles(query: Query, columns: Sequence[str]) -> Iterator[Obstacle]:
    """Why the partitions of a result, by some of its columns, cannot be found from the rows that changed.

    The query over the changed rows gives these partitions if a row's partition does not depend on other rows: then an
    aggregate must be the last step, grouped by the columns, and no condition on it may leave a partition out.

    >>> from frazil.pipelines.models.sql import parse_query
    >>> list(find_partition_obstacles(parse_query("SELECT day, sum(x) AS x FROM s.orders GROUP BY day"), ["day"]))
    []
    >>> [each.kind for each in find_partition_obstacles(parse_query("SELECT max(day) AS day FROM s.x"), ["day"])]
    ['partition']
    """
    if any(query.tree.find_all(exp.Having, exp.Qualify)):
        yield Obstacle("having", "HAVING and QUALIFY can hide a partition whose rows changed")
    selects = [select for select in query.tree.find_all(exp.Select) if _is_summary(select)]
    if any(select is not query.tree for select in selects):
        yield Obstacle("nested", "the partition of a row may depend on other rows: an aggregate is not the last step")
    elif selects:
        for name in columns:
            if not _is_grouped(query.tree, name.lower()):
                reason = f"'{name}' is not in GROUP BY: the partition of a row depends on other rows"
                yield Obstacle("partition", reason)


def _is_summary(select: Node) -> bool:
    return any(obstacle.kind == "aggregate" for obstacle in _summaries(select))


def _is_grouped(select: Node, name: str) -> bool:
    """Whether an output column is one of what a SELECT groups by: by its expression, its name or its number."""
    group = select.args.get("group") or exp.Group()
    grouped = [node.sql().lower() for node in group.expressions]
    for number, projection in enumerate(select.expressions, start=1):
        value = projection.unalias()
        if projection.alias_or_name.lower() == name:
            if any(_is_aggregate(node) for node in value.walk()):  # a grouped column of that name is another one
                return False
            if group.args.get("all"):
                return True
            is_column = isinstance(value, exp.Column) and value.name.lower() in [
                text.rpartition(".")[2] for text in grouped
            ]
            return is_column or any(text in grouped for text in (value.sql().lower(), name, str(number)))
    return False


def plain_columns(query: Query, driving: str) -> dict[str, str]:
    """The columns of the result that are columns of `driving` as they are, with the names that they have there, all in
    lower case; none where more than one SELECT is in between.

    >>> from frazil.pipelines.models.sql import parse_query
    >>> sql = "SELECT o.day AS d, upper(o.name) AS name, c.city FROM s.orders o JOIN s.customers c USING (id)"
    >>> plain_columns(parse_query(sql), "s.orders")
    {'d': 'day'}
    """
    select = query.tree
    source = _from(select) if isinstance(select, exp.Select) else None
    if not isinstance(source, exp.Table) or ".".join(part.name for part in source.parts) != driving:
        return {}
    if any(select.find_all(exp.Rollup, exp.Cube, exp.GroupingSets, exp.Pivot)):  # NULL stands for all values there
        return {}
    is_alone = not (select.args.get("joins") or select.args.get("laterals") or source.args.get("joins"))
    owners = {source.alias_or_name.lower(), *([""] if is_alone else [])}
    return {
        projection.alias_or_name.lower(): value.name.lower()
        for projection in select.expressions
        if isinstance(value := projection.unalias(), exp.Column)
        and not value.is_star
        and len(value.parts) <= 2
        and value.table.lower() in owners
    }


def first_in_from(query: Query) -> str | None:
    """The table that the first FROM reads, through subqueries and CTEs.

    >>> from frazil.pipelines.models.sql import parse_query
    >>> first_in_from(parse_query("WITH a AS (SELECT * FROM s.x), b AS (SELECT * FROM s.y) SELECT * FROM b JOIN a"))
    's.y'
    """
    node: Node | None = query.tree
    while node is not None:
        if isinstance(node, exp.Select):
            node = _from(node)
        elif isinstance(node, exp.Table):
            cte = _cte_of(node)
            if cte is None:
                return None if isinstance(node.this, exp.Func) else ".".join(part.name for part in node.parts)
            node = cte.this if node.find_ancestor(exp.CTE) is not cte else None
        else:
            node = node.this if isinstance(node, exp.Subquery | exp.SetOperation) else None
    return None


def changing_functions(query: Query) -> tuple[str, ...]:
    """The functions whose results differ from run to run, as the text has them.

    >>> from frazil.pipelines.models.sql import parse_query
    >>> changing_functions(parse_query("SELECT NOW() AS t, rand(3) AS r, uuid() AS u FROM a.b TABLESAMPLE (5 ROWS)"))
    ('now', 'rand', 'uuid', 'tablesample')
    """
    nodes = query.tree.find_all(exp.Func, exp.TableSample, exp.Column, bfs=False)
    names = [_function(node) for node in nodes]
    return tuple(dict.fromkeys(name for name in names if name))


def _function(node: Node) -> str | None:
    if isinstance(node, exp.TableSample):
        return None if node.args.get("seed") else "tablesample"
    if isinstance(node, exp.Column):  # sqlglot takes the one that may stand without parentheses for a column
        return "localtimestamp" if node.name.lower() == "localtimestamp" and not node.table else None
    return next((name for name in _names(node) if name in _CHANGING), None)


def _names(function: Node) -> list[str]:
    """What a function is called, in lower case."""
    return [function.name.lower()] if isinstance(function, exp.Anonymous) else [n.lower() for n in function.sql_names()]


@dataclass(frozen=True)
class _Reader:
    """Follows the rows of one table from where they are read to the result."""

    driving: str

    def obstacles(self, query: Node) -> Iterator[Obstacle]:
        if not self._reads(query):
            yield Obstacle("unread", f"a part of the query does not read {self.driving}: each run would add it again")
        yield from self._own_clauses(query)
        if isinstance(query, exp.SetOperation):
            yield from self._set_operation(query)
        elif isinstance(query, exp.Subquery):
            yield from self.obstacles(query.this)
        else:
            yield from self._select(query)

    def _own_clauses(self, query: Node) -> Iterator[Obstacle]:
        if query.args.get("limit") or query.args.get("offset"):
            yield Obstacle("limit", "LIMIT and OFFSET count the new rows alone")
        if query.args.get("distinct") and not isinstance(query, exp.SetOperation):
            yield Obstacle("distinct", "DISTINCT compares the new rows alone, not with the rows that are in the table")

    def _set_operation(self, query: Node) -> Iterator[Obstacle]:
        if not isinstance(query, exp.Union) or query.args.get("distinct"):
            name = "UNION" if isinstance(query, exp.Union) else query.key.upper()
            yield Obstacle("set", f"{name} compares the new rows alone; UNION ALL compares none")
        yield from self.obstacles(query.this)
        yield from self.obstacles(query.expression)

    def _select(self, select: Node) -> Iterator[Obstacle]:
        yield from _summaries(select)
        yield from self._predicates(select)
        sources = list(_sources(select))
        driving = [index for index, (source, _) in enumerate(sources) if self._reads(source)]
        if len(driving) > 1:
            yield Obstacle("twice", f"{self.driving} is joined with itself, and new rows would only meet new rows")
        for index in driving:
            yield from self._join_sides([side for _, side in sources], index)
            yield from self._through(sources[index][0])

    def _join_sides(self, sides: list[str], index: int) -> Iterator[Obstacle]:
        """An outer join makes rows of what does not match; rows that come later may match."""
        outer = [side for side in sides[index + 1 :] if side in ("RIGHT", "FULL")]
        if sides[index] in ("LEFT", "FULL", "SEMI", "ANTI"):
            outer.append(sides[index])
        if outer:
            yield Obstacle(
                "join", f"a {outer[0]} join with the new rows of {self.driving} alone misses the earlier ones"
            )

    def _predicates(self, select: Node) -> Iterator[Obstacle]:
        """Subqueries outside FROM: rows that are new in them can let old rows into the result."""
        read = [_from(select), *(join.this for join in select.args.get("joins") or ())]
        for query in select.find_all(exp.Query):
            owner = query.find_ancestor(exp.Select, exp.With)
            inside = any(node is source for node in (query, *_parents(query)) for source in read)
            if query is not select and owner is select and not inside and self._reads(query):
                yield Obstacle("subquery", f"a subquery outside FROM sees the new rows of {self.driving} alone")

    def _through(self, source: Node) -> Iterator[Obstacle]:
        if source.args.get("pivots"):
            yield Obstacle("aggregate", "PIVOT aggregates the new rows alone")
        if isinstance(source, exp.Table):
            cte = _cte_of(source)
            if cte is not None:
                yield from self.obstacles(cte.this)
        elif isinstance(source, exp.Query):
            yield from self.obstacles(source)
        elif isinstance(source, exp.Lateral) and isinstance(source.this, exp.Query):
            yield from self.obstacles(source.this)

    def _reads(self, node: Node) -> bool:
        """Whether the rows of a part of the query depend on the driving table, also through CTEs."""
        if isinstance(node, exp.Table):  # without what is joined to it in parentheses
            return self._is_driving(node, frozenset())
        tables = (table for table in node.find_all(exp.Table) if not _is_cte_of(table, node))
        return any(self._is_driving(table, frozenset()) for table in tables)

    def _is_driving(self, table: Node, passed: frozenset[int]) -> bool:
        cte = _cte_of(table)
        if cte is None:
            return ".".join(part.name for part in table.parts) == self.driving
        if id(cte) in passed:
            return False  # recursive
        return any(self._is_driving(inner, passed | {id(cte)}) for inner in cte.this.find_all(exp.Table))


def _is_cte_of(table: Node, query: Node) -> bool:
    """Whether a table stands in a WITH clause inside this part: it counts where the CTE is used."""
    cte = table.find_ancestor(exp.With)
    while cte is not None:
        if cte is query or any(parent is query for parent in _parents(cte)):
            return True
        cte = cte.find_ancestor(exp.With)
    return False


def _parents(node: Node) -> Iterator[Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def _summaries(select: Node) -> Iterator[Obstacle]:
    if select.args.get("group") or select.args.get("having"):
        yield Obstacle("aggregate", "GROUP BY aggregates the new rows alone")
    for node in _own_nodes(select):
        if isinstance(node, exp.Window):
            yield Obstacle("window", "a window function sees the new rows alone")
        if _is_aggregate(node) and not isinstance(node.parent, exp.Window):
            yield Obstacle("aggregate", f"{_called(node)} aggregates the new rows alone")


def _called(node: Node) -> str:
    return _names(node)[0] if isinstance(node, exp.Func) else str(node.key)


def _is_aggregate(node: Node) -> bool:
    if isinstance(node, exp.AggFunc):
        return True
    if isinstance(node, exp.Any):  # `x = ANY (...)` compares, `any(x)` aggregates
        return not isinstance(node.parent, exp.Binary)
    return isinstance(node, exp.Anonymous) and node.name.lower() in _AGGREGATES


def _own_nodes(select: Node) -> Iterator[Node]:
    """The nodes of a SELECT's own clauses, without those of queries inside it."""
    for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query | exp.With)):
        if not isinstance(node, exp.Query | exp.With):
            yield node


def _from(select: Node) -> Node | None:
    clause = select.args.get("from_") or select.args.get("from")
    return clause.this if clause is not None else None


def _sources(select: Node) -> Iterator[tuple[Node, str]]:
    """What a SELECT reads, each with the side of its join: "" for the first and for inner joins."""
    first = _from(select)
    if first is None:
        return
    yield from _flat(first, "")
    for join in select.args.get("joins") or ():
        yield from _flat(join.this, _side(join))


def _flat(source: Node, side: str) -> Iterator[tuple[Node, str]]:
    """A source with those that are joined to it in parentheses."""
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Table):
        yield from _flat(source.this, side)
    else:
        yield source, side
    for join in source.args.get("joins") or ():
        yield from _flat(join.this, _side(join) or side)


def _side(join: Node) -> str:
    kind, side = str(join.kind).upper(), str(join.side).upper()
    return kind if kind in ("SEMI", "ANTI") else side


def _cte_of(table: Node) -> Node | None:
    """The CTE that a name means, if it means one."""
    if len(table.parts) != 1 or isinstance(table.this, exp.Func):
        return None
    name, child, parent = table.name.lower(), table, table.parent
    while parent is not None:
        ctes = list(parent.ctes) if isinstance(parent, exp.Query) else []
        if isinstance(parent, exp.With):
            place = next(index for index, cte in enumerate(parent.expressions) if cte is child)
            ctes = parent.expressions[: place + bool(parent.args.get("recursive"))]
        match = next((cte for cte in reversed(ctes) if cte.alias.lower() == name), None)
        if match is not None:
            return match
        if isinstance(parent, exp.With):
            parent = parent.parent
        child, parent = parent, parent.parent
    return None
