"""Exact search: every vector is compared. It needs no index, and is what an index is measured by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from frazil.vector.metric import Matrix, Metric, Numbers, all_products, prepare, row_squares


class Scored(NamedTuple):
    """Rows with their distances from one query, the nearest first; `sources` says which file each is from."""

    distances: Matrix
    sources: Numbers
    positions: Numbers


def nothing_scored() -> Scored:
    """No rows."""
    return Scored(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))


def score(vectors: Matrix, queries: Matrix, metric: Metric, *, k: int, source: int, positions: Numbers) -> list[Scored]:
    """The k nearest of some vectors of a file for each query. All have a distance."""
    return score_prepared(prepare(vectors, metric), queries, metric, k=k, source=source, positions=positions)


def score_prepared(
    rows: Matrix, queries: Matrix, metric: Metric, *, k: int, source: int, positions: Numbers
) -> list[Scored]:
    """The same of vectors that are prepared for the metric.

    Products of matrices choose, with a few more than are asked for; what is chosen is computed again without the
    cancellation that large numbers suffer there.
    """
    asked = prepare(queries, metric)
    ranks = -all_products(asked, rows)
    if metric == "l2":
        ranks += row_squares(rows) / 2
    surplus = min(2 * k + 10, rows.shape[0])
    chosen = np.argpartition(ranks, surplus - 1, axis=1)[:, :surplus] if surplus < rows.shape[0] else None
    scored = []
    for number, query in enumerate(asked):
        best = np.arange(rows.shape[0]) if chosen is None else chosen[number]
        distances = precise(rows[best], query, metric)
        order = np.lexsort((positions[best], distances))[:k]
        at = best[order]
        scored.append(Scored(distances[order], np.full(len(at), source, np.int64), positions[at]))
    return scored


def precise(rows: Matrix, query: Matrix, metric: Metric) -> Matrix:
    """The distances of prepared vectors in double precision, as float32."""
    wide, asked = rows.astype(np.float64), query.astype(np.float64)
    products: Matrix = wide @ asked
    if metric == "l2":
        distances = np.sqrt(row_squares(wide - asked))
    elif metric == "ip":
        distances = -products
    else:  # rows of length 1 have it only up to the precision of float32
        distances = np.maximum(1 - products / np.sqrt(row_squares(wide) * np.square(asked).sum()), 0)
    return distances.astype(np.float32)


def merge(parts: list[Scored], k: int) -> Scored:
    """The k nearest of several answers to one query; equally near ones in the order of files and positions."""
    whole = Scored(*(np.concatenate(column) for column in zip(*parts, strict=True))) if parts else nothing_scored()
    order = np.lexsort((whole.positions, whole.sources, whole.distances))[:k]
    return Scored(whole.distances[order], whole.sources[order], whole.positions[order])
