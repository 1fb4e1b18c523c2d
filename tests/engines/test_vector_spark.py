"""An index that Spark's tasks build is the index that one process builds, byte for byte."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField
from pyspark.sql import SparkSession

from frazil import Lake, upkeep
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings
from frazil.errors import VectorError
from frazil.upkeep import Keeper
from frazil.vector import Builder, Indexes, IndexRecord, SparkEngine
from frazil.vector.codes import Codes
from frazil.vector.segment import Rows, Segment, write_segment

# PySpark leaves the sockets of `collect` to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
TABLE, DIMENSION = "lake.words", 48
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "embedding", ListType(3, FloatType(), element_required=False))
)


@pytest.fixture(scope="module")
def catalog(config: Settings) -> FrazilCatalog:
    catalog = connect(config)
    catalog.create_namespace("lake")
    catalog.create_table(TABLE, SCHEMA)
    for start in (0, 700, 1400):
        append(catalog, start)
    return catalog


def append(catalog: FrazilCatalog, start: int) -> None:
    vectors = np.random.default_rng(start).standard_normal((700, DIMENSION)).astype(np.float32)
    rows = [{"id": start + number, "embedding": vector.tolist()} for number, vector in enumerate(vectors)]
    Lake(catalog=catalog).table(TABLE).append(rows)


def files(catalog: FrazilCatalog) -> dict[str, bytes]:
    folder = Path(catalog.load_table(TABLE).location().removeprefix("file://")) / "_index"
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.puffin"))}


@pytest.mark.requirement("flow.vector-build")
def test_spark_and_one_process_write_the_same_bytes(catalog: FrazilCatalog, spark: SparkSession) -> None:
    here = Indexes(catalog, TABLE, Builder(segment_rows=700))
    there = Indexes(catalog, TABLE, Builder(segment_rows=700, engine=SparkEngine(spark)))
    table = Lake(catalog=catalog).table(TABLE)
    created, first = here.create("embedding", metric="cosine"), table.history()[0].snapshot_id
    append(catalog, 2100)
    last = table.history()[0].snapshot_id
    refreshed, written = here.refresh("embedding"), files(catalog)
    here.drop(created.name)
    shutil.rmtree(Path(created.codebook.removeprefix("file://")).parents[1])
    table.rollback(first)
    assert there.create("embedding", metric="cosine").segments == created.segments
    table.rollback(last)
    assert there.refresh("embedding").segments == refreshed.segments
    assert files(catalog) == written


def test_a_build_on_spark_goes_on_with_the_segments_that_are_there(catalog: FrazilCatalog, spark: SparkSession) -> None:
    steps: list[tuple[str, int, int]] = []
    builder = Builder(lambda *step: steps.append(step), SparkEngine(spark), segment_rows=700)
    there = Indexes(catalog, TABLE, builder)
    created = there.create("embedding", metric="l2", name="again")
    assert ("segments", 4, 4) in steps
    there.drop("again")
    complete = {path: path.stat().st_mtime_ns for path in Path(created.codebook[7:]).parent.iterdir()}
    lost = Path(created.segments[0].path[7:])
    del complete[lost]
    lost.unlink()
    assert there.create("embedding", metric="l2", name="again").segments == created.segments
    assert {path: path.stat().st_mtime_ns for path in complete} == complete
    there.drop("again")


def flip_signs(catalog: FrazilCatalog, record: IndexRecord) -> None:
    """Codes that no vector has: they tell rows that keep their codes from rows that are encoded again."""
    io = catalog.load_table(TABLE).io
    for info in record.segments:
        segment = Segment(io.new_input(info.path), dimension=DIMENSION)
        lists = []
        for block, refined in segment.read_all():
            codes = Codes(~block.codes.signs, block.codes.factors)
            lists.append(Rows(replace(block, codes=codes), refined))
        io.delete(info.path)
        facts = {"field_id": record.field_id, "codebook": str(segment.codebook)}
        write_segment(io.new_output(info.path), segment.files, lists, segment.shape, **facts)


@pytest.mark.requirement("flow.vector-build")
def test_rows_keep_their_codes_on_spark_after_a_compaction(catalog: FrazilCatalog, spark: SparkSession) -> None:
    here = Indexes(catalog, TABLE, Builder(segment_rows=700))
    there = Indexes(catalog, TABLE, Builder(segment_rows=700, engine=SparkEngine(spark)))
    table = Lake(catalog=catalog).table(TABLE)
    created = here.create("embedding", metric="ip")
    flip_signs(catalog, created)
    table.maintain("compact", dry_run=False, rewrite_all=True)
    append(catalog, 2800)  # rows that are encoded, next to those that keep their codes
    before = files(catalog)
    refreshed, written = here.refresh(created.name), files(catalog)
    for path in written.keys() - before.keys():
        Path(path).unlink()
    catalog.replace_index(TABLE, created.name, created.to_json(), version=refreshed.version)
    assert there.refresh(created.name).segments == refreshed.segments
    assert files(catalog) == written


def test_maintenance_on_spark_builds_indexes_there(catalog: FrazilCatalog, spark: SparkSession) -> None:
    created = Indexes(catalog, TABLE).create("embedding", metric="l2", name="kept")
    append(catalog, 3500)
    keeper = Keeper(catalog, ("lake", "words"), upkeep.SparkEngine(spark))
    spark.sparkContext.setJobGroup("upkeep", "maintenance")
    report = keeper.perform(keeper.plan("indexes"))
    assert report.problems == ()
    assert spark.sparkContext.statusTracker().getJobIdsForGroup("upkeep")
    assert Indexes(catalog, TABLE).find("kept").vectors == created.vectors + 700
    Indexes(catalog, TABLE).drop("kept")


def test_an_error_of_a_task_says_what_is_wrong(catalog: FrazilCatalog, spark: SparkSession) -> None:
    data = Path(Lake(catalog=catalog).table(TABLE).load().inspect.data_files()["file_path"][0].as_py()[7:])
    hidden = data.rename(data.with_suffix(".hidden"))
    try:
        with pytest.raises(VectorError) as caught:
            Indexes(catalog, TABLE, Builder(engine=SparkEngine(spark))).create("embedding", metric="l2")
    finally:
        hidden.rename(data)
    assert (caught.value.problem, data.name in str(caught.value)) == ("spark", True)
    assert Indexes(catalog, TABLE, Builder(engine=SparkEngine(spark))).create("embedding", metric="l2").vectors
