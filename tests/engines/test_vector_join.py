"""Batch joins of vectors on Spark: each row of a frame gets the rows that a search gives for its vector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.lake import LakeTable
from tests.contract.test_catalog_search import DIMENSION, SCHEMA, vectors_from
from tests.engines.spark_sql import SparkProcess
from tests.kit.delete_files import delete_equal

HERE = "tests.engines.join_in_spark"
Rows = list[list[Any]]


class Stage:
    """A catalog on local files, and a Spark on it."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.flags = {"catalog.uri": uri, "spark.master": "local[2]", "stack.folder": str(folder)}
        self.lake = Lake(load_settings(flags=self.flags))
        self.spark = SparkProcess(self.flags, folder)

    def call(self, name: str, *arguments: Any) -> list[Any]:
        return self.spark.call(f"{HERE}:{name}", self.flags, *arguments)

    def table(self, name: str, count: int) -> LakeTable:
        self.lake.catalog.create_table(name, SCHEMA)
        table = self.lake.table(name)
        table.append(vectors_from(0, count))
        return table


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("join")
    with running_catalog(folder / "lake") as server:
        FrazilCatalog("lake", **server.properties).create_namespace("lake")
        stage = Stage(server.uri, folder)
        yield stage
        stage.spark.close()


@pytest.fixture(scope="module")
def points(stage: Stage) -> LakeTable:
    """Covered files, one that is not covered, and deletes of both kinds."""
    table = stage.table("lake.points", 600)
    table.create_tag("old")
    table.append(vectors_from(600, 300))
    table.indexes.create("embedding", metric="l2", lists=16)
    table.append(vectors_from(900, 100))
    delete_equal(stage.lake.catalog, "lake.points", "id", [5, 700])
    table.delete("id IN (11, 901)")
    return table


def asked(count: int) -> Rows:
    vectors = np.random.default_rng(3).standard_normal((count, DIMENSION)).astype(np.float32)
    return [[number, vector.tolist()] for number, vector in enumerate(vectors)]


def expected(table: LakeTable, rows: Rows, *, filter: str | None = None, at: str | None = None, **how: Any) -> Rows:
    scan = table.scan(filter, ["id"], at=at)
    nearest = scan.nearest("embedding", [vector for _, vector in rows], **how).to_arrow().to_pylist()
    result = [[rows[row["_query"]][0], row["id"], row["_distance"]] for row in nearest]
    return sorted(result, key=lambda row: (row[0], row[2], row[1]))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("array<float>", {"k": 3}),
        ("array<double>", {"k": 3, "metric": "cosine"}),
        ("array<float>", {"k": 2, "exact": True, "metric": "l2"}),
        ("array<float>", {"k": 4, "filter": "kind = 'red'", "at": "old"}),
        ("array<float>", {"k": 2000}),
    ],
)
def test_rows_get_what_a_search_gives(stage: Stage, points: LakeTable, kind: str, options: dict[str, Any]) -> None:
    rows = asked(200 if options["k"] < 100 else 3)
    columns, joined = stage.call("join", points.name, rows, kind, options)
    assert columns == ["number", "embedding", "id", "_distance"]
    assert joined == [pytest.approx(row) for row in expected(points, rows, **options)]


def test_rows_without_a_vector_are_left_out_and_bad_ones_fail(stage: Stage, points: LakeTable) -> None:
    rows: Rows = [*asked(3), [90, None]]
    _, joined = stage.call("join", points.name, rows, "array<float>", {"k": 1})
    assert [row[0] for row in joined] == [0, 1, 2]
    bad: Rows = [[91, [1.0]], [92, [float("inf")] * DIMENSION], [93, []], [94, [None] * DIMENSION]]
    with pytest.raises(RuntimeError, match="cannot be compared"):
        stage.call("join", points.name, [*rows, bad[0]], "array<float>", {"k": 1})
    _, joined = stage.call("join", points.name, [*rows, *bad], "array<float>", {"k": 1, "skip_bad": True})
    assert [row[0] for row in joined] == [0, 1, 2]


def test_a_damaged_index_changes_no_answer(stage: Stage) -> None:
    table, rows = stage.table("lake.damaged", 300), asked(20)
    record = table.indexes.create("embedding", metric="l2", lists=8)
    Path(record.segments[0].path.removeprefix("file://")).unlink()
    _, joined = stage.call("join", table.name, rows, "array<float>", {"k": 3, "metric": "l2"})
    assert joined == [pytest.approx(row) for row in expected(table, rows, k=3, metric="l2", exact=True)]


def test_a_join_reads_the_snapshot_of_its_start(stage: Stage) -> None:
    table = stage.table("lake.itself", 100)
    columns, joined = stage.call("join_itself", table.name)
    own = ["id", "kind", "embedding"]
    assert columns == [*own, *(f"near_{name}" for name in own), "_distance"]
    assert joined == [[number, number] for number in range(20)]
    assert table.count() == 0


def test_a_table_without_rows_has_nothing_to_join(stage: Stage) -> None:
    stage.lake.catalog.create_table("lake.empty", SCHEMA)
    assert stage.call("join", "lake.empty", asked(2), "array<float>", {})[1] == []


@pytest.mark.parametrize(
    ("kind", "options", "facts"),
    [
        ("array<float>", {"k": 0}, [None, "k", None]),
        ("array<float>", {"metric": "manhattan"}, [None, "metric", None]),
        ("array<float>", {"column": "kind"}, ["kind", None, None]),
        ("array<float>", {"column": "nothing", "vectors": "embedding"}, ["nothing", None, None]),
        ("array<float>", {"vectors": "nothing"}, ["nothing", None, None]),
        ("array<decimal(9,2)>", {}, ["embedding", None, None]),
        ("string", {}, ["embedding", None, None]),
        ("array<float>", {"columns": ["id", "embedding"]}, ["embedding", None, "column-twice"]),
    ],
)
def test_a_join_that_is_not_possible_is_refused_by_the_driver(
    stage: Stage, points: LakeTable, kind: str, options: dict[str, Any], facts: list[Any]
) -> None:
    assert stage.call("refusal", points.name, kind, options)[1:] == facts
