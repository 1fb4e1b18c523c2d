"""Codes of vectors: what they estimate, and how near that comes."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.vector.codes import Query, as_words, encode_bytes, encode_signs, from_centroids
from frazil.vector.metric import METRICS, Matrix, Metric, prepare
from frazil.vector.rotation import make_rotation, rotate

DIMENSION = 96


def vectors(count: int, *, seed: int, scale: float = 1.0) -> Matrix:
    return (scale * np.random.default_rng(seed).standard_normal((count, DIMENSION))).astype(np.float32)


def true_ranks(rows: Matrix, query: Matrix, metric: Metric) -> Matrix:
    """What an estimate stands for: the negative product, or the square of the distance."""
    return -(rows @ query) if metric == "ip" else np.square(rows - query).sum(axis=1)


@pytest.mark.parametrize("dimension", [1, 3, 8, 100])
def test_a_rotation_keeps_every_distance(dimension: int) -> None:
    rows = np.random.default_rng(1).standard_normal((20, dimension)).astype(np.float32)
    rotated = rotate(rows, make_rotation(dimension, seed=5))
    assert rotated.shape[1] % 8 == 0
    np.testing.assert_allclose(rotated @ rotated.T, rows @ rows.T, atol=1e-4)


def test_the_same_seed_gives_the_same_rotation() -> None:
    assert (make_rotation(40, seed=3) == make_rotation(40, seed=3)).all()
    assert (make_rotation(40, seed=3) != make_rotation(40, seed=4)).any()


@pytest.mark.parametrize("metric", METRICS)
def test_estimates_have_no_bias_and_follow_the_truth(metric: Metric) -> None:
    rotation = make_rotation(DIMENSION, seed=1)
    rows, query = (rotate(prepare(vectors(count, seed=seed), metric), rotation) for count, seed in ((3000, 2), (1, 3)))
    centroid = rows[:50].mean(axis=0)
    codes = encode_signs(rows, np.broadcast_to(centroid, rows.shape), metric)
    asked = Query(query[0], metric)
    far = from_centroids([asked], centroid[None], np.square(centroid[None]).sum(axis=1))[0]
    estimates, truth = asked.estimate(as_words(codes), far), true_ranks(rows, query[0], metric)
    spread = truth.std()
    assert abs((estimates - truth).mean()) < 0.1 * spread
    assert np.corrcoef(estimates, truth)[0, 1] > 0.6


def test_a_vector_on_its_centroid_is_estimated_exactly() -> None:
    rows = vectors(5, seed=1)
    codes = encode_signs(rows, rows, "l2")
    asked = Query(vectors(1, seed=2)[0], "l2")
    far = from_centroids([asked], rows, np.square(rows).sum(axis=1))[0]
    np.testing.assert_allclose(asked.estimate(as_words(codes), far), true_ranks(rows, asked.vector, "l2"), rtol=1e-5)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_bytes_come_within_a_hundredth_of_the_distance(metric: Metric, scale: float) -> None:
    rows, query = prepare(vectors(500, seed=4, scale=scale), metric), prepare(vectors(1, seed=5, scale=scale), metric)
    refined = Query(query[0], metric).refine(encode_bytes(rows))
    lengths, products = np.sqrt(np.square(rows - query).sum(axis=1)), rows @ query[0]
    truth = lengths if metric == "l2" else (metric == "cosine") - products
    np.testing.assert_allclose(refined, truth, atol=0.01 * np.abs(truth).max())


def test_a_vector_of_equal_numbers_keeps_its_distance() -> None:
    rows = np.full((1, DIMENSION), 0.25, np.float32)
    refined = Query(np.zeros(DIMENSION, np.float32), "l2").refine(encode_bytes(rows))
    np.testing.assert_allclose(refined, np.sqrt(DIMENSION) * 0.25, rtol=1e-5)
