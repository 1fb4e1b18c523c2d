"""Exact search: the k nearest rows, whatever numbers the vectors have."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.vector.exact import merge, score
from frazil.vector.metric import METRICS, Matrix, Metric

ROWS, DIMENSION, K = 4000, 96, 10


def distances_of(vectors: Matrix, query: Matrix, metric: Metric) -> Matrix:
    """In long double, without a product of matrices."""
    rows, asked = vectors.astype(np.longdouble), query.astype(np.longdouble)
    products = (rows * asked).sum(axis=1)
    distances: Matrix = {
        "l2": lambda: np.sqrt(np.square(rows - asked).sum(axis=1)),
        "ip": lambda: -products,
        "cosine": lambda: 1 - products / np.sqrt(np.square(rows).sum(axis=1) * np.square(asked).sum()),
    }[metric]()
    return distances


def spread(name: str, metric: Metric) -> tuple[Matrix, Matrix]:
    """Vectors of some kind, and queries."""
    random = np.random.default_rng(5)
    vectors, queries = random.standard_normal((ROWS, DIMENSION)), random.standard_normal((6, DIMENSION))
    if name.startswith("offset"):
        vectors, queries = (matrix + float(name.split()[1]) for matrix in (vectors, queries))
    if name == "norms":
        vectors *= 10 ** random.uniform(-6, 6, (ROWS, 1))
    if name == "one giant":
        vectors[7] *= 1e15
    if name == "huge":
        vectors, queries = vectors * 1e18, queries * 1e18
    if name == "tiny":
        vectors, queries = vectors * 1e-21, queries * 1e-21
    if name == "zero query":
        queries = queries * 0 + (vectors[7] if metric == "cosine" else 0)
    return vectors.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "name", ["usual", "offset 1000", "offset 1e6", "norms", "one giant", "huge", "tiny", "zero query"]
)
def test_the_nearest_rows_are_those_of_exact_numbers_in_their_order(name: str, metric: Metric) -> None:
    vectors, queries = spread(name, metric)
    answers = score(vectors, queries, metric, k=K, source=0, positions=np.arange(ROWS))
    for query, answer in zip(queries, answers, strict=True):
        right = distances_of(vectors, query, metric)
        best = np.sort(right)[:K]
        scale = np.abs(best).max() if metric != "cosine" else 1
        assert np.abs(right[answer.positions] - best).max() <= 1e-13 * scale
        assert np.abs(answer.distances - best).max() <= 1e-13 * scale


def test_a_file_in_parts_has_the_same_nearest_rows_in_the_same_order() -> None:
    vectors, queries = spread("offset 1000", "l2")
    vectors[3000:3100] = vectors[100:200]  # equally near ones
    (whole,) = score(vectors, queries[:1], "l2", k=200, source=0, positions=np.arange(ROWS))
    parts = [
        score(vectors[start : start + 700], queries[:1], "l2", k=200, source=0, positions=np.arange(ROWS)[start:][:700])
        for start in range(0, ROWS, 700)
    ]
    merged = merge([part[0] for part in parts], 200)
    assert merged.positions.tolist() == whole.positions.tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_rows_that_are_all_the_same_are_answered_in_their_order(metric: Metric) -> None:
    vectors, queries = np.full((500, 8), 0.3, np.float32), np.ones((1, 8), np.float32)
    (answer,) = score(vectors, queries, metric, k=5, source=0, positions=np.arange(500))
    assert answer.positions.tolist() == [0, 1, 2, 3, 4]
