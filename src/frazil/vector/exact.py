"""Exact search: every vector is compared. It needs no index, and is what an index is measured by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from frazil.vector.metric import Matrix, Metric, Numbers, all_products, row_squares

FEW = 64  # rows more than twice k that are compared in float64 without a further look
SOME = 8  # roundings next to those of a sum


class Scored(NamedTuple):
    """Rows with their distances from one query, the nearest first; `sources` says which file each is from."""

    distances: Matrix
    sources: Numbers
    positions: Numbers


def nothing_scored() -> Scored:
    """No rows."""
    return Scored(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))


def score(
    vectors: Matrix,
    queries: Matrix,
    metric: Metric,
    *,
    k: int,
    source: int,
    positions: Numbers,
    squares: Matrix | None = None,
) -> list[Scored]:
    """The k nearest of some vectors of a file for each query. All have a distance. `squares` of the vectors' lengths
    need not be computed again, if they are known.

    Products of matrices choose: all rows that rounding may have kept from the k nearest. What is chosen is computed
    again without the cancellation that large numbers suffer there.
    """
    scored = []
    for query, chosen in zip(queries, _choose(vectors, queries, metric, k, squares), strict=True):
        distances = precise(vectors[chosen], query, metric)
        order = np.lexsort((positions[chosen], distances))[:k]
        at = chosen[order]
        scored.append(Scored(distances[order], np.full(len(at), source, np.int64), positions[at]))
    return scored


def precise(vectors: Matrix, query: Matrix, metric: Metric) -> Matrix:
    """The distances of vectors in double precision. That of a vector does not depend on the others."""
    wide, asked = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        return row_squares(wide - asked) ** 0.5
    products: Matrix = np.einsum("ij,j->i", wide, asked)
    if metric == "ip":
        return -products
    distances: Matrix = np.maximum(1 - products / np.sqrt(row_squares(wide) * np.square(asked).sum()), 0)
    return distances


def _choose(vectors: Matrix, queries: Matrix, metric: Metric, k: int, squares: Matrix | None) -> list[Numbers]:
    """The rows among which the k nearest of each query are: few, unless many are equally near. Where float32 cannot
    tell enough rows apart, as with numbers that have a large part in common, the products are in float64.
    """
    few = 2 * k + FEW
    if len(vectors) <= few:
        return [np.arange(len(vectors))] * len(queries)
    chosen = _close(vectors, queries, metric, k, row_squares(vectors) if squares is None else squares)
    unsure = [number for number, rows in enumerate(chosen) if len(rows) > few]
    if unsure:
        wide, again = vectors.astype(np.float64), queries[unsure].astype(np.float64)
        for number, rows in zip(unsure, _close(wide, again, metric, k, row_squares(wide)), strict=True):
            chosen[number] = rows
    return chosen


def _close(rows: Matrix, queries: Matrix, metric: Metric, k: int, squares: Matrix) -> list[Numbers]:
    """The rows of each query that are at most twice the rounding error farther away than the k nearest seem to be."""
    lengths = np.sqrt(row_squares(queries), dtype=np.float64)
    longest = float(np.sqrt(squares.max(), dtype=np.float64))
    largest = longest * lengths + (longest**2 / 2 if metric == "l2" else 0)
    if not _within(rows.dtype, largest) or (metric == "cosine" and not _within(rows.dtype, squares)):
        return [np.arange(len(rows))] * len(queries)
    ranks = all_products(queries, rows)
    if metric == "cosine":
        ranks /= -np.sqrt(squares)
        largest = lengths
    else:
        np.negative(ranks, out=ranks)
    if metric == "l2":
        ranks += squares / 2
    # A sum of n products is off by n roundings at most.
    error = (rows.shape[1] + SOME) * np.finfo(rows.dtype).eps * largest
    limits = np.partition(ranks, k - 1, axis=1)[:, k - 1] + 2 * error
    return [np.flatnonzero(each <= limit) for each, limit in zip(ranks, limits, strict=True)]


def _within(kind: Any, numbers: Matrix) -> bool:
    """Whether sums of such a size are neither infinite nor so small that they lose digits."""
    facts = np.finfo(kind)
    return bool(facts.tiny / facts.eps < numbers.min() and numbers.max() < facts.max / 4)


def merge(parts: list[Scored], k: int) -> Scored:
    """The k nearest of several answers to one query; equally near ones in the order of files and positions."""
    whole = Scored(*(np.concatenate(column) for column in zip(*parts, strict=True))) if parts else nothing_scored()
    order = np.lexsort((whole.positions, whole.sources, whole.distances))[:k]
    return Scored(whole.distances[order], whole.sources[order], whole.positions[order])
