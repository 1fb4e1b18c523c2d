"""Seven engines that answer the zoo's questions, each in its own way of reading a table; rows come back as plain
values.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.client import FrazilCatalog
from frazil.lake import Lake
from frazil.scan.engines.frames import without_extensions
from tests.engines.walkers import Daft, Duckdb, Walker
from tests.engines.zoo import NAMESPACE
from tests.engines.zoo_queries import SCANS, Query
from tests.kit.stack import Project
from tests.kit.stack_lake import connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[Any]
Plan = dict[str, list[str]]  # data files, each with its delete files
HEX_DIGITS = 32  # of a UUID


def plain(value: Any) -> Any:
    """A value as every engine would have it: UUIDs and bytes in hexadecimal digits, times in UTC, decimals as text or
    whole numbers.

    >>> plain({"b": [Decimal("1.50"), Decimal("2.0"), b"\\x01"]}), plain([("k", 1)]), plain([{"key": "k", "value": 1}])
    ([['b', ['1.5', 2, '01']]], [['k', 1]], [['k', 1]])
    """
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else format(value.normalize(), "f")
    if isinstance(value, dt.datetime):
        in_utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        # of pandas
        return in_utc.isoformat(timespec="nanoseconds" if getattr(value, "nanosecond", 0) else "microseconds")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        digits = value.replace("-", "")
        return digits if len(digits) == HEX_DIGITS and value.count("-") == 4 else value
    return _plain_nested(value)


def _plain_nested(value: Any) -> Any:
    names = getattr(value, "_names", None)  # Trino's rows
    if names:
        value = dict(zip(names, value, strict=True))
    if isinstance(value, dict):
        if set(value) == {"key", "value"}:
            return [plain(value["key"]), plain(value["value"])]
        return sorted([key, plain(item)] for key, item in value.items())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def plain_rows(table: pa.Table) -> Rows:
    """The rows of an Arrow table."""
    columns = [without_extensions(table).column(at).to_pylist() for at in range(table.num_columns)]
    return [[plain(value) for value in row] for row in zip(*columns, strict=True)]


def in_order(rows: Rows, query: Query) -> Rows:
    return rows if query.ordered else sorted(rows, key=json.dumps)


def ask_arrow(query: Query, rows: pa.Table, *, truth: bool = False) -> Rows:
    """The answer from Arrow rows, by a DuckDB that knows nothing of Iceberg."""
    import duckdb

    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("t", without_extensions(rows))
        sql = query.truth if truth and query.truth else query.sql
        return in_order(plain_rows(con.execute(sql.format(t="t")).to_arrow_table()), query)


class Zoo:
    """The engines, connected to the stack on which the zoo lives."""

    def __init__(self, project: Project, engines: dict[str, Walker]) -> None:
        self.catalog = FrazilCatalog("lake", **connection(project))
        self._engines, self._project = engines, project
        self._lake = Lake(catalog=self.catalog)

    def ask(self, engine: str, queries: Sequence[Query]) -> list[Rows | Exception]:
        """The engine's rows for each question, or why it has none. Several at a time where another process does the
        work.
        """
        if engine == "spark":
            return self._ask_spark(queries)
        with ThreadPoolExecutor(3 if engine == "trino" else 1) as threads:
            return list(threads.map(lambda query: self._ask_one(engine, query), queries))

    def _ask_one(self, engine: str, query: Query) -> Rows | Exception:
        try:
            result = getattr(self, f"_{engine}")(query)
            return ask_arrow(query, result) if engine in SCANS else in_order(result, query)
        except Exception as exc:  # whatever an engine raises is its answer
            return exc

    def plans(self, table: str) -> tuple[Plan, Plan]:
        """The files with their delete files, as PyIceberg plans them itself, and as the catalog plans them for it."""
        planned = FrazilCatalog("lake", **connection(self._project), **{"scan-planning-mode": "server"})
        scan = planned.load_table(f"{NAMESPACE}.{table}").scan()
        both = (scan._plan_files_local(), scan.plan_files())
        planned.close()
        local, remote = (
            {task.file.file_path: sorted(file.file_path for file in task.delete_files) for task in tasks}
            for tasks in both
        )
        return local, remote

    def ask_planned_spark(self, queries: Sequence[Query]) -> list[Rows | Exception]:
        """Spark's rows, when it lets the catalog plan."""
        self._engines["spark"].process.call("tests.engines.zoo_engines:add_planned_catalog")  # type: ignore[attr-defined]
        return self._ask_spark(queries, catalog="planned")

    def _ask_spark(self, queries: Sequence[Query], *, catalog: str = "lake") -> list[Rows | Exception]:
        process = self._engines["spark"].process  # type: ignore[attr-defined]
        result = process.call(
            "tests.engines.zoo_engines:ask_spark", [self._spark_sql(query, catalog) for query in queries]
        )
        pairs = zip(queries, result, strict=True)
        return [
            RuntimeError(answer["error"]) if "error" in answer else in_order(answer["rows"], query)
            for query, answer in pairs
        ]

    def _table(self, query: Query) -> Any:
        return self.catalog.load_table(f"{NAMESPACE}.{query.table}")

    def _snapshot(self, query: Query) -> int | None:
        """For engines that know no names of branches and tags: PyIceberg looks the snapshot up."""
        return None if query.at is None else self._table(query).snapshot_by_name(query.at).snapshot_id

    def _moment(self, query: Query) -> dt.datetime:
        snapshot_name = self._table(query).snapshot_by_name(query.at)
        return dt.datetime.fromtimestamp((snapshot_name.timestamp_ms + 1) / 1000, dt.UTC)

    # --- scans -------------------------------------------------------------------------------------------------------

    def _pyiceberg(self, query: Query) -> pa.Table:
        table = self._table(query)
        scan = table.scan(query.filter or "true", selected_fields=query.columns)
        if query.at and query.by == "ref":
            scan = scan.use_ref(query.at)
        elif query.at:
            at = (
                table.snapshot_as_of_timestamp(int(self._moment(query).timestamp() * 1000)).snapshot_id
                if query.by == "time"
                else None
            )
            scan = scan.update(snapshot_id=at or self._snapshot(query))
        return scan.to_arrow()

    def _frazil(self, query: Query) -> pa.Table:
        named = {
            "ref": query.at,
            "snapshot": self._snapshot(query),
            "time": self._moment(query) if query.by == "time" else None,
        }
        return (
            self._lake.table(f"{NAMESPACE}.{query.table}")
            .scan(query.filter, query.columns, at=named[query.by])
            .to_arrow()
        )

    # --- frames ------------------------------------------------------------------------------------------------------

    def _daft(self, query: Query) -> Rows:
        import daft

        walker = self._engines["daft"]
        assert isinstance(walker, Daft)
        frame = daft.read_iceberg(self._table(query), snapshot_id=self._snapshot(query), io_config=walker.io)
        return plain_rows(daft.sql(self._sql(query, "daft").format(t="t"), t=frame).to_arrow())

    def _polars(self, query: Query) -> Rows:
        import polars

        frame = polars.scan_iceberg(
            self._table(query), snapshot_id=self._snapshot(query), storage_options=self._storage
        )
        return plain_rows(
            polars.SQLContext(t=frame).execute(self._sql(query, "polars").format(t="t")).collect().to_arrow()
        )

    @cached_property
    def _storage(self) -> dict[str, str]:
        return {name: value for name, value in connection(self._project).items() if name.startswith("s3.")}

    # --- SQL ---------------------------------------------------------------------------------------------------------

    def _sql(self, query: Query, engine: str) -> str:
        return query.spelled.get(engine, query.sql)

    def _duckdb(self, query: Query) -> Rows:
        walker = self._engines["duckdb"]
        assert isinstance(walker, Duckdb)
        place = f"lake.{NAMESPACE}.{query.table}"
        if query.by == "time":
            place += f" AT (TIMESTAMP => TIMESTAMP '{self._moment(query):%Y-%m-%d %H:%M:%S.%f}')"
        elif query.at:
            place += f" AT (VERSION => {self._snapshot(query)})"
        walker.connection.execute("SET TimeZone = 'UTC'")
        return plain_rows(walker.connection.execute(self._sql(query, "duckdb").format(t=place)).to_arrow_table())

    def _spark_sql(self, query: Query, catalog: str) -> str:
        place = f"{catalog}.{NAMESPACE}.{query.table}"
        if query.by == "time":
            place += f" TIMESTAMP AS OF TIMESTAMP '{self._moment(query):%Y-%m-%d %H:%M:%S.%f}'"
        elif query.at:
            place += f" VERSION AS OF {self._version(query)}"
        return self._sql(query, "spark").format(t=place)

    def _trino(self, query: Query) -> Rows:
        place = f"iceberg.{NAMESPACE}.{query.table}"
        if query.by == "time":
            place += f" FOR TIMESTAMP AS OF TIMESTAMP '{self._moment(query):%Y-%m-%d %H:%M:%S.%f} UTC'"
        elif query.at:
            place += f" FOR VERSION AS OF {self._version(query)}"
        walker = self._engines["trino"]
        return [plain(list(row)) for row in walker.sql(self._sql(query, "trino").format(t=place))]  # type: ignore[attr-defined]

    def _version(self, query: Query) -> str:
        return f"'{query.at}'" if query.by == "ref" else str(self._snapshot(query))


def ask_spark(spark: SparkSession, statements: list[str]) -> list[dict[str, Any]]:
    """Runs in Spark's process, three statements at a time: most of a small query's time is spent waiting."""

    def ask(statement: str) -> dict[str, Any]:
        try:
            return {"rows": plain_rows(spark.sql(statement).toArrow())}
        except Exception as exc:  # whatever it raises is its answer
            return {"error": str(exc)[:2000]}

    with ThreadPoolExecutor(3) as threads:
        return list(threads.map(ask, statements))


def add_planned_catalog(spark: SparkSession) -> None:
    """Runs in Spark's process: in addition to `lake` there is `planned`, the same catalog, which plans for Spark."""
    for key, value in spark.sparkContext.getConf().getAll():
        if key.startswith("spark.sql.catalog.lake"):
            spark.conf.set(key.replace(".lake", ".planned", 1), value)
    spark.conf.set("spark.sql.catalog.planned.scan-planning-mode", "server")
