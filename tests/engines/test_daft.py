"""Daft on our catalog: filters, columns and partitions reach its scan tasks; it appends and overwrites; its frames go
through the sink.
"""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import daft
import pyarrow as pa
import pytest
from daft import col
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

import frazil.sinks
from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict
from frazil.processes import wait_until
from frazil.sinks.daft import stream_frame

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "country", StringType()),
    NestedField(3, "n", LongType()),
    NestedField(4, "seen", TimestampType()),
)
BY_COUNTRY_AND_DAY = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "country"), PartitionField(4, 1001, DayTransform(), "seen_day")
)
NAME = "daft.sales"
FIRST = dt.datetime(2024, 2, 28, 12)


def rows(*numbers: int) -> pa.Table:
    """Twelve rows make a file for each of four countries on each of three days."""
    countries = ("NO", "SE", "DK", "FI")
    days = [FIRST + dt.timedelta(days=n % 3) for n in numbers]
    return pa.table(
        {
            "id": list(numbers),
            "country": [countries[n % 4] for n in numbers],
            "n": [n * 10 for n in numbers],
            "seen": days,
        }
    )


@pytest.fixture(scope="module")
def daft_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrazilCatalog]:
    with running_catalog(tmp_path_factory.mktemp("daft")) as server:
        client = FrazilCatalog("lake", uri=server.uri)
        client.create_namespace("daft")
        yield client
        client.close()


@pytest.fixture
def table(daft_catalog: FrazilCatalog) -> Iterator[Table]:
    result = daft_catalog.create_table(NAME, SCHEMA, partition_spec=BY_COUNTRY_AND_DAY)
    result.append(rows(*range(12)))
    yield result
    for name in daft_catalog.list_tables("daft"):
        daft_catalog.drop_table(name)


def plan(frame: daft.DataFrame) -> str:
    """Daft's optimized plan, in which a scan lists its tasks, on one line."""
    string_io = io.StringIO()
    frame.explain(show_all=True, file=string_io)
    optimized = string_io.getvalue().partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]
    return re.sub(r"\s*\n\|?\s*", " ", optimized)


def files(frame: daft.DataFrame) -> list[tuple[str, str]]:
    """The files of the scan tasks, by the folders of their partitions; the plan breaks lines inside of names."""
    return sorted(re.findall(r"country=(\w+)/seen_day=([\d-]{10})", plan(frame).replace(" ", "")))


def ids(catalog: FrazilCatalog) -> list[int]:
    return sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist())


# --- read_iceberg ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("daft.read")
def test_columns_filter_and_partitions_reach_the_scan_tasks(table: Table) -> None:
    frame = daft.read_iceberg(table).where((col("country") == "NO") & (col("n") > 30)).select("id")
    result = plan(frame)
    assert "Projection pushdown = [id]" in result
    assert "Filter pushdown = col(n) > lit(30)" in result
    assert 'Partition Filter = col(country) == cast(lit("NO") as String)' in result
    assert files(frame) == [("NO", "2024-02-29"), ("NO", "2024-03-01")]  # of twelve; the third of NO holds n = 0 only
    assert sorted(frame.to_pydict()["id"]) == [4, 8]


@pytest.mark.requirement("daft.read", "daft.partitioning")
def test_a_filter_on_a_time_prunes_the_days_that_it_was_partitioned_by(table: Table) -> None:
    frame = daft.read_iceberg(table).where(col("seen") >= dt.datetime(2024, 3, 1))
    assert {day for _, day in files(frame)} == {"2024-03-01"}
    assert sorted(frame.to_pydict()["id"]) == [2, 5, 8, 11]


@pytest.mark.requirement("daft.snapshot")
def test_a_snapshot_has_the_rows_and_columns_of_its_time(table: Table) -> None:
    first = table.metadata.current_snapshot_id
    with table.update_schema() as change:
        change.rename_column("n", "amount")
    table.append(rows(12).rename_columns(["id", "country", "amount", "seen"]))
    then, now = daft.read_iceberg(table, snapshot_id=first), daft.read_iceberg(table)
    assert (then.column_names[2], then.count_rows()) == ("n", 12)
    assert (now.column_names[2], now.count_rows()) == ("amount", 13)


# --- write_iceberg ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("daft.write")
def test_an_append_is_one_snapshot_that_others_read(table: Table, daft_catalog: FrazilCatalog) -> None:
    daft.from_arrow(rows(12, 13)).write_iceberg(table, mode="append")
    assert ids(daft_catalog) == list(range(14))
    assert len(daft_catalog.load_table(NAME).metadata.snapshots) == 2


@pytest.mark.requirement("daft.write")
def test_an_overwrite_replaces_all_rows_and_with_a_filter_a_partition(
    table: Table, daft_catalog: FrazilCatalog
) -> None:
    only_norway = rows(100, 104)
    daft.from_arrow(only_norway).write_iceberg(table, mode="overwrite", overwrite_filter=col("country") == "NO")
    assert ids(daft_catalog) == [*(n for n in range(12) if n % 4), 100, 104]
    daft.from_arrow(rows(1)).write_iceberg(daft_catalog.load_table(NAME), mode="overwrite")
    assert ids(daft_catalog) == [1]


@pytest.mark.requirement("daft.write")
def test_of_two_overwrites_of_one_table_as_both_have_read_it_the_second_is_refused(
    table: Table, daft_catalog: FrazilCatalog
) -> None:
    stale = daft_catalog.load_table(NAME)
    daft.from_arrow(rows(1)).write_iceberg(table, mode="overwrite")
    with pytest.raises(CommitConflict):
        daft.from_arrow(rows(2)).write_iceberg(stale, mode="overwrite")
    assert ids(daft_catalog) == [1]


@pytest.mark.requirement("daft.partitioning")
@pytest.mark.parametrize(
    ("source", "transform"),
    [
        (2, IdentityTransform()),
        (1, BucketTransform(4)),
        (2, TruncateTransform(1)),
        (3, TruncateTransform(50)),
        (4, YearTransform()),
        (4, MonthTransform()),
        (4, DayTransform()),
        (4, HourTransform()),
    ],
    ids=str,
)
def test_rows_that_daft_writes_lie_in_the_partitions_where_others_look(
    daft_catalog: FrazilCatalog, source: int, transform: Any
) -> None:
    result = []
    for name in ("daft.by_daft", "daft.by_pyiceberg"):
        created = daft_catalog.create_table(
            name, SCHEMA, partition_spec=PartitionSpec(PartitionField(source, 1000, transform, "part"))
        )
        if name == "daft.by_daft":
            daft.from_arrow(rows(*range(12))).write_iceberg(created, mode="append")
        else:
            created.append(rows(*range(12)))
        listed = daft_catalog.load_table(name).inspect.files().to_pylist()
        result.append(sorted((str(item["partition"]["part"]), item["record_count"]) for item in listed))
        daft_catalog.drop_table(name)
    assert result[0] == result[1]
    assert len(result[0]) > 1 or isinstance(transform, YearTransform)


# --- through the sink ------------------------------------------------------------------------------------------------


def load(frame: daft.DataFrame, catalog: FrazilCatalog, *, until: int, **options: Any) -> None:
    """A frame that stands for everything up to a position of its source; run again, it brings nothing in twice."""
    with frazil.sinks.open(NAME, name="from-daft", catalog=catalog, **options) as sink:
        if (sink.offset or 0) < until:
            sink.write(stream_frame(frame), position=until)


@pytest.mark.requirement("daft.write")
def test_a_frame_that_is_loaded_again_brings_no_row_twice(table: Table, daft_catalog: FrazilCatalog) -> None:
    frame = daft.from_arrow(rows(*range(12, 40))).where(col("n") < 350)
    for _ in range(2):
        load(frame, daft_catalog, until=40)
    assert ids(daft_catalog) == list(range(35))


def test_a_frame_that_fails_half_way_brings_no_row_in(table: Table, daft_catalog: FrazilCatalog) -> None:
    @daft.func
    def stumble(n: int) -> int:
        if n == 390:
            raise ArithmeticError("the thirty-ninth")
        return n

    frame = daft.from_arrow(rows(*range(12, 40))).into_batches(4).with_column("n", stumble(col("n")))
    with pytest.raises(Exception, match="thirty-ninth"):
        load(frame, daft_catalog, until=40)
    assert ids(daft_catalog) == list(range(12))
    load(daft.from_arrow(rows(*range(12, 40))), daft_catalog, until=40)
    assert ids(daft_catalog) == list(range(40))


def test_a_frame_is_computed_while_the_sink_takes_it_and_not_before(tmp_path: Path) -> None:
    result: list[int] = []
    gate = tmp_path / "the first batch is read"  # a file: Daft wants functions that can be pickled

    @daft.func
    def note(n: int) -> int:
        result.append(n)
        wait_until(lambda: n < 400 or gate.exists(), 60)
        return n

    frame = daft.from_pydict({"n": list(range(1000))}).into_batches(20).with_column("n", note(col("n")))
    reader = stream_frame(frame)
    assert reader.read_next_batch().num_rows == 20
    assert len(result) < 500
    gate.touch()
    assert sum(batch.num_rows for batch in reader) == 980


def test_a_frame_as_it_is_can_be_written_too(table: Table, daft_catalog: FrazilCatalog) -> None:
    with frazil.sinks.open(NAME, name="from-daft", catalog=daft_catalog) as sink:
        sink.write(daft.from_arrow(rows(12)), position=1)
    assert ids(daft_catalog) == list(range(13))


def test_rows_of_a_frame_that_fail_a_check_are_quarantined_in_the_same_commit(
    table: Table, daft_catalog: FrazilCatalog
) -> None:
    load(daft.from_arrow(rows(12, 13, 14)), daft_catalog, until=15, bad_rows="quarantine", checks=["n <> 130"])
    assert ids(daft_catalog) == [*range(13), 14]
    assert daft_catalog.load_table(f"{NAME}__quarantine").scan().to_arrow()["reason"].to_pylist() == [
        "check 'n <> 130' failed"
    ]


@pytest.mark.requirement("daft.upsert")
def test_a_frame_of_changes_updates_the_rows_that_match_and_inserts_the_others(
    table: Table, daft_catalog: FrazilCatalog
) -> None:
    changes = daft.from_arrow(rows(3, 50)).with_column("n", col("n") + 1)
    for _ in range(2):
        load(changes, daft_catalog, until=1, mode="upsert", key="id")
    assert ids(daft_catalog) == [*range(12), 50]
    result = daft_catalog.load_table(NAME).scan("id in (2, 3, 50)").to_arrow().sort_by("id")
    assert result["n"].to_pylist() == [20, 31, 501]


@pytest.mark.requirement("daft.read")
def test_a_scan_of_ours_is_a_daft_frame(table: Table, daft_catalog: FrazilCatalog) -> None:
    frame = frazil.Lake(catalog=daft_catalog).table(NAME).scan("country = 'SE'", ["id", "n"]).to_daft()
    assert frame.where(col("n") > 10).sort("id").to_pydict() == {"id": [5, 9], "n": [50, 90]}


# --- Session and Catalog ---------------------------------------------------------------------------------------------


@pytest.fixture
def session(daft_catalog: FrazilCatalog) -> Iterator[daft.Session]:
    """A session of Daft with our catalog as `lake`, and a namespace of its own."""
    result = daft.Session()
    result.attach_catalog(daft.Catalog.from_iceberg(daft_catalog), alias="lake")
    result.set_catalog("lake")
    result.create_namespace("shop")
    yield result
    for name in daft_catalog.list_tables("shop"):
        daft_catalog.drop_table(name)
    daft_catalog.drop_namespace("shop")


@pytest.mark.requirement("daft.session")
def test_a_session_creates_appends_overwrites_and_queries(session: daft.Session, daft_catalog: FrazilCatalog) -> None:
    orders = daft.from_pydict({"id": [1, 2, 3], "country": ["NO", "SE", "NO"]})
    session.create_table("shop.orders", orders)
    session.write_table("shop.orders", daft.from_pydict({"id": [4], "country": ["DK"]}), mode="append")
    asked = session.sql("SELECT country, count(*) AS n FROM shop.orders GROUP BY country ORDER BY country")
    assert asked.to_pydict() == {"country": ["DK", "NO", "SE"], "n": [1, 2, 1]}
    assert sorted(daft_catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    session.write_table("shop.orders", daft.from_pydict({"id": [9], "country": ["FI"]}), mode="overwrite")
    assert session.read_table("lake.shop.orders").to_pydict() == {"id": [9], "country": ["FI"]}
    assert (
        len(daft_catalog.load_table("shop.orders").snapshots()) == 4
    )  # an overwrite deletes and appends, in one commit


@pytest.mark.requirement("daft.session")
def test_a_catalog_lists_creates_and_drops(session: daft.Session, daft_catalog: FrazilCatalog) -> None:
    lake, schema = session.get_catalog("lake"), daft.from_pydict({"id": [1], "country": ["NO"]}).schema()
    lake.create_table("shop.empty", schema)
    lake.create_table_if_not_exists("shop.empty", schema)
    by_country = daft.io.partitioning.PartitionField.create(schema["country"])
    lake.create_table("shop.parts", schema, partition_fields=[by_country])
    assert [str(name) for name in lake.list_tables("shop")] == ["shop.empty", "shop.parts"]
    assert daft_catalog.load_table("shop.parts").spec().fields[0].name == "country"
    assert (lake.has_table("shop.empty"), lake.has_table("shop.nothing"), lake.has_namespace("shop")) == (
        True,
        False,
        True,
    )
    lake.get_table("shop.parts").append(daft.from_pydict({"id": [1], "country": ["NO"]}))
    session.use("lake.shop")
    assert session.sql("SELECT id FROM parts WHERE country = 'NO'").to_pydict() == {"id": [1]}
    lake.drop_table("shop.empty")
    assert not daft_catalog.table_exists("shop.empty")


@pytest.mark.requirement("daft.session")
def test_a_session_reads_what_a_lake_writes(session: daft.Session, daft_catalog: FrazilCatalog) -> None:
    session.create_table("shop.orders", daft.from_pydict({"id": [1]}))
    Lake(catalog=daft_catalog).table("shop.orders").upsert([{"id": 1}, {"id": 2}], key="id")
    assert sorted(session.sql("SELECT id FROM shop.orders").to_pydict()["id"]) == [1, 2]
    session.write_table("shop.orders", daft.from_pydict({"id": [3]}), mode="append")
    assert Lake(catalog=daft_catalog).table("shop.orders").count() == 3
