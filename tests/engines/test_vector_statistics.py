"""Other engines write statistics of a table that has a vector index, on SeaweedFS: the index survives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.lake import LakeTable
from frazil.vector.metric import Matrix
from tests.engines.walkers import Sql, Walker

pytestmark = pytest.mark.usefixtures("live_stack")
TABLE, DIMENSION = "vectors.words", 24
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "embedding", ListType(3, FloatType(), element_required=False))
)


def some_vectors(start: int) -> Matrix:
    return np.random.default_rng(start).standard_normal((200, DIMENSION)).astype(np.float32)


def append(table: LakeTable, start: int) -> None:
    rows = [{"id": start + number, "embedding": row.tolist()} for number, row in enumerate(some_vectors(start))]
    table.append(rows)


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


@pytest.mark.requirement("flow.vector")
def test_the_index_survives_the_statistics_of_spark_and_trino(
    words: LakeTable, stack_catalog: FrazilCatalog, engines: dict[str, Walker]
) -> None:
    spark, trino = engines["spark"], engines["trino"]
    assert isinstance(spark, Sql)
    assert isinstance(trino, Sql)
    record = words.indexes.create("embedding")
    check(words, indexed=2)
    trino.sql(f"ANALYZE {trino.catalog_name}.{TABLE}")  # writes a file of its own, with the blobs that it does not know
    check(words, indexed=2)
    stack_catalog.drop_index(TABLE, record.name)
    check(words, indexed=2)
    assert words.indexes.refresh("embedding").version == 1  # the catalog has the record again
    spark.sql(f"CALL {spark.catalog_name}.system.compute_table_stats(table => '{TABLE}', columns => array('id'))")
    check(words, indexed=2)  # the copy is gone: Spark copies nothing
    append(words, 400)
    words.indexes.refresh("embedding")
    stack_catalog.drop_index(TABLE, record.name)
    check(words, indexed=3)
