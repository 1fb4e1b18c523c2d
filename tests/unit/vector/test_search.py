"""Segments and searches in them: what is written is read again, what is damaged is noticed, and rows that are not live
are never answered with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil.errors import DataFileMissing, DataFileUnreadable, IndexDamaged
from frazil.vector.blocks import Blocks
from frazil.vector.codebook import Codebook
from frazil.vector.exact import score
from frazil.vector.live import LiveRows
from frazil.vector.metric import METRICS, Matrix, Metric, Numbers
from frazil.vector.search import Hits, Index, SearchReport
from frazil.vector.segment import Collector, CoveredFile, Segment, Shape, merge_lists, write_segment

DIMENSION, EACH = 20, 1500
NAMES = ("a.parquet", "b.parquet", "c.parquet")


def read_range(path: str, start: int, end: int) -> bytes:
    return Path(path).read_bytes()[start:end]


@dataclass
class Built:
    """Three files of vectors, in a codebook and two segments."""

    folder: Path
    metric: Metric
    vectors: Matrix
    codebook: Codebook
    paths: list[str]

    def segments(self) -> list[Segment]:
        return [Segment(PyArrowFileIO().new_input(path), dimension=len(self.codebook.rotation)) for path in self.paths]

    def index(self) -> Index:
        return Index(self.codebook, self.segments(), Blocks(read_range))

    def search(self, query: Matrix, live: LiveRows | None = None, *, k: int = 10, probes: int = 8) -> Hits:
        index = self.index()
        return index.nearest(query, k, live or all_of(index), probes=probes, report=SearchReport())

    def truth(self, query: Matrix, keep: Callable[[Numbers], Numbers] = lambda rows: rows, *, k: int = 10) -> list[int]:
        """The nearest rows of all files, numbered through."""
        rows = keep(np.arange(len(self.vectors)))
        (answer,) = score(self.vectors[rows], query[None], self.metric, k=k, source=0, positions=rows)
        return [int(row) for row in answer.positions]


def all_of(index: Index) -> LiveRows:
    return LiveRows(index.files, set(NAMES), {})


def rows_of(hits: Hits) -> list[int]:
    return [int(row) for row in hits.files * EACH + hits.positions]


@pytest.fixture(scope="module", params=METRICS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder, random = tmp_path_factory.mktemp("index"), np.random.default_rng(8)
    centres = random.standard_normal((60, DIMENSION))
    near = centres[random.integers(60, size=3 * EACH)] + 0.4 * random.standard_normal((3 * EACH, DIMENSION))
    vectors = near.astype(np.float32)
    codebook = Codebook.train(vectors[::2], 40, request.param, seed=1)
    paths = []
    for number, names in enumerate((NAMES[:2], NAMES[2:])):
        collector = Collector(codebook)
        for name in names:
            own = vectors[NAMES.index(name) * EACH :][:EACH]
            collector.add(collector.add_file(name, EACH), np.arange(EACH), own)
        paths.append(str(folder / f"{number}.puffin"))
        write(paths[-1], collector.files, collector.lists(), codebook)
    return Built(folder, request.param, vectors, codebook, paths)


def write(path: str, files: list[CoveredFile], lists: object, codebook: Codebook) -> None:
    shape = Shape(len(codebook.rotation))
    facts = {"field_id": 3, "codebook": codebook.fingerprint}
    write_segment(PyArrowFileIO().new_output(path), files, lists, shape, **facts)  # type: ignore[arg-type]


def queries(count: int = 40) -> Matrix:
    return np.random.default_rng(3).standard_normal((count, DIMENSION)).astype(np.float32)


# --- answers ---------------------------------------------------------------------------------------------------------


def test_nearly_all_of_the_nearest_rows_are_found_in_a_fifth_of_the_lists(built: Built) -> None:
    shares = [len({*rows_of(built.search(query))} & {*built.truth(query)}) / 10 for query in queries()]
    assert np.mean(shares) >= 0.9


def test_all_lists_give_the_exact_answer_up_to_the_rounding_of_bytes(built: Built) -> None:
    shares = [len({*rows_of(built.search(query, probes=40))} & {*built.truth(query)}) / 10 for query in queries()]
    assert np.mean(shares) >= 0.98


def test_distances_rise_and_are_those_of_the_rows(built: Built) -> None:
    query = queries(1)[0]
    hits = built.search(query)
    assert (np.diff(hits.distances) >= 0).all()
    own = built.vectors[rows_of(hits)]
    for number, distance in enumerate(hits.distances):
        (exact,) = score(own[number][None], query[None], built.metric, k=1, source=0, positions=np.zeros(1, np.int64))
        assert float(distance) == pytest.approx(exact.distances[0], abs=0.02 * max(1, abs(float(exact.distances[0]))))


def test_rows_that_are_not_live_are_never_answered_with(built: Built) -> None:
    some = np.arange(0, EACH, 7)
    live = LiveRows(built.index().files, {"a.parquet"}, {"c.parquet": some})
    allowed = {*range(EACH), *(2 * EACH + some).tolist()}
    for query in queries():
        hits = rows_of(built.search(query, live))
        assert len(hits) == 10
        assert {*hits} <= allowed


def test_nothing_is_read_of_a_segment_without_a_live_row(built: Built) -> None:
    read: list[str] = []

    def count(path: str, start: int, end: int) -> bytes:
        read.append(path)
        return read_range(path, start, end)

    index = Index(built.codebook, built.segments(), Blocks(count))
    for live in (LiveRows(index.files, {"c.parquet"}, {}), LiveRows(index.files, set(), {"c.parquet": np.arange(9)})):
        for answer in index.nearest_each(queries(4), 5, live, probes=8, report=SearchReport()):
            assert {*answer.files.tolist()} == {2}
            assert len(answer.files) == 5
    assert {*read} == {built.paths[1]}


def test_there_are_never_fewer_rows_than_asked_for_while_there_are_live_ones(built: Built) -> None:
    live = LiveRows(built.index().files, set(), {"b.parquet": np.array([5, 9, 700])})
    for query in queries(5):
        assert sorted(rows_of(built.search(query, live, k=2, probes=1))) in ([1505, 1509], [1505, 2200], [1509, 2200])
        assert sorted(rows_of(built.search(query, live, k=9, probes=1))) == [1505, 1509, 2200]


def test_a_search_of_nothing_finds_nothing(built: Built) -> None:
    assert rows_of(built.search(queries(1)[0], LiveRows(built.index().files, set(), {}))) == []


def test_more_rows_than_there_are_gives_all(built: Built) -> None:
    assert sorted(rows_of(built.search(queries(1)[0], k=9999))) == list(range(3 * EACH))


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_codebook_is_read_as_it_was_written(built: Built) -> None:
    path = str(built.folder / f"{built.metric}.codebook")
    built.codebook.write(PyArrowFileIO().new_output(path), field_id=3)
    again = Codebook.read(PyArrowFileIO().new_input(path))
    assert (again.dimension, again.metric) == (DIMENSION, built.metric)
    assert (again.centroids == built.codebook.centroids).all()
    assert (again.rotation == built.codebook.rotation).all()


def test_merged_segments_give_the_same_answers(built: Built) -> None:
    segments = built.segments()
    path = str(built.folder / "merged.puffin")
    write(path, [file for segment in segments for file in segment.files], merge_lists(segments), built.codebook)
    merged = Built(built.folder, built.metric, built.vectors, built.codebook, [path])
    for query in queries():
        before, after = built.search(query), merged.search(query)
        assert (rows_of(before), before.distances.tolist()) == (rows_of(after), after.distances.tolist())


def test_the_same_vectors_make_the_same_bytes(built: Built, tmp_path: Path) -> None:
    for name in ("one", "two"):
        collector = Collector(built.codebook)
        collector.add(collector.add_file("a.parquet", EACH), np.arange(EACH), built.vectors[:EACH])
        write(str(tmp_path / name), collector.files, collector.lists(), built.codebook)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_flipped_byte_of_a_segment_is_noticed(built: Built, tmp_path: Path) -> None:
    """A byte in each of the blobs and in the footer, and the end cut off: an error, never another answer."""
    source = Path(built.paths[1]).read_bytes()
    random, right = np.random.default_rng(4), [rows_of(built.search(query, probes=40)) for query in queries(3)]
    damaged = [source[: len(source) // 2], source[:-1], b""]
    for at in random.integers(len(source), size=20):
        damaged.append(source[:at] + bytes([source[at] ^ 0xFF]) + source[at + 1 :])
    for number, content in enumerate(damaged):
        path = tmp_path / f"{number}.puffin"
        path.write_bytes(content)
        broken = Built(built.folder, built.metric, built.vectors, built.codebook, [built.paths[0], str(path)])
        try:
            answers = [rows_of(broken.search(query, probes=40)) for query in queries(3)]
        except DataFileUnreadable:
            continue
        assert answers == right  # a byte that these searches do not read


def test_a_segment_that_is_gone_is_named(built: Built) -> None:
    with pytest.raises(DataFileMissing):
        Segment(PyArrowFileIO().new_input(str(built.folder / "none.puffin")), dimension=24)


def test_a_file_of_another_kind_is_no_segment(built: Built, tmp_path: Path) -> None:
    path = str(tmp_path / "codebook")
    built.codebook.write(PyArrowFileIO().new_output(path), field_id=3)
    with pytest.raises(IndexDamaged):
        Segment(PyArrowFileIO().new_input(path), dimension=24)
    with pytest.raises(IndexDamaged):
        Codebook.read(PyArrowFileIO().new_input(built.paths[0]))
