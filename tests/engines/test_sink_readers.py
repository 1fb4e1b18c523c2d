"""What the sink writes to SeaweedFS reads the same in every engine, and their pruning believes its statistics."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.write.files.partitioning import partition_spec
from tests.engines.walkers import WALKERS, Daft, Pyiceberg, Sql, Trino, Walker
from tests.kit.stack import Project
from tests.kit.stack_lake import connection

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "amount", DecimalType(12, 2)),
    NestedField(4, "event_timestamp", TimestampType()),
    NestedField(5, "x", DoubleType()),
    NestedField(6, "device", StructType(NestedField(7, "site", StringType()))),
    NestedField(8, "tags", ListType(9, StringType())),
)
START = dt.datetime(2024, 2, 28, 5)
TABLE = "sink_readers.events"
Answer = list[tuple[Any, ...]]


def event(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": None if number % 7 == 0 else f"näme-{number:03d}",
        "amount": Decimal(number) / 4,
        "event_timestamp": None if number % 11 == 0 else START + dt.timedelta(hours=3 * number),
        "x": float("nan") if number % 13 == 0 else number / 8,
        "device": None if number % 5 == 0 else {"site": f"site-{number % 3}"},
        "tags": [f"tag-{n}" for n in range(number % 4)],
    }


def answer(numbers: range) -> Answer:
    """What every engine is to say of some rows."""
    return shape([event(number) for number in numbers])


def shape(rows: list[dict[str, Any]]) -> Answer:
    return [
        (row["id"], row["name"], float(row["amount"]), row["device"] and row["device"]["site"], len(row["tags"]))
        for row in rows
    ]


@pytest.fixture(scope="module")
def table(live_stack: Project) -> Iterator[str]:
    """A partitioned and sorted table that the sink has filled in three commits, each with ids of its own."""
    catalog = FrazilCatalog("lake", **connection(live_stack))
    catalog.create_namespace("sink_readers")
    spec = partition_spec(SCHEMA, ["day(event_timestamp)"])
    catalog.create_table(
        TABLE, SCHEMA, partition_spec=spec, sort_order=SortOrder(SortField(1, IdentityTransform()), order_id=1)
    )
    with frazil.sinks.open(TABLE, name="readers", catalog=catalog, bad_rows="quarantine", checks=["id < 1000"]) as sink:
        for start in (0, 20, 40):
            sink.write([event(number) for number in reversed(range(start, start + 20))], position=start + 20)
            sink.commit()
        sink.write([event(1000)])
    yield TABLE
    for name in (TABLE, TABLE + "__quarantine"):
        catalog.purge_table(name)
    catalog.drop_namespace("sink_readers")


def ask(engine: Walker, where: str) -> Answer:
    if isinstance(engine, Sql):
        size = "size" if "Spark" in type(engine).__name__ else "cardinality" if isinstance(engine, Trino) else "len"
        columns = f"id, name, CAST(amount AS DOUBLE), device.site, {size}(tags)"
        return sorted(engine.sql(f"SELECT {columns} FROM {engine.catalog_name}.{TABLE} WHERE {where}"))
    return sorted(shape(_scan(engine, where).to_pylist()), key=lambda row: row[0])


def _scan(engine: Walker, where: str) -> pa.Table:
    if isinstance(engine, Pyiceberg):
        return engine.catalog.load_table(TABLE).scan(where).to_arrow()
    assert isinstance(engine, Daft)
    import daft

    frame = daft.read_iceberg(engine.pyiceberg.catalog.load_table(TABLE), io_config=engine.io)
    return frame.where(daft.sql_expr(where)).to_arrow()


@pytest.mark.parametrize("engine", WALKERS)
def test_every_engine_reads_the_same_rows(engine: str, table: str, engines: dict[str, Walker]) -> None:
    assert ask(engines[engine], "id >= 0") == answer(range(60))


@pytest.mark.parametrize("engine", WALKERS)
@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("id = 25", range(25, 26)),
        ("name >= 'näme-057'", range(57, 60)),
        ("amount > 14.50", range(59, 60)),
        ("id >= 58 AND id < 1000", range(58, 60)),
    ],
)
def test_no_engine_skips_a_file_that_holds_a_row(
    engine: str, where: str, numbers: range, table: str, engines: dict[str, Walker]
) -> None:
    assert ask(engines[engine], where) == answer(numbers)


@pytest.mark.requirement("sink.transforms")
def test_trino_reads_only_the_files_that_may_hold_a_row(table: str, engines: dict[str, Walker]) -> None:
    trino = engines["trino"]
    assert isinstance(trino, Trino)

    def rows_read(where: str) -> int:
        cursor = trino.connection.cursor()
        cursor.execute(f"SELECT id, name, amount FROM iceberg.{TABLE} WHERE {where}").fetchall()
        return int(cursor.stats["processedRows"])

    assert rows_read("id >= 0") == 60
    assert rows_read("event_timestamp >= TIMESTAMP '2024-03-04 00:00:00'") == 19  # exactly the partitions of these days
    assert rows_read("id = 45") < 12  # by bounds: the third commit, and in it few files
    assert rows_read("name = 'zebra'") == 0


def test_spark_sees_sort_order_snapshots_and_the_quarantine(table: str, engines: dict[str, Walker]) -> None:
    spark = engines["spark"]
    assert isinstance(spark, Sql)
    assert spark.sql(f"SELECT DISTINCT sort_order_id FROM lake.{TABLE}.files") == [(1,)]
    assert spark.sql(
        f"SELECT operation, summary['total-records'] FROM lake.{TABLE}.snapshots ORDER BY committed_at"
    ) == [("append", total) for total in ("0", "20", "40", "60", "60")]
    assert spark.sql(f"SELECT reason FROM lake.{TABLE}__quarantine") == [("check 'id < 1000' failed",)]


def test_files_lie_in_the_folders_of_their_days(table: str, live_stack: Project) -> None:
    files = FrazilCatalog("lake", **connection(live_stack)).load_table(TABLE).inspect.files()["file_path"].to_pylist()
    folders = {Path(path).parent.name for path in files}
    assert "event_timestamp_day=2024-02-29" in folders
    assert "event_timestamp_day=null" in folders
