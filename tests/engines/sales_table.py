"""The sales table as its document specifies it, on the live stack: what the tests of its requirements share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import trino
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.kit.stack import Project
from tests.kit.stack_lake import connection, s3_client, stored_objects

DAYS = ("2024-01-15", "2024-01-16", "2024-01-17")
ROWS_A_DAY = 200
DDL = """CREATE TABLE IF NOT EXISTS iceberg.lakehouse.sales (
    order_id       VARCHAR     NOT NULL,
    customer_id    VARCHAR     NOT NULL,
    amount         DECIMAL(12,2) NOT NULL,
    country        VARCHAR,
    ingestion_date DATE        NOT NULL
)
WITH (
    format         = 'PARQUET',
    partitioning   = ARRAY['ingestion_date']
)"""


@dataclass(frozen=True)
class Sales:
    """The table `lakehouse.sales`, seen through Trino and through PyIceberg."""

    project: Project

    def ask(self, sql: str) -> list[list[Any]]:
        """The rows of a statement in Trino; `sales` in it is the table."""
        return self.measure(sql)[0]

    def measure(self, sql: str) -> tuple[list[list[Any]], dict[str, Any]]:
        """The same with what Trino counted: processedRows, physicalInputBytes, ..."""
        with trino.dbapi.connect(
            host="127.0.0.1", port=self.project.settings.stack.ports.trino, user="test"
        ) as session:
            cursor = session.cursor()
            cursor.execute(re.sub(r"(?<![.\"])\bsales\b", "iceberg.lakehouse.sales", sql))
            rows = cursor.fetchall()
            return rows, dict(cursor.stats)

    def load(self) -> Table:
        return load_catalog("lake", **connection(self.project)).load_table("lakehouse.sales")

    def add_day(self, day: str, *, rows: int = ROWS_A_DAY, country: str = "NO") -> None:
        row = (
            f"'ORD-' || CAST(n AS VARCHAR) || '-{day}', 'CUST-' || CAST(n % 7 AS VARCHAR), CAST(n AS DECIMAL(12,2)) / 4"
        )
        columns = "(order_id, customer_id, amount, country, ingestion_date)"
        self.ask(
            f"INSERT INTO sales {columns} SELECT {row}, '{country}', DATE '{day}' FROM UNNEST(sequence(1, {rows})) t(n)"
        )

    def rows(self, version: str = "") -> list[list[Any]]:
        """All rows in order, now or at a version (`FOR VERSION AS OF ...`)."""
        return self.ask(
            f"SELECT order_id, customer_id, amount, country, ingestion_date FROM sales {version} ORDER BY order_id"
        )

    def files(self) -> list[str]:
        """The data files of the current snapshot."""
        return sorted(path for (path,) in self.ask('SELECT file_path FROM iceberg.lakehouse."sales$files"'))

    def snapshots(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.load().snapshots()]


@contextmanager
def sales_table(project: Project, *, days: tuple[str, ...] = DAYS) -> Iterator[Sales]:
    """The table, made by the document's statement and filled day by day; dropped at the end."""
    sales = Sales(project)
    sales.ask("CREATE SCHEMA IF NOT EXISTS iceberg.lakehouse")
    _drop(sales)
    sales.ask(DDL)
    try:
        for day in days:
            sales.add_day(day)
        yield sales
    finally:
        _drop(sales)


def _drop(sales: Sales) -> None:
    """The table and all of its folder: files that failed writes have left are not referenced, and Trino wants an
    empty place.
    """
    sales.ask("DROP TABLE IF EXISTS sales")
    store, bucket = s3_client(sales.project), sales.project.settings.stack.bucket
    for key in stored_objects(sales.project, "lakehouse/sales/"):
        store.delete_object(Bucket=bucket, Key=key)
