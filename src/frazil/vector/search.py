"""Search in an index: the nearest lists, their codes, the live rows among them, and the bytes of the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from frazil.vector.blocks import Blocks, Fetched
from frazil.vector.codebook import Codebook
from frazil.vector.codes import Codes, Query, Refined
from frazil.vector.live import LiveRows
from frazil.vector.metric import Matrix, Numbers
from frazil.vector.segment import CodeBlock, CoveredFile, Segment

SURPLUS, LEAST_SURPLUS = 10, 100  # vectors that get a second look, for each that is asked for, and at least
SURE = 256  # dimensions from which on that is enough: the error of an estimate falls with their root


class Hits(NamedTuple):
    """The nearest rows, the nearest first: how far, in which covered file (by its number), at which position."""

    distances: Matrix
    files: Numbers
    positions: Numbers


@dataclass
class SearchReport:
    """What a search has done."""

    lists: int = 0  # that were probed
    rows_scored: int = 0
    rows_refined: int = 0
    fetched: Fetched = field(default_factory=Fetched)


class Index:
    """An index that can be searched: its codebook and the segments that are there."""

    def __init__(self, codebook: Codebook, segments: Sequence[Segment], blocks: Blocks) -> None:
        self.codebook, self._segments, self._blocks = codebook, list(segments), blocks
        self.files: list[CoveredFile] = [file for segment in segments for file in segment.files]
        self._bases = np.cumsum([0, *(len(segment.files) for segment in segments)])[:-1]

    def nearest(self, vector: Matrix, k: int, live: LiveRows, *, probes: int, report: SearchReport) -> Hits:
        """The k nearest live rows, or all if there are fewer. More lists are probed until there are enough."""
        query, unsure = self.codebook.query(vector), max(1, SURE / self.codebook.dimension)
        wanted = int(max(SURPLUS * k, LEAST_SURPLUS) * unsure)
        far = query.from_centroids(self.codebook.centroids, self.codebook.squares)
        order = np.argsort(far, kind="stable")
        seen = _Seen()
        start, end = 0, min(max(probes, 1), len(order))
        while start < len(order):
            self._look(query, order[start:end], far, live, seen, report)
            if seen.count >= min(k, live.count):
                break
            start, end = end, min(2 * end, len(order))
        return self._second_look(query, seen.best(wanted), k, report)

    def _look(
        self, query: Query, lists: Numbers, far: Matrix, live: LiveRows, seen: _Seen, report: SearchReport
    ) -> None:
        """The first look at some lists of all segments."""
        report.lists += len(lists)
        blocks: list[CodeBlock] = []
        owners: list[tuple[int, int]] = []
        for number, segment in enumerate(self._segments):
            there = lists[segment.lists.counts[lists] > 0].tolist()
            blocks += self._blocks.codes(segment, there, report.fetched)
            owners += [(number, list_number) for list_number in there]
        if not blocks:
            return
        counts = np.array([len(block.files) for block in blocks])
        codes = Codes(
            np.concatenate([block.codes.signs for block in blocks]),
            np.concatenate([block.codes.factors for block in blocks]),
        )
        which = np.repeat(np.arange(len(blocks)), counts)
        rows = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        estimates = query.estimate(codes, far[[list_number for _, list_number in owners]][which])
        bases = self._bases[[segment for segment, _ in owners]]
        files = np.concatenate([block.files for block in blocks]) + bases[which]
        positions = np.concatenate([block.positions for block in blocks]).astype(np.int64)
        report.rows_scored += len(which)
        if (mask := live.mask(files, positions)) is not None:
            which, rows, estimates = which[mask], rows[mask], estimates[mask]
            files, positions = files[mask], positions[mask]
        seen.add(owners, which, rows, estimates, files, positions)

    def _second_look(self, query: Query, best: _Best, k: int, report: SearchReport) -> Hits:
        """The best by their bytes; ties by where they are."""
        report.rows_refined += len(best.rows)
        values = np.empty((len(best.rows), len(self.codebook.rotation)), np.uint8)
        scales = np.empty((len(best.rows), 3), np.float32)
        for number, segment in enumerate(self._segments):
            mine = np.flatnonzero(best.segments == number)
            lists = np.unique(best.lists[mine])
            blocks = self._blocks.refined(segment, lists.tolist(), report.fetched)
            for list_number, block in zip(lists, blocks, strict=True):
                here = mine[best.lists[mine] == list_number]
                values[here], scales[here] = block.values[best.rows[here]], block.scales[best.rows[here]]
        distances = query.refine(Refined(values, scales))
        order = np.lexsort((best.positions, best.files, distances))[:k]
        return Hits(distances[order], best.files[order], best.positions[order])


class _Best(NamedTuple):
    """Rows for a second look."""

    segments: Numbers
    lists: Numbers
    rows: Numbers  # in the list
    files: Numbers
    positions: Numbers


class _Seen:
    """Live rows that had a first look."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[tuple[Matrix, _Best]] = []

    def add(
        self,
        owners: Sequence[tuple[int, int]],
        which: Numbers,
        rows: Numbers,
        estimates: Matrix,
        files: Numbers,
        positions: Numbers,
    ) -> None:
        self.count += len(rows)
        segments, lists = np.array(owners).T
        self._parts.append((estimates, _Best(segments[which], lists[which], rows, files, positions)))

    def best(self, count: int) -> _Best:
        if not self._parts:
            return _Best(*[np.empty(0, np.int64)] * 5)
        estimates = np.concatenate([estimates for estimates, _ in self._parts])
        columns = [np.concatenate(column) for column in zip(*(part for _, part in self._parts), strict=True)]
        if len(estimates) > count:
            chosen = np.argpartition(estimates, count)[:count]
            columns = [column[chosen] for column in columns]
        return _Best(*columns)
