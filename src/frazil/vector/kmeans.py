"""The centroids of the lists: k-means over a sample, first in two levels, then flat.

Two levels cost the square root of the work, and leave lists that lie near each other next to each other in the file, so
that what a query reads is read in few ranges.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from frazil.vector.metric import Matrix, Numbers, row_squares

# Vectors that are compared with all centroids at once: always as many, so that the same rows come into the same lists.
CHUNK = 4096
FEW = 256  # centroids that are trained in one level
ROUNDS, FLAT_ROUNDS = 8, 4
UNSURE = 1e-5  # part of a distance that products of float32 do not tell apart

Step = Callable[[int, int], None]  # rounds done, of how many


def quietly(done: int, total: int) -> None:
    """Says nothing of the rounds."""


def train(sample: Matrix, lists: int, *, seed: int, step: Step = quietly) -> Matrix:
    """As many centroids as are asked for, or one for each vector where there are fewer vectors. `step` hears of each
    round over the whole sample.
    """
    random = np.random.default_rng(seed)
    lists = min(lists, len(sample))
    if lists <= FEW:
        return _rounds(sample, _choose(sample, lists, random), ROUNDS, random, step)
    coarse = _rounds(sample, _choose(sample, round(lists**0.5), random), ROUNDS // 2, random, quietly)
    members = assign(sample, coarse)
    parts = []
    for number, share in enumerate(_shares(np.bincount(members, minlength=len(coarse)), lists)):
        inside = sample[members == number]
        if share:
            parts.append(_rounds(inside, _choose(inside, share, random), ROUNDS // 2, random, quietly))
    return _rounds(sample, np.concatenate(parts), FLAT_ROUNDS, random, step)


def assign(vectors: Matrix, centroids: Matrix) -> Numbers:
    """The nearest centroid of each vector."""
    half = row_squares(centroids) / 2
    nearest = np.empty(len(vectors), np.int64)
    for start in range(0, len(vectors), CHUNK):
        chunk = vectors[start : start + CHUNK]
        nearest[start : start + CHUNK] = np.argmin(half - chunk @ centroids.T, axis=1)
    return nearest


def assign_surely(vectors: Matrix, centroids: Matrix) -> Numbers:
    """The nearest centroid of each vector, the same one whatever rows are next to it and however many threads there
    are: those that are too near to each other for float32 are compared in float64.
    """
    half, exact = row_squares(centroids) / 2, centroids.astype(np.float64)
    nearest = np.empty(len(vectors), np.int64)
    for start in range(0, len(vectors), CHUNK):
        chunk = vectors[start : start + CHUNK]
        scores = half - chunk @ centroids.T
        best = scores.min(axis=1)
        margin = UNSURE * (np.abs(best) + row_squares(chunk))
        candidates = scores <= (best + margin)[:, None]
        lists = np.argmax(candidates, axis=1)
        for row in np.flatnonzero(candidates.sum(axis=1) > 1):
            numbers = np.flatnonzero(candidates[row])
            lists[row] = numbers[np.argmin(np.square(exact[numbers] - chunk[row]).sum(axis=1))]
        nearest[start : start + CHUNK] = lists
    return nearest


def _rounds(sample: Matrix, centroids: Matrix, rounds: int, random: np.random.Generator, step: Step) -> Matrix:
    for number in range(rounds):
        centroids = _means(sample, assign(sample, centroids), len(centroids), random)
        step(number + 1, rounds)
    return centroids


def _means(sample: Matrix, nearest: Numbers, count: int, random: np.random.Generator) -> Matrix:
    """The mean of each list; one that is empty begins again with some vector of the sample."""
    order = np.argsort(nearest, kind="stable")
    sizes = np.bincount(nearest, minlength=count)
    used = np.flatnonzero(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes[used])[:-1]])
    means = np.empty((count, sample.shape[1]), np.float32)
    means[used] = np.add.reduceat(sample[order], starts, axis=0) / sizes[used, None]
    empty = np.flatnonzero(sizes == 0)
    means[empty] = sample[random.integers(len(sample), size=len(empty))]
    return means


def _choose(sample: Matrix, count: int, random: np.random.Generator) -> Matrix:
    return sample[np.sort(random.choice(len(sample), size=count, replace=False))]


def _shares(sizes: Numbers, total: int) -> list[int]:
    """How many of the lists each part gets: by its size, at most one for each of its vectors.

    >>> _shares(np.array([6, 0, 3]), 3)
    [2, 0, 1]
    """
    exact = sizes * (total / sizes.sum())
    shares = np.minimum(np.floor(exact).astype(np.int64), sizes)
    rest = np.argsort(shares - exact, kind="stable")
    for number in np.tile(rest, 2):
        if shares.sum() == total:
            break
        shares[number] += shares[number] < sizes[number]
    return [int(share) for share in shares]
