"""Partition values of every type and edge value through the Iceberg target, read back by PyIceberg, DuckDB and our own
scan.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from duckdb_extensions import import_extension
from pyiceberg.expressions import BooleanExpression, EqualTo, IsNaN, IsNull

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.lake import Lake
from frazil.protocol import PROPERTY_MIN_INPUT_FILES
from frazil.upkeep.steps import Keeper
from frazil.write.commit.replace import Replace
from frazil.write.files.buffer import Buffer
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec
from frazil.write.files.schema import arrow_schema
from tests.kit.partition_values import CASES, PartitionCase, same_value

CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# A manifest holds values of these types whatever the transform is.
IDENTITY = pytest.mark.parametrize("case", [case for case in CASES if case.is_identity], ids=lambda case: case.name)
NAME = "lake.t"


@pytest.fixture(scope="module")
def duck(catalog: FrazilCatalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("duckdb")
    with duckdb.connect(config={"extension_directory": str(folder)}) as connection:
        for name in ("httpfs", "avro", "iceberg"):
            import_extension(name, con=connection)
            connection.execute(f"LOAD {name}")
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture
def make(catalog: FrazilCatalog) -> Iterator[Any]:
    def create(case: PartitionCase, **properties: str) -> None:
        spec = partition_spec(case.schema, [case.partition_by])
        catalog.create_table(NAME, case.schema, partition_spec=spec, properties=properties)

    yield create
    catalog.drop_table(NAME)


def write(catalog: FrazilCatalog, rows: pa.Table, *, commits: int = 1, name: str = "s", **options: Any) -> None:
    """Writes the rows in as many commits."""
    with frazil.sinks.open(NAME, name=name, catalog=catalog, **options) as sink:
        ends = [rows.num_rows * number // commits for number in range(commits + 1)]
        for start, end in pairwise(ends):
            sink.write(rows.slice(start, end - start), position=end)
            sink.commit()


def wrong_rows(table: pa.Table, expected: pa.Table) -> list[tuple[int, Any, Any]]:
    """The ids whose value differs, with both values; ids that are missing, too many or doubled raise."""
    ours, theirs = (_by_id(rows) for rows in (expected, table))
    assert [id for id, _ in theirs] == [id for id, _ in ours]
    return [
        (id, left, right) for (id, left), (_, right) in zip(ours, theirs, strict=True) if not same_value(left, right)
    ]


def _by_id(rows: pa.Table) -> list[tuple[int, Any]]:
    # DuckDB's are texts
    values = [str(value) if isinstance(value, uuid.UUID) else value for value in rows.column("v").to_pylist()]
    return sorted(zip(rows.column("id").to_pylist(), values, strict=True), key=lambda pair: pair[0])


def wrong_values(catalog: FrazilCatalog, duck: duckdb.DuckDBPyConnection, expected: pa.Table) -> dict[str, list[Any]]:
    table = catalog.load_table(NAME)
    values = {
        "pyiceberg": table.scan().to_arrow(),
        "duckdb": duck.sql(
            f"SELECT * FROM iceberg_scan('{table.metadata_location.removeprefix('file://')}')"
        ).to_arrow_table(),
        "frazil": Lake(catalog=catalog).table(NAME).scan().to_arrow(),
    }
    return {name: wrong_rows(rows, expected) for name, rows in values.items()}


@CASE
def test_every_value_reads_back_in_every_reader(
    case: PartitionCase, catalog: FrazilCatalog, duck: duckdb.DuckDBPyConnection, make: Any
) -> None:
    make(case)
    rows = case.arrow(arrow_schema(case.schema))
    write(catalog, rows)
    assert wrong_values(catalog, duck, rows) == {"pyiceberg": [], "duckdb": [], "frazil": []}


def ids_where(catalog: FrazilCatalog, value: Any) -> list[int]:
    """The rows that our own scan finds by a filter, after it has skipped files by their partition."""
    return sorted(Lake(catalog=catalog).table(NAME).scan(equals(value), ["id"]).to_arrow()["id"].to_pylist())


def equals(value: Any) -> BooleanExpression:
    if value is None:
        return IsNull("v")
    return IsNaN("v") if isinstance(value, float) and math.isnan(value) else EqualTo("v", value)


def sql_equal(left: Any, right: Any) -> bool:
    return same_value(left, right) or (left is not None and left == right)  # 0.0 = -0.0


@CASE
def test_a_filter_by_a_value_finds_its_rows(case: PartitionCase, catalog: FrazilCatalog, make: Any) -> None:
    make(case)
    write(catalog, case.arrow(arrow_schema(case.schema)))
    # PyIceberg takes infinity for a number that no 32-bit float can be.
    values = [value for value in case.values if not (case.name == "float" and value in (math.inf, -math.inf))]
    expected = {n: [row["id"] for row in case.rows() if sql_equal(row["v"], value)] for n, value in enumerate(values)}
    assert {n: ids_where(catalog, value) for n, value in enumerate(values)} == expected


@IDENTITY
def test_every_value_survives_merges_upkeep_upserts_and_replacement(
    case: PartitionCase, catalog: FrazilCatalog, duck: duckdb.DuckDBPyConnection, make: Any
) -> None:
    make(case, **{"commit.manifest.min-count-to-merge": "2", PROPERTY_MIN_INPUT_FILES: "2"})
    rows = case.arrow(arrow_schema(case.schema), copies=3)
    write(catalog, rows, commits=3)
    keeper = Keeper(catalog, ("lake", "t"))
    for step in ("compact", "manifests"):
        assert keeper.perform(keeper.plan(step)).problems == ()
    write(catalog, rows.slice(0, rows.num_rows // 2), mode="upsert", key="id", name="u")
    catalog.load_table(NAME).transaction().set_properties({"write.merge.mode": "merge-on-read"}).commit_transaction()
    write(catalog, rows.slice(rows.num_rows // 3, rows.num_rows // 3), mode="upsert", key="id", name="m")
    assert wrong_values(catalog, duck, rows) == {"pyiceberg": [], "duckdb": [], "frazil": []}
    layout = TableLayout.of(catalog.load_table(NAME))
    replacing = Buffer(layout)
    replacing.add(rows)
    change = Replace(("lake", "t"), replacing.flush())
    catalog.commit_changes([change.build(catalog.load_table(NAME), attempt=1, summary={}, properties={})])
    assert wrong_values(catalog, duck, rows) == {"pyiceberg": [], "duckdb": [], "frazil": []}
