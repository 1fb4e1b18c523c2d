"""SQL over the lake on DuckDB, read-only, at any point of the past.

DuckDB parses the query; the tables in it are looked up in our catalog, and each gets the snapshot that is meant: by `AT (...)` in the query
itself, or by the point that was given for all. DuckDB's own `AT` knows ids and times; branches and tags are turned into ids here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from frazil.errors import QueryError
from frazil.scan.duck import ATTACHED, first_line, import_duckdb, open_duckdb
from frazil.scan.points import MAIN, Named, Point, find_point, find_ref, find_time

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from frazil.lake import Lake

Node = dict[str, Any]  # a piece of DuckDB's syntax tree, as JSON
BATCH_ROWS = 65_536


def run_query(lake: Lake, sql: str, *, at: Named | None = None) -> pa.RecordBatchReader:
    """The result of a SELECT as an Arrow stream."""
    duckdb = import_duckdb()
    resolved = resolve_tables(lake, sql, at=at)
    con = open_duckdb(lake.settings, lake.catalog)
    try:
        return _closing(con.execute(resolved).to_arrow_reader(BATCH_ROWS), con)
    except duckdb.Error as exc:
        con.close()
        raise _translate(exc, lake) from exc


def resolve_tables(lake: Lake, sql: str, *, at: Named | None = None) -> str:
    """The query with every table in full and at the snapshot that is meant."""
    # A bare DuckDB parses and prints; the one with extensions takes a second to open, and most mistakes are found before it.
    with import_duckdb().connect() as parser:
        tree = _parse(parser, sql)
        for node in _tables(tree):
            database = "" if node["catalog_name"] == ATTACHED else node["catalog_name"]  # else the first level of a namespace
            name = ".".join(filter(None, (database, node["schema_name"], node["table_name"])))
            if "." not in name:
                continue  # a CTE or a function's result; if it is meant as a table, DuckDB says that there is none
            point = _point_of(lake, name, node.get("at_clause"), at)
            node["catalog_name"], (node["schema_name"], _, node["table_name"]) = ATTACHED, name.rpartition(".")
            node["at_clause"] = _at_version(point.snapshot.snapshot_id) if point else None
        (row,) = parser.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
        return str(row[0])


def _parse(con: duckdb.DuckDBPyConnection, sql: str) -> Node:
    (row,) = con.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree: Node = json.loads(row[0])
    if tree.get("error"):
        if tree.get("error_type") == "not implemented":
            hint = "change tables with Spark, Trino or a sink"
            raise QueryError("only SELECT can be run here: a query reads and changes nothing", hint=hint)
        raise QueryError(f"the query cannot be understood: {tree.get('error_message')}{_place(sql, tree.get('position'))}")
    if len(tree["statements"]) != 1:
        raise QueryError(f"one query at a time, not {len(tree['statements'])}", hint="WITH ... AS joins several into one")
    return tree


def _tables(node: Any) -> Iterator[Node]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _tables(child)


def _point_of(lake: Lake, name: str, clause: Node | None, at: Named | None) -> Point | None:
    """The point that a table is read at; None for the current state."""
    metadata = lake.load(name).metadata
    if clause is not None:
        named = _constant(clause, name)
        find = find_time if clause["unit"].upper() == "TIMESTAMP" else find_point
        return find(metadata, named, table=name)
    if at is None or (at == MAIN and not metadata.refs):
        return None
    point = find_ref(metadata, MAIN, table=name) if at == MAIN else find_point(metadata, at, table=name)
    return None if point.kind == "branch" and point.name == MAIN else point


def _constant(clause: Node, table: str) -> str:
    """The value in `AT (VERSION => 'tag')`; DuckDB has put casts such as TIMESTAMP '...' around it."""
    node = clause["expr"]
    while node.get("class") == "CAST":
        node = node["child"]
    if node.get("class") != "CONSTANT":
        hint = "AT (VERSION => 123), AT (VERSION => 'tag'), AT (TIMESTAMP => '2024-01-18')"
        raise QueryError(f"AT of {table} must be a plain value", hint=hint)
    return str(node["value"]["value"])


def _at_version(snapshot_id: int) -> Node:
    value = {"type": {"id": "BIGINT", "type_info": None}, "is_null": False, "value": snapshot_id}
    return {"unit": "VERSION", "expr": {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": 0, "value": value}}


def _closing(result: pa.RecordBatchReader, con: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
    """The stream, which closes its DuckDB when it ends; errors on the way are ours."""
    import duckdb
    import pyarrow as pa

    schema = pa.schema([field.with_name(name) for field, name in zip(result.schema, distinct(result.schema.names), strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for batch in result:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except (duckdb.Error, OSError) as exc:
            raise QueryError(f"the query stopped: {first_line(exc)}") from exc
        finally:
            con.close()

    return pa.RecordBatchReader.from_batches(schema, batches())


def distinct(names: Sequence[str]) -> list[str]:
    """
    >>> distinct(["id", "name", "id", "id"])
    ['id', 'name', 'id_1', 'id_2']
    """
    found: list[str] = []
    for name in names:
        tries = (name if number == 0 else f"{name}_{number}" for number in count())
        found.append(next(one for one in tries if one not in found))
    return found


def _translate(exc: duckdb.Error, lake: Lake) -> QueryError:
    import duckdb

    said = first_line(exc)
    if isinstance(exc, duckdb.CatalogException) and "Table with name" in said:
        known = lake.table_names()
        hint = f"tables are named with their namespace: {', '.join(known[:10])}" if known else "the catalog has no tables yet"
        return QueryError(said.partition(" Did you mean")[0], hint=hint)  # DuckDB would name tables of its own
    return QueryError(said)


def _place(sql: str, position: str | None) -> str:
    """
    >>> _place("SELECT 1 FORM t", "9")
    ', at: FORM t'
    """
    return f", at: {sql[int(position) : int(position) + 30].strip()}" if position and position.isdigit() else ""
