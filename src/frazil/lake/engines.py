"""SQL over the lake on Trino or Spark: read-only unless asked, at the same points of the past as everywhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from frazil.errors import MissingExtra, NoSuchTable, QueryError
from frazil.scan.planning import Named, find_point

if TYPE_CHECKING:
    import pyarrow as pa
    import sqlglot.expressions as exp

    from frazil.lake.access import LakeAccess

PAGE_ROWS = 10_000
TRINO_CATALOG = "iceberg"  # as `frazil up` calls it
READING = ("Select", "SetOperation", "Subquery", "Describe", "Show", "Values")


def query_elsewhere(
    lake: LakeAccess, sql: str, engine: str, *, at: Named | None = None, write: bool = False
) -> pa.RecordBatchReader:
    """The result of a query on another engine, as an Arrow stream."""
    resolved = prepare(lake, sql, engine, at=at, write=write)
    return {"trino": _on_trino, "spark": _on_spark}[engine](lake, resolved)


def prepare(lake: LakeAccess, sql: str, engine: str, *, at: Named | None = None, write: bool = False) -> str:
    """The query as the engine is sent it: one that only reads, unless `write`, and with its tables at the point that is
    meant.
    """
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError as exc:
        raise MissingExtra("sqlglot", extra="sinks") from exc
    try:
        statements = [statement for statement in sqlglot.parse(sql, read=engine) if statement is not None]
    except SqlglotError as exc:
        raise QueryError(f"the query cannot be understood: {_plain(str(exc))}") from exc
    if len(statements) != 1:
        raise QueryError(f"one query at a time, not {len(statements)}", problem="several-statements")
    if not write and not _only_reads(statements[0], sql):
        raise QueryError(
            "this would change something, and a query only reads", hint="--write lets it", problem="read-only"
        )
    if at is None:
        return sql.strip().rstrip(";")  # as it was written: the engine knows its own words best
    for table in _tables(statements[0]):
        _travel(lake, table, at)
    return str(statements[0].sql(dialect=engine))


def _only_reads(statement: exp.Expr, sql: str) -> bool:
    """Whether a statement is one of those that change nothing, all the way down."""
    import sqlglot.expressions as exp

    if isinstance(statement, exp.Command):  # what sqlglot does not take apart
        explained = re.match(
            r"\s*EXPLAIN\s+(?!ANALYZE\b)(\(.*?\)\s*)?(SELECT|WITH|FROM|VALUES|TABLE)\b", sql, re.IGNORECASE | re.DOTALL
        )
        return bool(explained) or str(statement.this).upper() == "SHOW"
    kinds = tuple(getattr(exp, name) for name in READING)
    return (
        isinstance(statement, kinds)
        and statement.find(exp.Insert, exp.Delete, exp.Update, exp.Merge, exp.Create, exp.Drop, exp.Into) is None
    )


def _tables(statement: exp.Expr) -> list[exp.Table]:
    import sqlglot.expressions as exp

    local = {cte.alias for cte in statement.find_all(exp.CTE)}
    return [table for table in statement.find_all(exp.Table) if table.db or table.name not in local]


def _travel(lake: LakeAccess, table: exp.Table, at: Named) -> None:
    """Puts the snapshot that is meant behind a table that says nothing itself."""
    import sqlglot.expressions as exp

    if table.args.get("version") is not None:
        return
    name = f"{table.db}.{table.name}"
    try:
        point = find_point(lake.load(name).metadata, at, table=name)
    except NoSuchTable:
        return  # a table of another catalog, or none: the engine says so
    version = exp.Literal.number(point.snapshot.snapshot_id)
    table.set("version", exp.Version(this="VERSION", kind="AS OF", expression=version))


# --- Trino -----------------------------------------------------------------------------------------------------------


def _on_trino(lake: LakeAccess, sql: str) -> pa.RecordBatchReader:
    try:
        import trino
    except ImportError as exc:
        raise MissingExtra("trino", extra="trino") from exc
    port = lake.settings.stack.ports.trino
    session = trino.dbapi.connect(host="127.0.0.1", port=port, user="frazil", catalog=TRINO_CATALOG)  # type: ignore[no-untyped-call]
    cursor = session.cursor()
    with _saying(port):
        cursor.execute(sql)
    names = [(column[0], column[1]) for column in cursor.description or [("result", "varchar")]]

    def fetch(count: int) -> list[Any]:
        with _saying(port):
            return cursor.fetchmany(count)  # type: ignore[no-any-return]

    return _stream(names, fetch)


@contextmanager
def _saying(port: int) -> Iterator[None]:
    """What Trino says is an error of ours; it may say so with any page."""
    import trino
    from requests import RequestException

    try:
        yield
    except trino.exceptions.TrinoQueryError as exc:
        raise QueryError(f"Trino says: {_plain(exc.message)}") from exc
    except (RequestException, trino.exceptions.TrinoConnectionError) as exc:
        raise QueryError(
            f"no Trino answers at 127.0.0.1:{port}", hint="start it: frazil up --with trino", problem="unreachable"
        ) from exc


def _stream(columns: Sequence[tuple[str, str]], fetch: Callable[[int], list[Any]]) -> pa.RecordBatchReader:
    import pyarrow as pa

    from frazil.lake.query import distinct

    kinds = [trino_type(kind) for _, kind in columns]
    schema = pa.schema(list(zip(distinct([name for name, _ in columns]), kinds, strict=True)))

    def batches() -> Iterator[pa.RecordBatch]:
        while rows := fetch(PAGE_ROWS):
            arrays = [_array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_string(kind):
        values = [value if value is None or isinstance(value, str) else str(value) for value in values]
    return pa.array(values, kind)


def trino_type(name: str) -> pa.DataType:
    """The Arrow type of a Trino type; text for what has no plain one.

    >>> trino_type("decimal(12,2)"), trino_type("timestamp(6) with time zone"), trino_type("row(a bigint)")
    (Decimal128Type(decimal128(12, 2)), TimestampType(timestamp[us, tz=UTC]), DataType(string))
    """
    import pyarrow as pa

    plain = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
    }
    plain |= {"real": pa.float32(), "double": pa.float64(), "date": pa.date32(), "varbinary": pa.binary()}
    if match := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if name.startswith("timestamp"):
        return pa.timestamp("us", "UTC" if "time zone" in name else None)
    return plain.get(name, pa.string())


# --- Spark -----------------------------------------------------------------------------------------------------------


def _on_spark(lake: LakeAccess, sql: str) -> pa.RecordBatchReader:
    from frazil.scan.engines import run_sql
    from frazil.spark import spark_session

    settings = lake.settings
    log = settings.stack.folder / "logs" / "query-spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with spark_session(settings, app_name="frazil query", log=log) as spark:
        return run_sql(spark, sql, catalog=settings.catalog.name).to_reader()


def _plain(text: str) -> str:
    """One line, without the terminal's colours that sqlglot puts in."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).partition("\n")[0].strip()
