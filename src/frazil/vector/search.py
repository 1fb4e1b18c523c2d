"""Search in an index: the nearest lists, their codes, the live rows among them, and the bytes of the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from frazil.vector.blocks import Blocks, ByteRows, Fetched, HeldCodes
from frazil.vector.codebook import Codebook
from frazil.vector.codes import Query, Refined
from frazil.vector.live import LiveRows
from frazil.vector.metric import Matrix, Numbers
from frazil.vector.segment import CoveredFile, Segment

SURPLUS, LEAST_SURPLUS = 6, 60  # vectors that get a second look, for each that is asked for, and at least
USUAL_K = 10  # rows that the usual number of lists is right for
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
        self._rows = sum(int(segment.lists.starts[-1]) for segment in segments)
        self.locations = tuple(segment.location for segment in segments)
        self._bases = np.cumsum([0, *(len(segment.files) for segment in segments)])[:-1]

    def nearest(self, vector: Matrix, k: int, live: LiveRows, *, probes: int, report: SearchReport) -> Hits:
        """The k nearest live rows of one vector."""
        return self.nearest_each(vector[None], k, live, probes=probes, report=report)[0]

    def nearest_each(self, vectors: Matrix, k: int, live: LiveRows, *, probes: int, report: SearchReport) -> list[Hits]:
        """The k nearest live rows of each vector, or all if there are fewer. More lists are probed until there are
        enough.
        """
        queries = self.codebook.queries(vectors)
        fars = self.codebook.from_centroids(queries)
        probes = min(max(self._probes(k, live, probes), 1), self.codebook.lists)
        wanted = int(max(SURPLUS * k, LEAST_SURPLUS) * max(1, SURE / self.codebook.dimension))
        orders = np.argpartition(fars, probes - 1, axis=1)
        if len(queries) > 1 and live.count:
            segments = [self._segments[number] for number in self._used(live)]
            self._blocks.read_ahead(segments, np.unique(orders[:, :probes]), report.fetched)
        best = [
            self._first_look(query, far, order, probes, k, live, report).best(wanted)
            for query, far, order in zip(queries, fars, orders, strict=True)
        ]
        return self._second_look(queries, best, k, report)

    def _probes(self, k: int, live: LiveRows, usual: int) -> int:
        """More lists than usual where k is large or few rows are live: the k nearest live rows are farther away."""
        rank = k * self._rows / max(live.count, 1)
        return max(usual, round(usual * self.codebook.probes_for(rank) / self.codebook.probes_for(USUAL_K)))

    def _used(self, live: LiveRows) -> list[int]:
        """The segments that have a live row: nothing is read of the others."""
        if live.everything:
            return list(range(len(self._segments)))
        return [int(number) for number in np.flatnonzero(live.touched(self._bases))]

    def _first_look(
        self, query: Query, far: Matrix, order: Numbers, end: int, k: int, live: LiveRows, report: SearchReport
    ) -> _Seen:
        """The rows of the lists that come first in an order, and of further ones until there are k."""
        seen = _Seen()
        self._look(query, order[:end], far, live, seen, report)
        if seen.count >= min(k, live.count) or end == len(far):
            return seen
        order = np.concatenate([order[:end], order[end:][np.argsort(far[order[end:]], kind="stable")]])
        while seen.count < min(k, live.count) and end < len(order):
            start, end = end, min(2 * end, len(order))
            self._look(query, order[start:end], far, live, seen, report)
        return seen

    def _look(
        self, query: Query, lists: Numbers, far: Matrix, live: LiveRows, seen: _Seen, report: SearchReport
    ) -> None:
        """The first look at some lists of all segments that have a live row."""
        if not live.count:
            return
        report.lists += len(lists)
        lists = np.sort(lists)
        used, weights = self._used(live), self.codebook.weights(far, lists)
        every = self._blocks.codes([self._segments[number] for number in used], lists, report.fetched)
        for number, held in zip(used, every, strict=True):
            segment = self._segments[number]
            counts = segment.lists.counts[lists]
            ends = np.cumsum(counts)
            rows = np.arange(ends[-1]) + np.repeat(segment.lists.starts[lists] - ends + counts, counts)
            from_centroid = np.repeat(far[lists], counts)
            weight = None if weights is None else np.repeat(weights, counts)
            report.rows_scored += len(rows)
            if not live.everything:
                mask = live.mask(held.files[rows] + self._bases[number], held.positions[rows])
                rows, from_centroid = rows[mask], from_centroid[mask]
                weight = None if weight is None else weight[mask]
            seen.add(number, held, rows, query.estimate(held.words.take(rows), from_centroid, weight))

    def _second_look(
        self, queries: Sequence[Query], best: Sequence[Sequence[_Part]], k: int, report: SearchReport
    ) -> list[Hits]:
        """The best of each query by their bytes; ties by where they are. All bytes are read at once."""
        asked: dict[int, list[_Part]] = {}
        for part in (part for parts in best for part in parts if len(part.rows)):
            asked.setdefault(part.segment, []).append(part)
        wanted = [self._byte_rows(parts) for parts in asked.values()]
        refined = dict(zip(asked, zip(wanted, self._blocks.refined(wanted, report.fetched), strict=True), strict=True))
        answers = []
        for query, parts in zip(queries, best, strict=True):
            hits = [self._refine(query, part, *refined[part.segment]) for part in parts if len(part.rows)]
            report.rows_refined += sum(len(part.rows) for part in parts)
            answers.append(_nearest(hits, k))
            self._check_once(answers[-1])
        return answers

    def _check_once(self, hits: Hits) -> None:
        """Passes for an answer that has each row once; otherwise the segments of those rows are not as written."""
        rows = np.sort(hits.files << 32 | hits.positions)
        twice = rows[1:][rows[1:] == rows[:-1]]
        if len(twice):
            number = np.searchsorted(self._bases, twice[0] >> 32, side="right") - 1
            raise self._segments[number].damaged("it has a row twice")

    def _byte_rows(self, parts: Sequence[_Part]) -> ByteRows:
        rows = np.unique(np.concatenate([part.rows for part in parts]))
        return ByteRows(self._segments[parts[0].segment], rows, parts[0].held.sums[rows])

    def _refine(self, query: Query, part: _Part, known: ByteRows, refined: Refined) -> Hits:
        places = np.searchsorted(known.rows, part.rows)
        distances = query.refine(Refined(refined.values[places], refined.scales[places]))
        files = part.held.files[part.rows] + self._bases[part.segment]
        return Hits(distances, files, part.held.positions[part.rows].astype(np.int64))


def _nearest(hits: Sequence[Hits], k: int) -> Hits:
    if not hits:
        return Hits(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))
    distances, files, positions = (np.concatenate(column) for column in zip(*hits, strict=True))
    order = np.lexsort((positions, files, distances))[:k]
    return Hits(distances[order], files[order], positions[order])


class _Part(NamedTuple):
    """Rows of a segment."""

    segment: int
    held: HeldCodes
    rows: Numbers
    estimates: Matrix


class _Seen:
    """Live rows that had a first look."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[_Part] = []

    def add(self, segment: int, held: HeldCodes, rows: Numbers, estimates: Matrix) -> None:
        self.count += len(rows)
        self._parts.append(_Part(segment, held, rows, estimates))

    def best(self, count: int) -> list[_Part]:
        if self.count <= count:
            return self._parts
        estimates = np.concatenate([part.estimates for part in self._parts])
        chosen = np.sort(np.argpartition(estimates, count)[:count])
        parts, start = [], 0
        for part in self._parts:
            first, last = np.searchsorted(chosen, (start, start + len(part.rows)))
            parts.append(part._replace(rows=part.rows[chosen[first:last] - start]))
            start += len(part.rows)
        return parts
