"""How many lists a search looks at: measured when the index is built, more for far ranks, kept with the codebook."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil.errors import IndexDamaged
from frazil.puffin import Blob, PuffinWriter
from frazil.vector.blocks import Blocks
from frazil.vector.build import count_lists
from frazil.vector.codebook import BLOB, Codebook
from frazil.vector.live import LiveRows
from frazil.vector.metric import METRICS, Matrix, Metric, Numbers, prepare
from frazil.vector.reach import Reach
from frazil.vector.search import Index, SearchReport
from frazil.vector.segment import Collector, Segment, Shape, write_segment

ROWS, DIMENSION = 12_000, 64


def read_range(path: str, start: int, end: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def vectors(count: int, *, seed: int) -> Matrix:
    """Vectors without clusters, where lists help least, in a space of fewer dimensions than they have."""
    inside = np.random.default_rng(seed).standard_normal((count, 12))
    return (inside @ np.random.default_rng(0).standard_normal((12, DIMENSION))).astype(np.float32)


def far(queries: Matrix, rows: Matrix, metric: Metric) -> Matrix:
    asked, there = prepare(queries, metric), prepare(rows, metric)
    products: Matrix = asked @ there.T
    return -products if metric != "l2" else np.square(there).sum(axis=1) - 2 * products


@pytest.fixture(scope="module", params=METRICS)
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Index:
    metric: Metric = request.param
    rows = vectors(ROWS, seed=1)
    codebook = Codebook.train(rows[::2], 150, metric, seed=1, rows=ROWS)
    collector = Collector(codebook)
    collector.add(collector.add_file("a.parquet", ROWS), np.arange(ROWS), rows)
    path, io = str(tmp_path_factory.mktemp("index") / "segment"), PyArrowFileIO()
    output, own = io.new_output(path), codebook.fingerprint
    write_segment(output, collector.files, collector.lists(), Shape(DIMENSION), field_id=3, codebook=own)
    return Index(codebook, [Segment(io.new_input(path), dimension=DIMENSION)], Blocks(read_range))


@pytest.mark.parametrize(("share", "k"), [(1, 10), (10, 10), (100, 10), (1, 200)])
def test_the_usual_number_of_lists_finds_95_of_100_with_and_without_a_filter(index: Index, share: int, k: int) -> None:
    """Also for more rows than usual. The queries were not in the sample."""
    kept, queries = np.arange(0, ROWS, share), vectors(60, seed=2)
    live = LiveRows(index.files, set(), {"a.parquet": kept})
    right = kept[np.argsort(far(queries, vectors(ROWS, seed=1)[kept], index.codebook.metric), axis=1)[:, :k]]
    report, probes = SearchReport(), index.codebook.probes_for(10)
    hits = index.nearest_each(queries, k, live, probes=probes, report=report)
    assert [len(answer.positions) for answer in hits] == [min(k, len(kept))] * 60
    assert (
        np.mean([len({*answer.positions} & {*own}) / len(own) for answer, own in zip(hits, right, strict=True)]) >= 0.95
    )
    assert report.lists < 60 * index.codebook.lists or share == 100
    assert (report.lists > 60 * probes) == (share > 1 or k > 10)


def test_one_by_one_and_together_give_the_same(index: Index) -> None:
    live = LiveRows(index.files, {"a.parquet"}, {})
    queries = vectors(20, seed=3)

    def places(vectors: Matrix) -> list[Numbers]:
        return [
            hits.positions.tolist() for hits in index.nearest_each(vectors, 5, live, probes=150, report=SearchReport())
        ]

    assert places(queries) == [places(query[None])[0] for query in queries]


def test_a_limit_of_memory_changes_no_answer(index: Index) -> None:
    live, queries = LiveRows(index.files, {"a.parquet"}, {}), vectors(20, seed=3)
    small = Index(index.codebook, index._segments, Blocks(read_range, max_bytes=50_000))
    reports = SearchReport(), SearchReport()
    for query in (*queries, *queries):
        answers = [
            each.nearest(query, 5, live, probes=20, report=report).positions.tolist()
            for each, report in zip((index, small), reports, strict=True)
        ]
        assert answers[0] == answers[1]
    assert reports[1].fetched.size > reports[0].fetched.size
    assert sum(held.size for held in small._blocks._held.values()) <= 50_000


def test_a_codebook_keeps_its_reach(index: Index, tmp_path: Path) -> None:
    path = str(tmp_path / "codebook")
    index.codebook.write(PyArrowFileIO().new_output(path), field_id=3)
    again = Codebook.read(PyArrowFileIO().new_input(path))
    assert again.reach == index.codebook.reach is not None


@pytest.mark.parametrize("reach", [None, "[]", "[[10], [0]]", "[[10, 5], [1, 2]]", "[[10], [1, 2]]", "7", "{"])
def test_a_codebook_of_an_older_version_has_none_and_a_damaged_one_is_noticed(
    index: Index, tmp_path: Path, reach: str | None
) -> None:
    path, book = str(tmp_path / "codebook"), index.codebook
    properties = {"dimension": str(DIMENSION), "metric": book.metric, "lists": str(book.lists)}
    properties |= {} if reach is None else {"reach": reach}
    payload = book.rotation.tobytes() + book.centroids.tobytes()
    with PuffinWriter(PyArrowFileIO().new_output(path)) as writer:
        writer.add(Blob(BLOB, (3,), payload, properties), snapshot_id=-1, sequence_number=-1)
    if reach is None:
        old = Codebook.read(PyArrowFileIO().new_input(path))
        assert (old.reach, old.probes_for(10), old.probes_for(1e9)) == (None, 16, 16)
        return
    with pytest.raises(IndexDamaged):
        Codebook.read(PyArrowFileIO().new_input(path))


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_table_of_few_rows_has_a_reach(rows: int) -> None:
    assert Codebook.train(vectors(rows, seed=1), 16, "l2", seed=1).probes_for(10) >= 1


def test_a_far_rank_never_asks_for_more_lists_than_there_are(index: Index) -> None:
    assert index.codebook.probes_for(1e12) == index.codebook.lists
    assert Reach((10, 100), (5, 5)).lists_for(1e12) == 5


@pytest.mark.parametrize("offset", [0, 30])
def test_products_with_vectors_of_all_lengths_find_the_nearest(offset: float, tmp_path: Path) -> None:
    random, count = np.random.default_rng(2), 3000
    lengths = 10 ** random.uniform(-1, 1, (count, 1)) if not offset else 1
    rows = (random.standard_normal((count, 32)) * lengths + offset).astype(np.float32)
    codebook = Codebook.train(rows, count_lists(count), "ip", seed=1)
    collector = Collector(codebook)
    collector.add(collector.add_file("a.parquet", count), np.arange(count), rows)
    path, io, own = str(tmp_path / "segment"), PyArrowFileIO(), codebook.fingerprint
    write_segment(io.new_output(path), collector.files, collector.lists(), Shape(32), field_id=3, codebook=own)
    index = Index(codebook, [Segment(io.new_input(path), dimension=32)], Blocks(read_range))
    live, inside = LiveRows(index.files, {"a.parquet"}, {}), 0
    asked = [*rows[::100], *(random.standard_normal((30, 32)) + offset).astype(np.float32)]
    for query in asked:
        hits = index.nearest(query, 10, live, probes=codebook.probes_for(10), report=SearchReport())
        inside += len({*hits.positions.tolist()} & {*np.argsort(-(rows.astype(np.float64) @ query))[:10].tolist()})
    assert inside >= 0.95 * 10 * len(asked)
