"""Other engines write statistics of a table that has a vector index and remove orphans, on SeaweedFS: the index
survives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField, StringType

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.lake import LakeTable
from frazil.puffin import read_blobs
from frazil.vector.metric import Matrix
from frazil.vector.portable import ROOT
from tests.engines.walkers import Spark, Sql, Walker

pytestmark = pytest.mark.usefixtures("live_stack")
TABLE, DIMENSION = "vectors.words", 24
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "embedding", ListType(3, FloatType(), element_required=False)),
    NestedField(4, "name", StringType()),
)


def some_vectors(start: int) -> Matrix:
    return np.random.default_rng(start).standard_normal((200, DIMENSION)).astype(np.float32)


def append(table: LakeTable, start: int) -> None:
    vectors = enumerate(some_vectors(start))
    table.append([{"id": start + at, "embedding": row.tolist(), "name": f"row {at}"} for at, row in vectors])


@pytest.fixture
def words(stack_catalog: FrazilCatalog) -> Iterator[LakeTable]:
    stack_catalog.create_namespace("vectors")
    stack_catalog.create_table(TABLE, SCHEMA)
    table = Lake(catalog=stack_catalog).table(TABLE)
    append(table, 0)
    append(table, 200)
    yield table
    stack_catalog.purge_table(TABLE)
    stack_catalog.drop_namespace("vectors")


def check(table: LakeTable, *, indexed: int) -> None:
    nearest = table.scan(columns=["id"]).nearest("embedding", some_vectors(200)[::50], k=1)
    assert nearest.to_arrow()["id"].to_pylist() == [200, 250, 300, 350]
    assert nearest.explain().files_indexed == indexed


def blobs(table: LakeTable) -> list[tuple[str, bytes]]:
    loaded = table.load()
    return [
        (info.type, payload)
        for file in loaded.metadata.statistics
        for info, payload in read_blobs(loaded, snapshot_id=file.snapshot_id)
    ]


@pytest.mark.requirement("flow.vector")
def test_the_index_survives_the_statistics_of_spark_and_trino(
    words: LakeTable, stack_catalog: FrazilCatalog, engines: dict[str, Walker]
) -> None:
    spark, trino = engines["spark"], engines["trino"]
    assert isinstance(spark, Sql)
    assert isinstance(trino, Sql)
    name = words.indexes.create("embedding").name
    check(words, indexed=2)
    for statement, kept in (
        (lambda: trino.sql(f"ANALYZE {trino.catalog_name}.{TABLE}"), False),
        # The sketch of `name` is kept, and with it every other blob: Trino names ours in the table's metadata.
        (lambda: trino.sql(f"ANALYZE {trino.catalog_name}.{TABLE} WITH (columns = ARRAY['id'])"), True),
        (lambda: spark.sql(f"CALL {spark.catalog_name}.system.compute_table_stats(table => '{TABLE}')"), False),
    ):
        statement()  # the file of statistics is another one now
        assert (ROOT in {info.type for info, _ in read_blobs(words.load())}) == kept
        check(words, indexed=2)  # by the catalog's record
        stack_catalog.drop_index(TABLE, name)
        check(words, indexed=2)  # by the copy that the snapshot before has
        assert words.indexes.refresh("embedding").version == 1  # writes what is gone of the copy and the record again
    trino.sql(f"INSERT INTO {trino.catalog_name}.{TABLE} VALUES (400, ARRAY[{', '.join(['1.5'] * DIMENSION)}], 'x')")
    stack_catalog.drop_index(TABLE, name)
    check(words, indexed=2)  # by the copies of older snapshots
    words.indexes.refresh("embedding")
    check(words, indexed=3)
    assert {kind for kind, _ in blobs(words)} > {ROOT}  # next to those of the engines
    plain = load_catalog("plain", type="rest", uri=stack_catalog.properties["uri"])
    assert plain.load_table(TABLE).metadata.table_uuid == words.load().metadata.table_uuid


@pytest.mark.requirement("flow.vector")
def test_the_removal_of_orphans_by_spark_and_trino_leaves_the_index(
    words: LakeTable, engines: dict[str, Walker]
) -> None:
    """Spark skips folders whose names begin with `_`; Trino looks into `data` and `metadata` alone."""
    spark, trino = engines["spark"], engines["trino"]
    assert isinstance(spark, Spark)
    assert isinstance(trino, Sql)
    words.indexes.create("embedding")
    later = int(time.time() * 1000) + 86_400_000
    trino.sql(f"SET SESSION {trino.catalog_name}.remove_orphan_files_min_retention = '0s'")
    for remove in (
        lambda: spark.process.call("tests.engines.zoo_java:remove_orphans", f"{spark.catalog_name}.{TABLE}", later),
        lambda: trino.sql(
            f"ALTER TABLE {trino.catalog_name}.{TABLE} EXECUTE remove_orphan_files(retention_threshold => '0s')"
        ),
    ):
        table = words.load()
        orphan = table.io.new_output(f"{table.location()}/data/orphan.parquet")
        with orphan.create() as stream:
            stream.write(b"no table leads here")
        remove()
        assert not orphan.exists()
        assert words.indexes.check("embedding").problems == ()
        check(words, indexed=2)
