"""`explain`: what a scan skips on each layer and by which term, and what other engines push down of the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.cli.context import Context
from frazil.cli.explain import explain
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError
from frazil.lake import LakeTable
from frazil.scan.engines.engine_plans import read_duckdb_plan, read_spark_plan

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "country", StringType()),
    NestedField(3, "amount", DoubleType()),
    NestedField(4, "day", DateType()),
)
BY_COUNTRY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country"))
FILTER = "country = 'NO' and id > 140 and amount >= 0.5"


def rows(start: int, country: str) -> pa.Table:
    result = [{"id": n, "country": country, "amount": n % 7 / 7, "day": None} for n in range(start, start + 50)]
    return pa.Table.from_pylist(result, schema=SCHEMA.as_arrow())


@pytest.fixture(scope="module")
def sales() -> Iterator[LakeTable]:
    """Four files, one a snapshot and a manifest: NO twice, SE, and NO again, of 50 ids each, in row groups of 10."""
    with running_catalog() as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        properties = {"write.parquet.row-group-limit": "10"}
        table = catalog.create_table("lake.sales", SCHEMA, partition_spec=BY_COUNTRY, properties=properties)
        for start, country in ((0, "NO"), (50, "NO"), (100, "SE"), (130, "NO")):
            table.append(rows(start, country))
        yield Lake(catalog=catalog).table("lake.sales")


@pytest.mark.requirement("daft.tree")
def test_every_layer_says_how_many_were_skipped_and_by_which_term(sales: LakeTable) -> None:
    report = sales.scan(FILTER).explain()
    layers = {layer["layer"]: (layer["total"], layer["skipped-by"]) for layer in report.to_json()["layers"]}
    assert layers == {
        "manifests by partition summaries": (4, {"country = 'NO'": 1}),
        "data files by partition": (3, {}),
        "data files by column bounds": (3, {"id > 140": 2}),
        "row groups": (5, {"id > 140": 1}),
    }
    groups = report.layer("row groups")
    assert 0 < groups.bytes_skipped < groups.bytes
    assert report.to_json()["manifest-lists"] == {"total": 4, "read": 1}
    assert "1 by country = 'NO'" in str(report)


def test_the_rows_agree_with_what_is_explained(sales: LakeTable) -> None:
    assert sorted(sales.scan(FILTER, ["id"]).to_arrow()["id"].to_pylist()) == [
        n for n in range(141, 180) if n % 7 / 7 >= 0.5
    ]


@pytest.mark.parametrize(("engine", "files"), [("duckdb", None), ("daft", 1)])
def test_an_engine_tells_what_it_pushes_down(sales: LakeTable, engine: str, files: int | None) -> None:
    result = sales.scan(FILTER, ["amount"]).explain(engine=engine).engine
    assert result is not None
    assert (len(result.pushed), result.kept, result.columns, result.files) == (3, (), ("amount",), files)
    assert {"country", "id", "amount"} == {
        name for name in ("country", "id", "amount") if any(name in item for item in result.pushed)
    }


def test_a_filter_that_an_engine_keeps_to_itself_is_distinguished() -> None:
    scan = {
        "name": "ICEBERG_SCAN",
        "children": [],
        "extra_info": {"Function": "ICEBERG_SCAN", "Projections": ["id", "c"], "Filters": "id>5"},
    }
    plan = [{"name": "FILTER", "children": [scan], "extra_info": {"Expression": "(contains(c, 'N') AND (id % 2) = 0)"}}]
    duckdb = read_duckdb_plan(json.dumps(plan))
    assert (duckdb.pushed, duckdb.kept, duckdb.columns) == (
        ("id>5",),
        ("contains(c, 'N')", "(id % 2) = 0"),
        ("id", "c"),
    )


def test_sparks_physical_plan_is_understood() -> None:
    plan = """*(1) Project [id#404L]
+- *(1) Filter (isnotnull(total#406L) AND (total#406L > 290))
   +- *(1) ColumnarToRow
      +- BatchScan lake.zoo.t[id#404L, total#406L] IcebergScan(table=lake.zoo.t, schemaId=3, branch=null, filters=c = 'N, O', \
total > 290, runtimeFilters=, groupedBy=) RuntimeFilters: []"""  # noqa: E501
    spark = read_spark_plan(plan)
    assert (spark.pushed, spark.columns) == (("c = 'N, O'", "total > 290"), ("id", "total"))
    assert spark.kept == ("isnotnull(total#406L)", "total#406L > 290")


def run(sales: LakeTable, *args: str) -> Any:
    context = Context()
    context.__dict__["catalog"] = sales.lake.catalog
    return CliRunner().invoke(explain, args, obj=context)


def test_the_command_shows_a_tree_and_gives_json(sales: LakeTable) -> None:
    tree = run(sales, "lake.sales", "--where", FILTER, "--engine", "duckdb", "--columns", "id, amount").output
    assert "row groups: 1 of 5 skipped" in tree
    assert "pushed down: 3 filters" in tree
    document = json.loads(
        run(sales, "lake.sales", "--where", "country = 'SE'", "--output", "json", "--no-row-groups").output
    )
    assert (document["kept"]["files"], [layer["skipped"] for layer in document["layers"]]) == (1, [3, 0, 0])


def test_the_command_names_what_is_wrong(sales: LakeTable) -> None:
    result = run(sales, "lake.sales", "--where", "land = 'NO'")
    assert isinstance(result.exception, FrazilError)
    assert "lake.sales has no column 'land'" in str(result.exception)
