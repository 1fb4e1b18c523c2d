"""Codebooks: the code of a vector depends on the vector alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from frazil.vector.codebook import Codebook
from frazil.vector.codes import Codes, Refined, as_words
from frazil.vector.kmeans import assign_surely
from frazil.vector.metric import METRICS, Matrix, Metric, prepare
from frazil.vector.moved import MovedRows
from frazil.vector.segment import Collector, Segment, Shape, write_segment


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dimension", [48, 100])
def test_a_vector_has_the_same_code_whatever_vectors_are_next_to_it(metric: Metric, dimension: int) -> None:
    """So that many tasks and one process write the same bytes."""
    vectors = np.random.default_rng(1).standard_normal((701, dimension)).astype(np.float32)
    codebook = Codebook.train(vectors[:500], 60, metric, seed=1)
    together = codebook.encode(vectors)
    for part in (slice(0, 1), slice(1, 38), slice(300, 701)):
        lists, codes, refined = codebook.encode(vectors[part])
        assert (lists == together[0][part]).all()
        assert (codes.signs == together[1].signs[part]).all()
        assert (codes.factors == together[1].factors[part]).all()
        assert (refined.values == together[2].values[part]).all()
        assert (refined.scales == together[2].scales[part]).all()


def test_of_two_lists_that_float32_does_not_tell_apart_the_nearer_is_chosen() -> None:
    centroids = np.array([[1, 0, 0, 1e-4], [1, 0, 0, 0]], np.float32)
    assert assign_surely(np.array([[100, 0, 0, 0]], np.float32), centroids).tolist() == [1]
    assert assign_surely(np.array([[100, 0, 0, 1]], np.float32), centroids).tolist() == [0]


def test_codebooks_with_other_numbers_have_other_fingerprints() -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32)
    first, second = (Codebook.train(vectors, 4, "l2", seed=seed) for seed in (1, 2))
    assert first.fingerprint == Codebook.train(vectors, 4, "l2", seed=1).fingerprint != second.fingerprint


def segment_of(codebook: Codebook, vectors: Matrix, path: Path) -> Segment:
    collector = Collector(codebook)
    collector.add(collector.add_file("old.parquet", len(vectors)), np.arange(len(vectors)), vectors)
    shape = Shape(len(codebook.rotation))
    output, own = PyArrowFileIO().new_output(str(path)), codebook.fingerprint
    write_segment(output, collector.files, collector.lists(), shape, field_id=1, codebook=own)
    return Segment(PyArrowFileIO().new_input(str(path)), dimension=shape.dimension)


@pytest.mark.parametrize("metric", METRICS)
def test_rows_that_only_moved_keep_their_codes_and_others_get_theirs(metric: Metric, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    old, new = (random.standard_normal((count, 40)).astype(np.float32) for count in (300, 50))
    codebook = Codebook.train(old, 20, metric, seed=1)
    moved = MovedRows.of(segment_of(codebook, old, tmp_path / "s.puffin").rows_of({"old.parquet"}))
    assert moved is not None
    together = random.permutation(np.concatenate([old[100:], new]))
    expected = codebook.encode(together)
    lists, codes, refined = codebook.encode(together, moved)
    assert (moved.find(refined) < 0).sum() == len(new)
    for actual, wanted in zip((lists, *unpacked(codes, refined)), (expected[0], *unpacked(*expected[1:])), strict=True):
        assert (actual == wanted).all()


def unpacked(codes: Codes, refined: Refined) -> tuple[Matrix, ...]:
    return codes.signs, codes.factors, refined.values, refined.scales


def test_rows_of_live_files_are_not_read_for_rows_that_moved(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((30, 8)).astype(np.float32)
    segment = segment_of(Codebook.train(vectors, 4, "l2", seed=1), vectors, tmp_path / "s.puffin")
    assert MovedRows.of(segment.rows_of({"other.parquet"})) is None


@pytest.mark.parametrize("offset", [0, 3, 30])
@pytest.mark.parametrize("metric", METRICS)
def test_what_all_vectors_have_in_common_takes_no_bits(metric: Metric, offset: float) -> None:
    random = np.random.default_rng(3)
    rows, asked = (random.standard_normal((count, 32)).astype(np.float32) + offset for count in (3000, 20))
    codebook = Codebook.train(rows, 16, metric, seed=1)
    lists, codes, refined = codebook.encode(rows)
    queries = codebook.queries(asked)
    first = second = 0.0
    for vector, query, far in zip(asked, queries, codebook.from_centroids(queries), strict=True):
        truth = true_distances(rows, vector, metric)
        nearest = set(np.argsort(truth)[:10].tolist())
        first += len(nearest & set(np.argsort(query.estimate(as_words(codes), far[lists]))[:300].tolist()))
        second += len(nearest & set(np.argsort(query.refine(refined))[:10].tolist()))
        np.testing.assert_allclose(query.refine(refined), truth, atol=0.02 * np.ptp(truth))
    assert first >= 0.9 * 200
    assert second >= 0.95 * 200


def true_distances(rows: Matrix, vector: Matrix, metric: Metric) -> Matrix:
    left, right = prepare(rows, metric).astype(np.float64), prepare(vector[None], metric)[0].astype(np.float64)
    if metric == "l2":
        distances: Matrix = np.sqrt(np.square(left - right).sum(axis=1))
        return distances
    return (metric == "cosine") - left @ right
