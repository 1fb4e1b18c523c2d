"""The nearest rows of a scan, exactly and with an index: always those of the scanned snapshot, whatever was appended,
deleted, compacted or rolled back since the index was built.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, LongType, NestedField, StringType

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.errors import VectorError
from frazil.lake import LakeTable
from frazil.vector import Nearest, Search
from frazil.vector.blocks import Blocks
from frazil.vector.build import BuildPlan, collect_segment, order_tasks, train_codebook
from frazil.vector.decoded import DecodedFiles
from frazil.vector.engines import Column, LocalEngine
from frazil.vector.metric import METRICS, Matrix, Metric
from frazil.vector.search import Index
from frazil.vector.segment import Segment, Shape, write_segment
from tests.conftest import Campaign
from tests.kit.delete_files import delete_equal
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "kind", StringType()),
    NestedField(3, "embedding", ListType(4, FloatType(), element_required=False)),
)
DIMENSION, KINDS = 24, ("red", "green", "blue")


@dataclass
class Vectors:
    """A table of vectors, and what it must hold at each snapshot."""

    catalog: FrazilCatalog
    folder: Path
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    name: str = field(default_factory=lambda: f"lake.v{uuid.uuid4().hex[:8]}")
    rows: dict[int, tuple[str, Matrix]] = field(default_factory=dict)
    past: dict[int, dict[int, tuple[str, Matrix]]] = field(default_factory=dict)
    decoded: DecodedFiles = field(default_factory=DecodedFiles)

    def __post_init__(self) -> None:
        self.catalog.create_table(self.name, SCHEMA)
        self._next = 0

    @property
    def table(self) -> LakeTable:
        return Lake(catalog=self.catalog).table(self.name)

    def head(self) -> int:
        snapshot = self.table.load().current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def remember(self) -> None:
        self.past[self.head()] = dict(self.rows)

    # --- writes ------------------------------------------------------------------------------------------------------

    def append(self, count: int = 40) -> None:
        numbers = np.random.default_rng(self.chance.randrange(1 << 30))
        new = {self._next + number: (self.chance.choice(KINDS), self.vector(numbers)) for number in range(count)}
        self._next += count
        self.table.append(
            [{"id": key, "kind": kind, "embedding": vector.tolist()} for key, (kind, vector) in new.items()]
        )
        self.rows |= new
        self.remember()

    def vector(self, numbers: np.random.Generator) -> Matrix:
        return numbers.standard_normal(DIMENSION).astype(np.float32)

    def delete_in_place(self) -> None:
        """Copy-on-write: files are written again without the rows."""
        gone = self.chance.sample(sorted(self.rows), min(5, len(self.rows)))
        self.table.delete(f"id IN ({', '.join(map(str, gone))})")
        self._forget(gone)

    def delete_by_value(self) -> None:
        """Equality deletes, as Flink writes them."""
        gone = self.chance.sample(sorted(self.rows), min(5, len(self.rows)))
        delete_equal(self.catalog, self.name, "id", gone)
        self._forget(gone)

    def _forget(self, gone: list[int]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key not in gone}
        self.remember()

    def compact(self) -> None:
        self.table.maintain("compact", "deletes", dry_run=False, rewrite_all=True)
        self.remember()

    def go_back(self) -> None:
        target = self.chance.choice([snapshot_id for snapshot_id in self.past if snapshot_id != self.head()])
        self.table.rollback(target)
        self.rows = dict(self.past[target])
        self.remember()

    # --- the index ---------------------------------------------------------------------------------------------------

    def build(self, metric: Metric = "cosine") -> Index:
        """An index of all files of the newest snapshot."""
        scan = self.table.scan(columns=["embedding"])
        tasks, reader = order_tasks(scan.plan().tasks()), scan.reader(scan.planner())
        plan = BuildPlan.of(tasks, metric, seed=7, lists=16)
        sample = LocalEngine().sample(Column.of(scan), tasks, plan.sample)
        codebook = train_codebook(plan, sample, table=self.name)
        segments = []
        for group in plan.segments:
            collector = collect_segment(codebook, [tasks[number] for number in group], reader)
            path, shape = str(self.folder / f"{uuid.uuid4()}.puffin"), Shape(len(codebook.rotation))
            output, facts = PyArrowFileIO().new_output(path), {"field_id": 3, "codebook": codebook.fingerprint}
            write_segment(output, collector.files, collector.lists(), shape, **facts)
            segments.append(Segment(PyArrowFileIO().new_input(path), dimension=shape.dimension))
        return Index(codebook, segments, Blocks(lambda path, start, end: Path(path).read_bytes()[start:end]))


def truth(
    rows: dict[int, tuple[str, Matrix]], query: Matrix, k: int, metric: Metric, kind: str | None = None
) -> list[int]:
    """The ids of the nearest rows."""
    chosen = {key: vector for key, (own, vector) in rows.items() if kind in (None, own)}
    return sorted(chosen, key=lambda key: distance(chosen[key], query, metric))[:k]


def distance(vector: Matrix, query: Matrix, metric: Metric) -> float:
    wide, asked = vector.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        return float(np.sqrt(np.square(wide - asked).sum()))
    product = float(wide @ asked)
    return -product if metric == "ip" else 1 - product / float(np.linalg.norm(wide) * np.linalg.norm(asked))


def queries(count: int, *, seed: int = 2) -> Matrix:
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)


@pytest.fixture
def vectors(catalog: FrazilCatalog, tmp_path: Path) -> Vectors:
    world = Vectors(catalog, tmp_path)
    world.append(60)
    world.append(40)
    return world


# --- exact search ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_the_nearest_rows_come_first_with_their_distances(vectors: Vectors, metric: Metric) -> None:
    query = queries(1)[0]
    nearest = vectors.table.scan().nearest("embedding", query, k=7, metric=metric).to_arrow()
    assert nearest.column_names == ["id", "kind", "embedding", "_distance"]
    assert nearest["id"].to_pylist() == truth(vectors.rows, query, 7, metric)
    expected = [distance(vectors.rows[key][1], query, metric) for key in nearest["id"].to_pylist()]
    assert nearest["_distance"].to_pylist() == pytest.approx(expected, abs=1e-5)


def test_several_vectors_are_answered_in_their_order(vectors: Vectors) -> None:
    asked = queries(5)
    nearest = vectors.table.scan(columns=["id"]).nearest("embedding", asked, k=3).to_arrow()
    assert nearest.column_names == ["id", "_distance", "_query"]
    assert nearest["_query"].to_pylist() == [number for number in range(5) for _ in range(3)]
    assert nearest["id"].to_pylist() == [key for query in asked for key in truth(vectors.rows, query, 3, "cosine")]


def test_a_filter_and_a_time_hold_for_the_search(vectors: Vectors) -> None:
    query, before, rows = queries(1)[0], vectors.head(), dict(vectors.rows)
    vectors.append(50)
    old = vectors.table.scan("kind = 'red'", columns=["id"], at=before).nearest("embedding", query, k=5).to_arrow()
    new = vectors.table.scan("kind = 'red'", columns=["id"]).nearest("embedding", query, k=5).to_arrow()
    assert old["id"].to_pylist() == truth(rows, query, 5, "cosine", "red")
    assert new["id"].to_pylist() == truth(vectors.rows, query, 5, "cosine", "red")
    again = vectors.table.scan("kind = 'red'", columns=["id"]).nearest("embedding", query, k=5, at=before).to_arrow()
    assert again == old


def test_a_search_never_gives_more_than_there_is(vectors: Vectors) -> None:
    query = queries(1)[0]
    everything = vectors.table.scan(columns=["id"]).nearest("embedding", query, k=1000).to_arrow()
    assert everything["id"].to_pylist() == truth(vectors.rows, query, 1000, "cosine")
    nothing = vectors.table.scan("id < 0").nearest("embedding", query).to_arrow()
    assert (nothing.num_rows, nothing.column_names) == (0, ["id", "kind", "embedding", "_distance"])


def test_doubles_that_no_float_holds_are_left_out(catalog: FrazilCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "embedding", ListType(3, DoubleType(), element_required=False))
    )
    catalog.create_table(name := f"lake.v{uuid.uuid4().hex[:8]}", schema)
    table = Lake(catalog=catalog).table(name)
    table.append([{"id": number, "embedding": [value, 1.0]} for number, value in enumerate([0.5, 1e300, -1e30])])
    assert table.scan(columns="id").nearest("embedding", [1.0, 1.0]).to_arrow()["id"].to_pylist() == [0]


@pytest.mark.parametrize("name", ["_distance", "_query", "_pos"])
def test_a_column_with_the_name_of_one_that_a_search_adds_is_refused(catalog: FrazilCatalog, name: str) -> None:
    schema = Schema(*SCHEMA.fields, NestedField(9, name, StringType()))
    catalog.create_table(table_name := f"lake.v{uuid.uuid4().hex[:8]}", schema)
    table = Lake(catalog=catalog).table(table_name)
    table.append([{"id": 1, "kind": None, "embedding": [1.0, 0.0], name: "mine"}])
    with raises(VectorError, column=name, problem="column-twice"):
        table.scan().nearest("embedding", [1.0, 0.0])
    nearest = table.scan(columns="id").nearest("embedding", [1.0, 0.0])
    assert nearest.to_arrow().to_pylist() == [{"id": 1, "_distance": 0.0}]


def test_a_search_without_columns_gives_distances(vectors: Vectors) -> None:
    nearest = vectors.table.scan().nearest("embedding", queries(1)[0], k=3)
    alone = nearest.select(["_distance"])
    assert alone.schema == alone.to_arrow().schema
    assert alone.to_arrow().to_pydict() == {"_distance": nearest.to_arrow()["_distance"].to_pylist()}


def test_rows_without_a_distance_are_left_out(vectors: Vectors) -> None:
    odd: list[Any] = [None, [], [1.0], [0.0] * DIMENSION, [float("nan")] * DIMENSION, [None, *[1.0] * (DIMENSION - 1)]]
    vectors.table.append([{"id": 1000 + number, "kind": "odd", "embedding": value} for number, value in enumerate(odd)])
    query = queries(1)[0]
    nearest = vectors.table.scan(columns=["id"]).nearest("embedding", query, k=1000).to_arrow()
    assert nearest["id"].to_pylist() == truth(vectors.rows, query, 1000, "cosine")
    assert len(vectors.table.scan(columns=["id"]).nearest("embedding", query, k=1000, metric="l2").to_arrow()) == 101


@pytest.mark.parametrize(
    ("column", "asked", "options"),
    [
        ("nothing", [0.0] * DIMENSION, {}),
        ("kind", [0.0] * DIMENSION, {}),
        ("embedding", [1.0], {}),
        ("embedding", "text", {}),
        ("embedding", [0.0] * DIMENSION, {}),
        ("embedding", [1e300] * DIMENSION, {}),
        ("embedding", [10**400] * DIMENSION, {}),
        ("embedding", [1e30] * DIMENSION, {}),
        ("embedding", [None] * DIMENSION, {}),
        ("embedding", None, {}),
        ("embedding", [[[1.0] * DIMENSION]], {}),
        ("embedding", [1.0] * DIMENSION, {"k": 0}),
        ("embedding", [1.0] * DIMENSION, {"k": True}),
        ("embedding", [1.0] * DIMENSION, {"k": 10_001}),
        ("embedding", [1.0] * DIMENSION, {"k": 1.5}),
        ("embedding", [1.0] * DIMENSION, {"metric": "manhattan"}),
    ],
)
def test_what_cannot_be_searched_is_refused(vectors: Vectors, column: str, asked: Any, options: dict[str, Any]) -> None:
    with pytest.raises(VectorError) as caught:
        vectors.table.scan().nearest(column, asked, **options)
    assert caught.value.table == vectors.name


def test_a_scan_with_a_limit_is_not_searched(vectors: Vectors) -> None:
    with raises(VectorError, option="limit", table=vectors.name):
        vectors.table.scan(limit=2).nearest("embedding", queries(1)[0])


def test_what_came_between_two_snapshots_is_not_searched(vectors: Vectors) -> None:
    with pytest.raises(VectorError):
        vectors.table.appends(None).nearest("embedding", queries(1)[0])


# --- with an index ---------------------------------------------------------------------------------------------------


def search(vectors: Vectors, index: Index, asked: Matrix, *, at: int | None = None, kind: str | None = None) -> Nearest:
    scan = vectors.table.scan(f"kind = '{kind}'" if kind else None, columns=["id"], at=at)
    metric, decoded = index.codebook.metric, vectors.decoded
    options = Search.of(scan, "embedding", asked, k=5, metric=metric, dimension=DIMENSION, decoded=decoded)
    return Nearest(options, index, probes=16)


def check(vectors: Vectors, index: Index, at: int, kind: str | None = None) -> tuple[int, int]:
    """How many of the rows that it must give a search gives; it never gives one that is not there."""
    rows, right, asked = vectors.past[at], 0, queries(4, seed=vectors.chance.randrange(99))
    nearest = search(vectors, index, asked, at=at, kind=kind).to_arrow()
    for number, query in enumerate(asked):
        ids = [row["id"] for row in nearest.to_pylist() if row["_query"] == number]
        expected = truth(rows, query, 5, index.codebook.metric, kind)
        assert len(ids) == len(set(ids)) == len(expected)
        assert {*ids} <= {key for key, row in rows.items() if kind in (None, row[0])}
        right += len({*ids} & {*expected})
    return right, sum(min(5, sum(kind in (None, row[0]) for row in rows.values())) for _ in asked)


@pytest.mark.parametrize("metric", METRICS)
def test_with_an_index_the_answer_fits_every_snapshot(vectors: Vectors, metric: Metric, campaign: Campaign) -> None:
    """Appends, both kinds of deletes, compaction and rollback in a random order, searched at random snapshots."""
    vectors.chance = campaign.random()
    index, right, total = vectors.build(metric), 0, 0
    steps = [vectors.append, vectors.delete_in_place, vectors.delete_by_value, vectors.compact, vectors.go_back]
    for _ in range(campaign.size(short=8, full=150)):
        vectors.chance.choice(steps)()
        if vectors.chance.random() < 0.2:
            index = vectors.build(metric)
        for at in (vectors.head(), vectors.chance.choice(list(vectors.past))):
            counts = check(vectors, index, at, vectors.chance.choice([None, *KINDS]))
            right, total = right + counts[0], total + counts[1]
    assert right >= 0.95 * total


def test_a_report_says_what_came_from_the_index(vectors: Vectors) -> None:
    index = vectors.build()
    vectors.append(30)
    report = search(vectors, index, queries(1)[0]).explain()
    assert (report.files_indexed, report.files_exact, report.rows_exact, report.problem) == (2, 1, 30, None)
    assert report.index.rows_scored == 100
    assert report.index.fetched.size > 0


def test_a_damaged_segment_is_reported_and_the_answer_is_exact(
    vectors: Vectors, caplog: pytest.LogCaptureFixture
) -> None:
    index = vectors.build()
    (path,) = vectors.folder.glob("*.puffin")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    asked = queries(1)[0]
    nearest = search(vectors, index, asked)
    assert nearest.to_arrow()["id"].to_pylist() == truth(vectors.rows, asked, 5, "cosine")
    assert "checksum" in (nearest.explain().problem or "")
    assert "is not used" in caplog.text
