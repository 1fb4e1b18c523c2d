"""SQL over the lake on DuckDB, read-only, at any point of the past.

DuckDB parses, plans and computes; the rows come from our own scan, which is asked for the columns and filters that
DuckDB needs (pushdown.py). So a query sees what a scan sees, whatever deletes a table has, and DuckDB needs no
extension and no keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from frazil.client import READS
from frazil.errors import FrazilError, NoSuchTable, QueryError
from frazil.history import ref_in
from frazil.lake.access import LakeMoment
from frazil.lake.closed_sql import Node, check_tree, check_words, unbound_tables
from frazil.lake.nearest_sql import NearestCall, is_nearest
from frazil.scan.engines import connect_closed, first_line, import_duckdb, quoted
from frazil.scan.planning import MAIN, Named, Point, find_point, find_ref, find_time

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata

    from frazil.lake.access import LakeAccess
    from frazil.scan import Scan
    from frazil.scan.engines import NearestDataset, ScanDataset
    from frazil.scan.reading import RowScan

BATCH_ROWS = 65_536
MOST_VIEWS = 64  # that select from each other
EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\s+", re.IGNORECASE)
PIVOT = re.compile(r"\s*(PIVOT|PIVOT_WIDER)\b", re.IGNORECASE)
DOTTED = re.compile(r'(?:"[^"]+"|\w+)(?:\.(?:"[^"]+"|\w+))+')
ATTACHED = "lake"  # how a table's name may begin, as in DuckDB with its own extension


class Readable(Protocol):
    """A table of the lake, as a query reads it: `LakeTable`."""

    def scan(self, filter: str | None = None, *, at: Named | None = None) -> Scan:
        """Its rows."""


OpenTable = Callable[["LakeAccess", str], Readable]


def run_query(
    lake: LakeAccess,
    sql: str,
    open_table: OpenTable,
    *,
    at: Named | None = None,
    env: str | None = None,
    scans: Mapping[str, RowScan] | None = None,
) -> pa.RecordBatchReader:
    """The result of a SELECT as an Arrow stream; EXPLAIN, DESCRIBE, SUMMARIZE and PIVOT are such, too.

    `scans` are rows that the query names without a namespace. All tables are read as they were at one moment; in an
    environment, on its branch where there is one.
    """
    return open_query(lake, sql, open_table, at=at, env=env, scans=scans).rows


@dataclass(frozen=True)
class OpenQuery:
    """A query that runs: its rows, and what it reads for them."""

    rows: pa.RecordBatchReader
    tables: QueryTables

    @property
    def scans(self) -> list[RowScan]:
        """The scans that DuckDB has asked tables for so far, with the columns and filters that it needs."""
        return [scan for dataset in self.tables.datasets for scan in getattr(dataset, "asked", ())]


def open_query(
    lake: LakeAccess,
    sql: str,
    open_table: OpenTable,
    *,
    at: Named | None = None,
    env: str | None = None,
    scans: Mapping[str, RowScan] | None = None,
    settings: Mapping[str, str | int | bool] | None = None,
) -> OpenQuery:
    """As `run_query`, for callers that also ask what was read. `settings` are DuckDB's: memory, threads."""
    tables, resolved = _resolve_at_once(
        LakeMoment(lake), sql, open_table, at=at, env=env, scans=scans or {}, settings=settings or {}
    )
    with _closed_on_error(tables):
        return OpenQuery(_closing(tables.con.execute(resolved).to_arrow_reader(BATCH_ROWS), tables), tables)


def _resolve_at_once(
    moment: LakeMoment,
    sql: str,
    open_table: OpenTable,
    *,
    at: Named | None,
    env: str | None,
    scans: Mapping[str, RowScan],
    settings: Mapping[str, str | int | bool],
) -> tuple[QueryTables, str]:
    """The tables of a query and its text for DuckDB; if a table changes meanwhile, all of it is resolved once more.
    Tables that change each time are refused.
    """
    for number in count(1):
        tables = QueryTables(moment, connect_closed(**settings), at, open_table, env)
        for name, scan in scans.items():
            tables.register(name, scan)
        with _closed_on_error(tables):
            resolved = tables.resolve(sql)
            if moment.settle(tables.moving):
                break
            if number == READS:
                raise _never_still(tables.moving)
        tables.con.close()
    return tables, resolved


def _never_still(names: Collection[str]) -> QueryError:
    return QueryError(
        f"{', '.join(sorted(names))}: each of {READS} readings found a change, so that they are not known as they were "
        "at one moment",
        hint="run again when fewer others commit to them, or read a time that has passed: at= of lake.sql, --at, or "
        "AT (TIMESTAMP => '2024-01-18 09:30:00') after each table",
        problem="contended",
    )


@contextmanager
def _closed_on_error(tables: QueryTables) -> Iterator[None]:
    """Closes the DuckDB of a query that fails; the error is ours."""
    duckdb = import_duckdb()
    try:
        yield
    except duckdb.Error as exc:
        tables.con.close()
        raise tables.translate(exc) from exc
    except RecursionError as exc:
        tables.con.close()
        raise QueryError("the query is nested too deeply", problem="nested") from exc
    except UnicodeDecodeError as exc:  # DuckDB's message repeats bytes that are no text
        tables.con.close()
        raise QueryError("the query failed on bytes that are no text", problem="bytes") from exc
    except FrazilError:
        tables.con.close()
        raise


class QueryTables:
    """The tables of a query as views of a DuckDB: each reads from a scan at the point that is meant."""

    def __init__(
        self,
        lake: LakeAccess,
        con: duckdb.DuckDBPyConnection,
        at: Named | None,
        open_table: OpenTable,
        env: str | None = None,
    ) -> None:
        self._lake, self._at, self.con, self._open_table, self._env = lake, at, con, open_table, env
        self._made: dict[tuple[str, int | None], tuple[str, str]] = {}
        self.datasets: list[ScanDataset | NearestDataset] = []
        self.moving: set[str] = set()  # tables of which the next commit may change what is read
        self._pending: list[str] = []  # views that are being opened

    def resolve(self, sql: str, namespace: str = "") -> str:
        """The query with its tables in place; names without one are looked up in the namespace, if there is any."""
        if match := EXPLAIN.match(sql):
            if EXPLAIN.match(sql, match.end()):
                raise QueryError("EXPLAIN stands once, before a query", problem="several-statements")
            return match[0] + self.resolve(sql[match.end() :], namespace)
        if PIVOT.match(sql):
            self._check_pivot(sql)
            check_words(sql, self._table_functions())
            self._open_named(sql)
            return sql
        return self._resolve(self._parse(sql), namespace)

    def _resolve(self, tree: Node, namespace: str) -> str:
        for node in unbound_tables(tree):
            if is_nearest(node):
                self._search(node, namespace)
            elif node.get("type") == "BASE_TABLE":
                self._place(node, namespace)
        (row,) = self.con.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchall()
        sql = str(row[0])
        check_tree(self._parse(sql))  # of the text that runs: DuckDB may write another one than it has read
        return sql

    def _parse(self, sql: str) -> Node:
        (row,) = self.con.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        tree: Node = json.loads(row[0])
        if tree.get("error"):
            if tree.get("error_type") == "not implemented":
                hint = "change tables with Spark, Trino (--engine trino --write) or a sink"
                raise QueryError(
                    "only SELECT can be run here: a query reads and changes nothing", hint=hint, problem="not-a-select"
                )
            position = tree.get("position")
            raise QueryError(
                f"the query cannot be understood: {tree.get('error_message')}{_place(sql, position)}",
                offset=int(position) if position and position.isdigit() else None,
            )
        if not tree["statements"]:
            raise QueryError("the query is empty", problem="empty")
        if len(tree["statements"]) != 1:
            raise QueryError(
                f"one query at a time, not {len(tree['statements'])}",
                hint="WITH ... AS joins several into one",
                problem="several-statements",
            )
        return tree

    def _place(self, node: Node, namespace: str) -> None:
        database = "" if node["catalog_name"] == ATTACHED and node["schema_name"] else node["catalog_name"]
        name = ".".join(filter(None, (database, node["schema_name"], node["table_name"])))
        if "." not in name:
            if not namespace or not self._has(f"{namespace}.{name}"):
                return  # a CTE or a function's result; if it is meant as a table, DuckDB says that there is none
            name = f"{namespace}.{name}"
        schema, table = self._open(name, node.get("at_clause"))
        node["alias"] = node["alias"] or ("" if table == node["table_name"] else node["table_name"])
        node["catalog_name"], node["schema_name"], node["table_name"], node["at_clause"] = "", schema, table, None

    # --- vector searches ---------------------------------------------------------------------------------------------

    def _search(self, node: Node, namespace: str) -> None:
        """Puts the rows of a vector search in the place of a call of `nearest`."""
        from frazil.scan.engines import NearestDataset

        call = NearestCall.of(node, lambda expression, name: self._compute(expression, name, namespace))
        name = call.table if "." in call.table or not namespace else f"{namespace}.{call.table}"
        at = call.options.get("at")
        point = self._point_of(name, None, self._at if at is None else at)
        scan = self._open_table(self._lake, name).scan(
            call.options.get("filter"), at=None if point is None else _named(point)
        )
        table = self._add(NearestDataset.of(call.run(scan)), "frazil_nearest")
        place = {"schema_name": "", "table_name": table, "catalog_name": "", "at_clause": None}
        kept = {key: node[key] for key in ("sample", "query_location", "column_name_alias")}
        alias = node["alias"] or node["function"]["function_name"]
        node.clear()
        node.update({"type": "BASE_TABLE", "alias": alias, **kept, **place})

    def _compute(self, expression: Node, name: str, namespace: str) -> Any:
        """The value of an argument: a constant, or a subquery that stands alone."""
        import duckdb

        tree = self._parse("SELECT 1")
        tree["statements"][0]["node"]["select_list"] = [{**expression, "alias": ""}]
        try:
            (row,) = self.con.execute(self._resolve(tree, namespace)).fetchall()
        except (duckdb.BinderException, duckdb.CatalogException) as exc:
            raise QueryError(
                f"nearest: the {name} is not a constant: {first_line(exc)}",
                hint="arguments are constants, or subqueries that name nothing of the query around them; to search for "
                "the vectors of many rows, use scan.nearest(column, vectors)",
                option=name,
                reason=first_line(exc),
                problem="not-constant",
            ) from exc
        return row[0]

    # --- other statements --------------------------------------------------------------------------------------------

    def _check_pivot(self, sql: str) -> None:
        """Passes when it is one statement. DuckDB makes two of one that has to find its columns first: a type, and the
        SELECT.
        """
        kinds = [statement.type.name for statement in self.con.extract_statements(sql)]
        if kinds not in (["SELECT"], ["CREATE", "SELECT"]):
            raise QueryError(f"one query at a time, not {len(kinds)}", problem="several-statements")

    def _table_functions(self) -> list[str]:
        kinds = "('table', 'table_macro')"
        named = self.con.execute(f"SELECT function_name FROM duckdb_functions() WHERE function_type IN {kinds}")  # noqa: S608
        return [name for (name,) in named.fetchall()]

    def _open_named(self, sql: str) -> None:
        """Opens whatever a statement names that is a table. DuckDB tells the syntax of most statements, not of this."""
        for dotted in DOTTED.findall(sql):
            name = dotted.replace('"', "")
            if self._has(name):
                self._open(name, None)

    def _has(self, name: str) -> bool:
        return bool(self._lake.catalog.table_exists(name) or self._lake.catalog.view_exists(name))

    # --- views -------------------------------------------------------------------------------------------------------

    def _open(self, name: str, clause: Node | None) -> tuple[str, str]:
        """The DuckDB view of a table at the point that is meant: its schema and name. Another point of a table is
        another view.
        """
        try:
            point = self._point_of(name, clause, self._at)
        except NoSuchTable:
            if clause is None and self._lake.catalog.view_exists(name):
                return self._open_view(name)
            raise
        key = (name, None if point is None else point.snapshot.snapshot_id)
        if key not in self._made:
            schema, _, table = name.rpartition(".")
            table = table if name not in {known for known, _ in self._made} else f"{table}@{key[1] or MAIN}"
            self._made[key] = (schema, table)
            self._create(schema, table, f"SELECT * FROM {self._register(name, point)}")  # noqa: S608  # our own name
        return self._made[key]

    def _point_of(self, name: str, clause: Node | None, at: Named | None) -> Point | None:
        """The point that a table is read at; None for the current state."""
        metadata = self._lake.load(name).metadata
        point = _point_in(metadata, name, clause, at, self._env)
        if _may_move(point, metadata):
            self.moving.add(name)
        return point

    def register(self, name: str, scan: RowScan) -> None:
        """Makes the rows of a scan a table of the query."""
        from frazil.scan.engines import ScanDataset

        dataset = ScanDataset.of(scan)
        self.datasets.append(dataset)
        self.con.register(name, dataset)

    def _register(self, name: str, point: Point | None) -> str:
        from frazil.scan.engines import ScanDataset

        scan = self._open_table(self._lake, name).scan(at=None if point is None else _named(point))
        return self._add(ScanDataset.of(scan), "frazil_scan")

    def _add(self, dataset: ScanDataset | NearestDataset, kind: str) -> str:
        """The name of a new table of DuckDB whose rows come from a dataset."""
        self.datasets.append(dataset)
        own = f"{kind}_{len(self.datasets)}"
        self.con.register(own, dataset)
        return own

    def _open_view(self, name: str) -> tuple[str, str]:
        """A view of the catalog, translated for DuckDB."""
        from frazil.lake.views import view_sql

        if name in self._pending:
            raise QueryError(
                f"the view {name} selects from itself",
                hint=" -> ".join([*self._pending, name]),
                problem="recursive-view",
            )
        if len(self._pending) == MOST_VIEWS:
            raise QueryError(
                f"the view {self._pending[0]} selects from {MOST_VIEWS} views, one in another", problem="nested"
            )
        schema, _, table = name.rpartition(".")
        if (name, None) not in self._made:
            self._pending.append(name)
            sql, namespace = view_sql(self._lake.catalog, name)
            self._create(schema, table, self.resolve(sql, namespace))
            self._pending.pop()
            self._made[name, None] = (schema, table)
        return schema, table

    def _create(self, schema: str, table: str, sql: str) -> None:
        self.con.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        self.con.execute(f"CREATE VIEW {quoted(schema)}.{quoted(table)} AS {sql}")

    # --- errors ------------------------------------------------------------------------------------------------------

    def translate(self, exc: Exception) -> FrazilError:
        """What went wrong, in our words: a scan's own error when it was that."""
        import duckdb

        failed = next((dataset.failed for dataset in self.datasets if dataset.failed is not None), None)
        if failed is not None:
            return failed
        if isinstance(exc, duckdb.InternalException):  # its message has addresses of memory and paths
            return QueryError("DuckDB failed by itself; the query may be written in another way", problem="internal")
        said = first_line(exc).partition(" Possible solutions:")[0].partition(" Database is launched")[0]
        if isinstance(exc, duckdb.OutOfMemoryException):
            hint = "aggregate or filter earlier, or select fewer columns"
            return QueryError(f"the query needs more memory than it may use: {said}", hint=hint, problem="memory")
        if isinstance(exc, duckdb.PermissionException):
            return QueryError(
                f"a query reads the lake's tables, and no files: {said}",
                hint="load the file into a table first",
                reason=said,
                problem="file-access",
            )
        if isinstance(exc, duckdb.CatalogException) and "Table with name" in said:
            known = self._lake.table_names()
            hint = (
                f"tables are named with their namespace: {', '.join(known[:10])}"
                if known
                else "the catalog has no tables yet"
            )
            return QueryError(said.partition(" Did you mean")[0], hint=hint)  # DuckDB would name tables of its own
        return QueryError(said)


def _point_in(
    metadata: TableMetadata, name: str, clause: Node | None, at: Named | None, env: str | None
) -> Point | None:
    if clause is not None:
        named = _constant(clause, name)
        find = find_time if clause["unit"].upper() == "TIMESTAMP" else find_point
        return find(metadata, named, table=name)
    if at is None and env is not None and (ref := ref_in(metadata, env, table=name)) != MAIN:
        return find_ref(metadata, ref, table=name)
    if at is None or (at == MAIN and not metadata.refs):
        return None
    point = find_ref(metadata, MAIN, table=name) if at == MAIN else find_point(metadata, at, table=name)
    return None if point.kind == "branch" and point.name == MAIN else point


def _may_move(point: Point | None, metadata: TableMetadata) -> bool:
    """Whether the next commit may put another snapshot in the place of this one. A time that has passed stays what it
    was, once there is a later snapshot.
    """
    if point is None or point.kind in ("branch", "tag"):
        return True
    return point.kind == "time" and point.snapshot.snapshot_id == metadata.current_snapshot_id


def _named(point: Point) -> Named:
    """A branch by its name, for it has the table's columns; everything else by its snapshot."""
    return point.name if point.kind == "branch" else point.snapshot.snapshot_id


def _constant(clause: Node, table: str) -> str:
    """The value in `AT (VERSION => 'tag')`; DuckDB has put casts such as TIMESTAMP '...' around it."""
    node = clause["expr"]
    while node.get("class") == "CAST":
        node = node["child"]
    if node.get("class") != "CONSTANT":
        hint = "AT (VERSION => 123), AT (VERSION => 'tag'), AT (TIMESTAMP => '2024-01-18')"
        raise QueryError(f"AT of {table} must be a plain value", hint=hint, table=table)
    return str(node["value"]["value"])


def _closing(result: pa.RecordBatchReader, tables: QueryTables) -> pa.RecordBatchReader:
    """The stream, which closes its DuckDB when it ends; errors on the way are ours."""
    import duckdb
    import pyarrow as pa

    schema = pa.schema(
        [field.with_name(name) for field, name in zip(result.schema, distinct(result.schema.names), strict=True)]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for batch in result:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except UnicodeDecodeError as exc:
            raise QueryError("the query failed on bytes that are no text", problem="bytes") from exc
        except (duckdb.Error, OSError, pa.ArrowException) as exc:
            error = tables.translate(exc)
            raise (
                error
                if not isinstance(error, QueryError) or error.problem == "internal"
                else QueryError(f"the query stopped: {first_line(exc)}", reason=first_line(exc))
            ) from exc
        finally:
            tables.con.close()

    return pa.RecordBatchReader.from_batches(schema, batches())


def distinct(names: Sequence[str]) -> list[str]:
    """
    >>> distinct(["id", "name", "id", "id"])
    ['id', 'name', 'id_1', 'id_2']
    """
    unique: list[str] = []
    for name in names:
        tries = (name if number == 0 else f"{name}_{number}" for number in count())
        unique.append(next(try_ for try_ in tries if try_ not in unique))
    return unique


def _place(sql: str, position: str | None) -> str:
    """
    >>> _place("SELECT 1 FORM t", "9")
    ', at: FORM t'
    """
    return f", at: {sql[int(position) : int(position) + 30].strip()}" if position and position.isdigit() else ""
