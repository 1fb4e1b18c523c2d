"""Scans of a lake's tables: at every kind of point, in every library, and what came between two points."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType, UUIDType

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError, HistoryError, ScanError
from frazil.lake import LakeTable
from frazil.scan.engines.pushdown import ScanDataset
from tests.contract.history_lake import tick
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "country", StringType()),
    NestedField(3, "amount", DoubleType()),
    NestedField(4, "at", TimestamptzType()),
    NestedField(5, "key", UUIDType()),
)
ARROW = SCHEMA.as_arrow()
BY_COUNTRY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))
WHEN = datetime(2024, 1, 18, tzinfo=UTC)


def rows(*ids: int, amount: float = 1.0) -> pa.Table:
    result = [
        {"id": n, "country": ("NO", "SE", "DK")[n % 3], "amount": amount * n, "at": WHEN, "key": uuid.UUID(int=n).bytes}
        for n in ids
    ]
    return pa.Table.from_pylist(result, schema=ARROW)


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with running_catalog() as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        yield Lake(catalog=catalog)


@pytest.fixture(scope="module")
def sales(lake: Lake) -> LakeTable:
    """Ids 0 to 5 at tag `first`, 6 to 8 since then, 9 on branch `dev` alone."""
    table = lake.catalog.create_table("lake.sales", SCHEMA, partition_spec=BY_COUNTRY)
    table.append(rows(*range(6)))
    result = lake.table("lake.sales")
    result.create_tag("first")
    result.create_branch("dev")
    tick()
    table.refresh()
    table.append(rows(9), branch="dev")
    table.append(rows(6, 7, 8))
    return result


def ids(value: Any) -> list[int]:
    return sorted(value["id"].to_pylist())


def test_a_scan_reads_every_kind_of_point(lake: Lake, sales: LakeTable) -> None:
    first = sales.load().snapshots()[0]
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    points: list[dict[str, Any]] = [
        {"at": "first"},
        {"at": first.snapshot_id},
        {"at": str(first.snapshot_id)},
        {"at": moment},
        {"at": moment.isoformat()},
    ]
    assert [ids(sales.scan(**point).to_arrow()) for point in points] == [list(range(6))] * 5
    assert ids(sales.scan(at="dev").to_arrow()) == [0, 1, 2, 3, 4, 5, 9]
    assert ids(sales.scan().to_arrow()) == list(range(9))


def test_a_filter_is_sql_or_an_expression(sales: LakeTable) -> None:
    asked = [
        sales.scan("country = 'NO' and amount > 0"),
        sales.scan(EqualTo("country", "NO")),
        sales.scan("COUNTRY = 'NO'", case_sensitive=False),
    ]
    assert [ids(scan.to_arrow()) for scan in asked] == [[3, 6], [0, 3, 6], [0, 3, 6]]
    assert sales.scan("id >= 7", ["country", "id"]).to_arrow().column_names == ["country", "id"]
    assert (sales.count(), sales.count("country = 'SE'"), sales.count(at="first")) == (9, 3, 6)


@pytest.mark.parametrize(
    ("asked", "error", "facts"),
    [
        ({"filter": "contry = 'NO'"}, ScanError, {"column": "contry", "hint": re.compile("country")}),
        (
            {"filter": "amount = 'dear'"},
            ScanError,
            {"column": "amount", "expected": "double", "got": "'dear'"},
        ),
        ({"filter": "country = "}, ScanError, {"table": "lake.sales", "column": None}),
        ({"columns": ["amout"]}, ScanError, {"column": "amout", "hint": re.compile("amount")}),
        (
            {"at": 17},
            HistoryError,
            {"table": "lake.sales", "snapshot": 17, "hint": re.compile(r"\d+, \d+, \d+")},
        ),
        ({"at": "frist"}, HistoryError, {"ref": "frist", "hint": re.compile(r"\bfirst\b")}),
        ({"at": "yesterday"}, HistoryError, {"ref": "yesterday"}),
    ],
)
def test_what_is_asked_wrongly_is_an_error_that_helps(
    sales: LakeTable, asked: dict[str, Any], error: type[FrazilError], facts: dict[str, Any]
) -> None:
    with raises(error, **facts):
        sales.scan(**asked)


def test_a_table_without_snapshots_has_columns_and_no_rows(lake: Lake) -> None:
    lake.catalog.create_table("lake.empty", SCHEMA)
    scan = lake.table("lake.empty").scan("id > 1")
    assert (scan.to_arrow().num_rows, scan.schema.names, scan.count()) == (
        0,
        ["id", "country", "amount", "at", "key"],
        0,
    )


def test_every_library_gets_the_same_rows(sales: LakeTable) -> None:
    scan = sales.scan("country != 'SE'", ["id", "amount", "key", "at"], ordered=True)
    expected = scan.to_arrow()["id"].to_pylist()
    assert sorted(expected) == [0, 2, 3, 5, 6, 8]
    assert scan.to_polars()["id"].to_list() == expected
    assert scan.to_pandas()["id"].tolist() == expected
    assert scan.to_daft().to_pydict()["id"] == expected
    assert [row[0] for row in scan.to_duckdb().fetchall()] == expected
    assert [row[0] for row in duckdb.from_arrow(scan).fetchall()] == expected
    assert pa.table(scan)["id"].to_pylist() == expected


def test_duckdb_asks_the_scan_for_what_it_needs(sales: LakeTable) -> None:
    dataset = ScanDataset.of(sales.scan())
    con = duckdb.connect()
    con.register("sales", dataset)
    row = con.sql("SELECT sum(amount) FROM sales WHERE country = 'NO' AND id > 2").fetchone()
    assert row == (9.0,)
    (asked,) = dataset.asked
    assert set(asked.columns or ()) == {"amount", "country", "id"}
    assert len(asked.plan()) == 2  # the files of NO, without the one whose ids are too small


WHERES = [
    "country IN ('NO', 'DK')",
    "country LIKE 'N%' OR id = 1",
    "amount > 3.5",
    "country IS NOT NULL AND id BETWEEN 2 AND 4",
]
WHERES += ["\"at\" = TIMESTAMPTZ '2024-01-18 00:00:00+00'", "key = '00000000-0000-0000-0000-000000000003'"]


@pytest.mark.parametrize("where", WHERES)
def test_duckdb_filters_through_the_scan_as_it_does_by_itself(sales: LakeTable, where: str) -> None:
    con, table = duckdb.connect(), sales.scan().to_arrow()
    con.register("plain", table)
    sql = f"SELECT id FROM {{}} WHERE {where} ORDER BY id"
    con.register("scanned", ScanDataset.of(sales.scan()))
    assert con.sql(sql.format("scanned")).fetchall() == con.sql(sql.format("plain")).fetchall() != []


# --- between two points ----------------------------------------------------------------------------------------------


def test_appends_between_two_points_are_read(sales: LakeTable) -> None:
    assert ids(sales.appends("first").to_arrow()) == [6, 7, 8]
    assert ids(sales.appends("first", "dev").to_arrow()) == [9]
    assert ids(sales.appends(None, filter="id < 2").to_arrow()) == [0, 1]
    with raises(ScanError, problem="expired"):
        sales.appends("dev")


def test_appends_from_the_start_are_refused_once_the_start_has_expired(lake: Lake) -> None:
    table = lake.catalog.create_table("lake.old", SCHEMA)
    for number in range(3):
        table.append(rows(number))
    first, second, _ = (snapshot.snapshot_id for snapshot in table.snapshots())
    table.maintenance.expire_snapshots().by_ids([first]).commit()
    result = lake.table("lake.old")
    assert ids(result.appends(second).to_arrow()) == [2]
    with raises(ScanError, table="lake.old", snapshot=second, problem="expired"):
        result.appends(None)


@pytest.fixture(scope="module")
def changed(lake: Lake) -> LakeTable:
    """Since tag `before`: 7 came, 1 went, 2 has another amount; everything was rewritten on the way."""
    table = lake.catalog.create_table("lake.changed", SCHEMA)
    table.append(rows(1, 2, 3))
    lake.table("lake.changed").create_tag("before")
    table.refresh()
    table.overwrite(pa.concat_tables([rows(2, amount=9.0), rows(3, 7)]))
    return lake.table("lake.changed")


def as_tuples(batch_reader: pa.RecordBatchReader) -> list[tuple[Any, ...]]:
    return sorted((row["_change_type"], row["id"], row.get("amount")) for row in batch_reader.to_arrow().to_pylist())


def test_changes_by_key_are_inserts_deletes_and_updates(changed: LakeTable) -> None:
    expected = [("DELETE", 1, 1.0), ("INSERT", 7, 7.0), ("UPDATE_AFTER", 2, 18.0), ("UPDATE_BEFORE", 2, 2.0)]
    changes = changed.changes("before", key=["id"])
    assert changes.schema.types[1:] == list(changed.scan().schema.types)
    assert as_tuples(changes) == expected
    assert as_tuples(changed.changes("before", key=["id"], columns=["country"])) == [
        ("DELETE", 1, None),
        ("INSERT", 7, None),
    ]


def test_the_column_that_the_docstring_of_changes_names_is_there(changed: LakeTable) -> None:
    named = re.findall(r"`(_\w+)`", LakeTable.changes.__doc__ or "")
    assert named == [name for name in changed.changes("before").schema.names if name.startswith("_")]


def test_changes_without_a_key_are_inserts_and_deletes(changed: LakeTable) -> None:
    assert as_tuples(changed.changes("before")) == [
        ("DELETE", 1, 1.0),
        ("DELETE", 2, 2.0),
        ("INSERT", 2, 18.0),
        ("INSERT", 7, 7.0),
    ]
    assert as_tuples(changed.changes("main")) == []


def test_a_key_that_tells_no_rows_apart_is_refused(changed: LakeTable) -> None:
    with raises(ScanError, problem="duplicate-key"):
        changed.changes("before", key=["at"]).to_arrow()
    with raises(ScanError, column="idd"):
        changed.changes("before", key=["idd"])
