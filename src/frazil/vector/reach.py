"""How many lists a search has to look at: measured on the sample when an index is built, and kept with its codebook.

A vector of the sample stands for a query. Of the rows that are nearest to it, 97 of 100 are in the lists that are
counted here. With a filter that keeps one row in a hundred, the ten nearest of the kept rows are about the thousand
nearest of all: so the number of lists is measured for several ranks, and read off between them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from frazil.vector.codes import Query, from_centroids
from frazil.vector.kmeans import assign
from frazil.vector.metric import Matrix, Metric, Numbers, row_squares

if TYPE_CHECKING:
    from collections.abc import Iterator

RANKS = (10, 100, 1_000, 10_000)
# Of the nearest rows; the codes lose a little more. Rows that are not in the sample fit the lists less well, even less
# for products, whose nearest rows are not in the nearest lists.
INSIDE, INSIDE_OF_SAMPLE, INSIDE_OF_PRODUCTS = 0.97, 0.972, 0.98
ASKED = 1_024  # vectors of the sample that stand for queries; the tail of what 256 say is a third off
AT_ONCE = 16  # of them


@dataclass(frozen=True)
class Reach:
    """How many lists hold the nearest rows, for some ranks in rising order."""

    ranks: tuple[int, ...]
    lists: tuple[int, ...]

    def lists_for(self, rank: float) -> int:
        """The number of lists for a rank, along a line in logarithms between and beyond those that were measured.

        >>> Reach((10, 100, 1000), (20, 40, 80)).lists_for(100)
        40
        >>> Reach((10, 100, 1000), (20, 40, 80)).lists_for(10_000)
        160
        >>> Reach((10,), (20,)).lists_for(1)
        20
        """
        wanted, ranks, lists = np.log(max(rank, self.ranks[0])), np.log(self.ranks), np.log(self.lists)
        if wanted <= ranks[-1] or len(ranks) == 1:
            return round(float(np.exp(np.interp(wanted, ranks, lists))))
        slope = (lists[-1] - lists[-2]) / (ranks[-1] - ranks[-2])
        return round(float(np.exp(lists[-1] + slope * (wanted - ranks[-1]))))

    def to_json(self) -> str:
        return json.dumps([self.ranks, self.lists])

    @classmethod
    def of(cls, text: str) -> Reach:
        """What `to_json` wrote; a ValueError if it is something else."""
        ranks, lists = (tuple(int(number) for number in numbers) for numbers in json.loads(text))
        if not ranks or len(ranks) != len(lists) or min(*ranks, *lists) < 1 or sorted(ranks) != list(ranks):
            raise ValueError(f"its reach is {text}")
        return cls(ranks, lists)


def choose_asked(count: int) -> Numbers:
    """Which vectors of a sample stand for queries."""
    return np.unique(np.linspace(0, count - 1, ASKED).astype(np.int64))


def measure_reach(sample: Matrix, centroids: Matrix, metric: Metric, *, rows: int) -> Reach:
    """The reach of lists in a table of as many rows, from a sample of their rotated vectors. A rank among all rows is
    that part of it among the sample, the first at least.
    """
    share = min(len(sample) / max(rows, 1), 1.0)
    ranks = [rank for rank in RANKS if rank <= max(rows, RANKS[0])]
    depths = [min(max(1, round(rank * share)), len(sample) - 1) for rank in ranks]
    if depths[0] < 1:
        return Reach((RANKS[0],), (1,))
    places: list[list[Numbers]] = [[] for _ in ranks]
    for each_place in _list_places(sample, centroids, metric, depth=depths[-1]):
        for depth, kept in zip(depths, places, strict=True):
            kept.append(each_place[:, :depth])
    sampled = INSIDE_OF_PRODUCTS if metric == "ip" else INSIDE_OF_SAMPLE
    inside = INSIDE if share == 1 else sampled
    needed = [int(np.quantile(np.concatenate([part.ravel() for part in kept]), inside)) + 1 for kept in places]
    return Reach(tuple(ranks), tuple(int(number) for number in np.maximum.accumulate(needed)))


def _list_places(sample: Matrix, centroids: Matrix, metric: Metric, *, depth: int) -> Iterator[Numbers]:
    """For some vectors of the sample: how many lists are nearer than that of each of their nearest vectors."""
    nearest, squares = assign(sample, centroids), row_squares(centroids)
    half = row_squares(sample) / 2 if metric != "ip" else np.zeros(len(sample), np.float32)
    asked = choose_asked(len(sample))
    for start in range(0, len(asked), AT_ONCE):
        rows = asked[start : start + AT_ONCE]
        far = half - sample[rows] @ sample.T
        far[np.arange(len(rows)), rows] = np.inf  # itself
        close = np.argpartition(far, depth - 1, axis=1)[:, :depth]
        close = np.take_along_axis(close, np.argsort(np.take_along_axis(far, close, axis=1), axis=1), axis=1)
        lists = from_centroids([Query(vector, metric) for vector in sample[rows]], centroids, squares)
        places = np.argsort(np.argsort(lists, axis=1), axis=1)
        yield np.take_along_axis(places, nearest[close], axis=1)
