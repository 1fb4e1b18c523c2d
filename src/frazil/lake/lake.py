"""The Python API: a lake, its tables, and SQL over them.

    import frazil

    lake = frazil.connect("http://127.0.0.1:8181")        # or frazil.connect(): the settings that hold in this folder
    lake.tables()
    orders = lake.table("lakehouse.sales")
    orders.scan("country = 'NO'", ["amount"], at="2024-01-18").to_arrow()
    orders.history()
    lake.sql("SELECT country, sum(amount) FROM lakehouse.sales GROUP BY ALL").show()

`at` is a snapshot id, a timestamp, a branch or a tag, in every call that reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args, overload

from frazil.errors import ArgumentError, FrazilError, QueryError
from frazil.lake.access import LakeAccess
from frazil.lake.table import LakeTable
from frazil.moved import warn_former
from frazil.names import TABLE_NAME, name_parts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from frazil.lake.declared import Steps
    from frazil.lake.result import Result
    from frazil.pipelines import Pipeline, RunResult
    from frazil.pipelines.stream import StreamProgress
    from frazil.scan.planning import Named
    from frazil.sinks import ArrowSink, SinkArguments, TableName
    from frazil.sinks.bytewax import TableSink
    from frazil.sinks.spark import FrameSink
    from frazil.tables import Table

HINT = "start one with: frazil serve (or frazil up); or name another: frazil.connect('http://...')"
QueryEngine = Literal["duckdb", "trino", "spark"]


def connect(uri: str | None = None, **properties: str) -> Lake:
    """The lake of an Iceberg REST catalog.

    `uri` is the catalog's address. Without it, the settings of the current folder name the catalog, as for the
    commands: flags, environment, `frazil.toml`, then the catalog that `frazil serve` or `frazil up` runs there.
    `properties` are PyIceberg's (`warehouse="cold"`, `token="..."`, `**{"s3.endpoint": "..."}`), and win over the
    settings.

    Raises `Unavailable` if no catalog answers. A lake is a context manager; `close()` ends its connections.
    """
    from frazil.lake.connecting import connection_settings

    lake = Lake(connection_settings(uri, properties))
    try:
        lake.catalog  # noqa: B018  # a wrong address is an error here, not at the first use
    except FrazilError as exc:
        exc.hint = HINT
        raise
    return lake


class TableList(list[LakeTable]):
    """The tables of a lake, by name."""

    def __repr__(self) -> str:
        """The names, one per line."""
        noun = "table" if len(self) == 1 else "tables"
        return "\n".join([f"{len(self)} {noun}", *(f"  {table.name}" for table in self)])

    def _repr_html_(self) -> str:
        from frazil.markup import html_table

        return html_table(("table",), [(table.name,) for table in self])


class Lake(LakeAccess):
    """The tables of a catalog: what they hold, what they held, and SQL over them. `frazil.connect()` gives one."""

    def tables(self, namespace: str | tuple[str, ...] | None = None) -> TableList:
        """All tables, or those of a namespace and the namespaces inside it, sorted by name.

        Raises `NoSuchNamespace` if the namespace does not exist.
        """
        if namespace is not None and name_parts(namespace) is None:
            raise ArgumentError("namespace", namespace, expected="the name of a namespace, such as 'lakehouse'")
        return TableList(LakeTable(self, name) for name in self.table_names(name_parts(namespace)))

    def table(self, name: str | tuple[str, ...]) -> LakeTable:
        """A table by its full name, `namespace.table` or `("namespace", "table")`.

        The catalog is asked when the table is used.
        """
        if (parts := name_parts(name)) is None:
            raise ArgumentError("name", name, expected=TABLE_NAME)
        return LakeTable(self, ".".join(parts))

    def sql(
        self,
        query: str,
        *,
        at: Named | None = None,
        env: str | None = None,
        engine: QueryEngine = "duckdb",
        write: bool = False,
    ) -> Result:
        """The result of a query over the lake's tables.

        `at` says as of when tables are read; a table in the query may say so itself: `FROM a.b AT (VERSION => 'tag')`.
        Without it, all tables are read as they were at one moment.
        With `env`, tables are read on the branch of that environment where there is one, else on main.
        The embedded DuckDB only reads. With `write=True`, Trino and Spark may also change tables.
        """
        from frazil.lake.result import Result

        if not isinstance(query, str):
            raise ArgumentError("query", query, expected="the text of a SQL query")
        if engine not in (engines := get_args(QueryEngine)):
            raise QueryError(
                f"'{engine}' is not a query engine",
                hint=f"there are: {', '.join(engines)}",
                option="engine",
                expected=engines,
                got=engine,
            )
        if env is not None:
            check_query_environment(env, at, engine)
        if engine != "duckdb":
            from frazil.lake.engines import query_elsewhere

            return Result(query_elsewhere(self, query, engine, at=at, write=write))
        from frazil.lake.query import run_query

        return Result(run_query(self, query, LakeTable, at=at, env=env))

    def plan(self, declared: Table | Iterable[Table]) -> Steps:
        """What `apply` would change. Changes nothing."""
        from frazil.lake.declared import plan_tables

        return plan_tables(self, declared)

    def apply(
        self,
        declared: Table | Iterable[Table],
        *,
        folder: Path | None = None,
        allow_drops: bool = False,
        adopt: bool = False,
    ) -> Steps:
        """Makes the live tables what is declared, as `frazil apply` does; returns the steps that were done.

        `plan` shows them first. A step that drops a column or a property needs `allow_drops=True`. Tables of another
        project are refused with `OtherProject`, unless `adopt=True` takes them over. A project without a name in its
        settings has that of `folder`, which is the current folder unless given, as for `run`.
        """
        from frazil.lake.declared import apply_tables

        return apply_tables(self, declared, folder=folder, allow_drops=allow_drops, adopt=adopt)

    def run(
        self,
        pipeline: Pipeline | str,
        *,
        folder: Path | None = None,
        spark: SparkSession | None = None,
        adopt: bool = False,
    ) -> RunResult | StreamProgress:
        """Runs a pipeline once, as `frazil run` does: everything new since the last run, then stop.

        `pipeline` is what `@frazil.pipeline` gives, or its name in the `lakehouse.py` of `folder`, which is the current
        folder unless given; paths of landing files are relative to it. Without a Spark session, one is started if there
        is something to load.
        """
        from frazil.lake.declared import run_declared

        return run_declared(self, pipeline, folder=folder, spark=spark, adopt=adopt)

    @overload
    def sink(
        self, table: TableName, *, name: str, host: Literal["python"] = "python", **options: Unpack[SinkArguments]
    ) -> ArrowSink: ...

    @overload
    def sink(
        self, table: TableName, *, name: str | None = None, host: Literal["bytewax"], **options: Unpack[SinkArguments]
    ) -> TableSink: ...

    @overload
    def sink(
        self, table: TableName, *, name: str, host: Literal["spark"], **options: Unpack[SinkArguments]
    ) -> FrameSink: ...

    def sink(self, table: TableName, **options: Any) -> ArrowSink | TableSink | FrameSink:
        """A sink that writes each row of a stream exactly once; `frazil.sinks.open` has the hosts and options.

        `table` is the name of a table, or the location of a Delta table.
        """
        from frazil.sinks import open

        arguments: dict[str, Any] = {"catalog": self.catalog, **options}
        sink: ArrowSink | TableSink | FrameSink = open(table, **arguments)
        return sink

    def close(self) -> None:
        """Ends the connections to the catalog."""
        if catalog := self.__dict__.get("catalog"):  # a cached property: only if it was used
            catalog.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """The catalog's address and warehouse."""
        return f"<Lake {self.address}>"

    # --- former names ------------------------------------------------------------------------------------------------

    def query(
        self, sql: str, *, at: Named | None = None, engine: QueryEngine = "duckdb", write: bool = False
    ) -> pa.RecordBatchReader:
        """Deprecated: use `sql()`, which gives a `Result`."""
        warn_former("Lake.query()", "Lake.sql()")
        return self.sql(sql, at=at, engine=engine, write=write).to_batches()


def check_query_environment(env: str, at: Named | None, engine: str) -> None:
    """Refuses an environment next to another point of the past, or on an engine that would read main."""
    from frazil.history import check_environment

    if not isinstance(env, str):
        raise ArgumentError("env", env, expected="the name of an environment")
    check_environment(env)
    if at is not None:
        raise QueryError("a query reads an environment or a point of the past, not both", problem="exclusive-options")
    if engine != "duckdb":
        raise QueryError(
            f"environments are read by the embedded DuckDB, not by {engine}",
            hint=f"name the branch of each table: FROM a.b VERSION AS OF '{env}'",
            option="env",
        )
