"""The lake in Python: what the commands about history and queries do, as calls.

import frazil

lake = frazil.Lake()                                   # the settings that hold in this folder
orders = lake.table("lakehouse.sales")
orders.log()                                           # snapshots, the newest first
orders.diff("2024-01-18", "main").files                # a time, a branch, a tag or a snapshot's id
orders.scan("country = 'NO'", ["amount"], at="before-backfill").read_all()
orders.scan("country = 'NO'").explain()                # what is skipped, and why
orders.rollback(at="2024-01-18 09:00", with_progress=True)
lake.query("SELECT country, sum(amount) FROM lakehouse.sales GROUP BY ALL", at="2024-01-18").read_all()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from frazil.lake.access import LakeAccess
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.scan.planning import Named

QueryEngine = Literal["duckdb", "trino", "spark"]


class Lake(LakeAccess):
    """The tables of a catalog: their history, and SQL over them."""

    def table(self, name: str) -> LakeTable:
        """A table by its full name, `namespace.table`. Nothing is asked of the catalog yet."""
        return LakeTable(self, name)

    def query(
        self, sql: str, *, at: Named | None = None, engine: QueryEngine = "duckdb", write: bool = False
    ) -> pa.RecordBatchReader:
        """The result of a SELECT over the lake's tables, as an Arrow stream; `at` is when, for tables that say nothing
        else themselves.

        On the embedded DuckDB a query only reads; with `write`, Trino and Spark may be told to change something.
        """
        if engine != "duckdb":
            from frazil.lake.engines import query_elsewhere

            return query_elsewhere(self, sql, engine, at=at, write=write)
        from frazil.lake.query import run_query

        return run_query(self, sql, at=at)
