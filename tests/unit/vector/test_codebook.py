"""Codebooks: the code of a vector depends on the vector alone."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.vector.codebook import Codebook
from frazil.vector.kmeans import assign_surely
from frazil.vector.metric import METRICS, Metric


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
