"""Centroids: how many, how near, and always the same."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.vector import kmeans
from frazil.vector.kmeans import assign, train
from frazil.vector.metric import Matrix


def clumps(count: int, each: int, *, seed: int = 1) -> Matrix:
    """Vectors in clumps that lie far from each other."""
    random = np.random.default_rng(seed)
    centres = 100 * random.standard_normal((count, 16))
    return (np.repeat(centres, each, axis=0) + random.standard_normal((count * each, 16))).astype(np.float32)


def loss(sample: Matrix, centroids: Matrix) -> float:
    return float(np.square(sample - centroids[assign(sample, centroids)]).sum(axis=1).mean())


@pytest.mark.parametrize("lists", [1, 7, 300, 500])
def test_there_are_as_many_centroids_as_asked_for(lists: int) -> None:
    assert train(clumps(40, 20), lists, seed=1).shape == (lists, 16)


def test_there_are_no_more_centroids_than_vectors() -> None:
    assert train(clumps(1, 3), 10, seed=1).shape == (3, 16)


def test_equal_vectors_do_not_stop_the_training() -> None:
    sample = np.ones((600, 16), np.float32)
    assert (train(sample, 400, seed=1) == 1).all()


def test_two_levels_are_about_as_good_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = clumps(150, 20)
    two = loss(sample, train(sample, 300, seed=1))
    monkeypatch.setattr(kmeans, "FEW", 10_000)
    assert two < 1.5 * loss(sample, train(sample, 300, seed=1))


def test_the_same_seed_gives_the_same_centroids() -> None:
    sample = clumps(50, 20)
    assert (train(sample, 300, seed=9) == train(sample, 300, seed=9)).all()


def test_every_round_over_the_sample_is_reported() -> None:
    steps: list[tuple[int, int]] = []
    train(clumps(5, 20), 5, seed=1, step=lambda done, total: steps.append((done, total)))
    assert steps == [(number, kmeans.ROUNDS) for number in range(1, kmeans.ROUNDS + 1)]
