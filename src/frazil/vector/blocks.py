"""What searches have read of segments: fetched in few ranges, checked once, kept in memory up to a limit.

The codes that are kept of a segment lie in arrays of all its rows, list after list, of which only the parts that were
read take memory. So a search gathers the rows of any lists at once, however many lists they are. Of the bytes, of which
a search needs few, each vector is kept by itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np

from frazil.vector.codes import Refined, Words, as_words
from frazil.vector.disk import is_local
from frazil.vector.metric import Mask, Numbers
from frazil.vector.segment import Segment

# Bytes between two ranges that are always read, and at most. No two reads are of one page of the disk cache.
NEAR, GAP = 4 * 1024, 32 * 1024
WHOLE = 64 * 1024  # bytes from the first to the last range that are read as one
# Ranges of a segment, of codes and of bytes: where there are more, those that are nearest to each other become one.
FEW_CODES, FEW_BYTES = 32, 26
AT_ONCE = 16  # ranges that are asked for at the same time
KEPT_BYTES = 512 * 1024 * 1024
OBJECT = 128  # bytes that Python takes for each vector that is kept

ReadRange = Callable[[str, int, int], bytes]  # of a file: from, to


@dataclass
class Fetched:
    """What was read from files, and not found in memory."""

    size: int = 0
    ranges: int = 0


class HeldCodes:
    """The codes of a segment, as far as they were read."""

    def __init__(self, segment: Segment) -> None:
        rows = int(segment.lists.starts[-1])
        self.present: Mask = segment.lists.counts == 0
        self.words = Words.empty(rows, segment.shape.dimension)
        self.files, self.positions, self.sums = (np.empty(rows, np.uint32) for _ in range(3))
        self.size = 0

    def put(self, segment: Segment, number: int, data: bytes) -> None:
        block = segment.code_block(number, data)
        rows = slice(*segment.lists.starts[number : number + 2])
        self.words.put(rows, as_words(block.codes))
        self.files[rows], self.positions[rows], self.sums[rows] = block.files, block.positions, block.sums
        self.present[number] = True
        self.size += len(data)


class HeldBytes:
    """The bytes of vectors of a segment, as far as they were read."""

    def __init__(self, segment: Segment) -> None:
        self._shape, self._rows = segment.shape, dict[int, bytes]()

    @property
    def size(self) -> int:
        return len(self._rows) * (self._shape.bytes_row + OBJECT)

    def missing(self, rows: Numbers) -> Numbers:
        return np.array([row for row in rows.tolist() if row not in self._rows], np.int64)

    def put(self, row: int, data: bytes) -> None:
        self._rows[row] = data

    def take(self, rows: Numbers) -> Refined:
        return self._shape.unpack_bytes(b"".join([self._rows[row] for row in rows.tolist()]))


class ByteRows(NamedTuple):
    """Vectors whose bytes are asked for: where they are in a segment, in order, and their checksums."""

    segment: Segment
    rows: Numbers
    sums: Numbers


class _Wanted(NamedTuple):
    """Ranges of a segment, in order, each with the number of the list or of the vector that it is for."""

    segment: Segment
    numbers: Numbers
    starts: Numbers
    ends: Numbers
    few: int  # ranges that are read at most, if gaps between them allow it


Held = HeldCodes | HeldBytes


class Blocks:
    """Reads codes and bytes of segments; any number of threads at a time.

    Over the limit, all of the segment that was not used for longest is given up: searches that still use it keep it.
    """

    def __init__(self, read_range: ReadRange, *, max_bytes: int = KEPT_BYTES) -> None:
        self._read_range, self._max = read_range, max_bytes
        self._held: OrderedDict[tuple[str, type[Held]], Held] = OrderedDict()
        self._lock = Lock()

    def read_ahead(self, segments: Sequence[Segment], lists: Numbers, fetched: Fetched) -> None:
        """Reads the codes of some lists at once, if they are not too many to be kept."""
        rows = sum(int(segment.lists.counts[lists].sum()) * segment.shape.code_row for segment in segments)
        if rows <= self._max // 2:
            self.codes(segments, lists, fetched)

    def codes(self, segments: Sequence[Segment], lists: Numbers, fetched: Fetched) -> list[HeldCodes]:
        """What is held of each segment, with the codes of some lists, which are in order."""
        every, wanted = [], []
        for segment in segments:
            held = self._get(HeldCodes, segment)
            assert isinstance(held, HeldCodes)
            every.append(held)
            missing = lists[~held.present[lists]]
            if len(missing):
                wanted.append((held, _Wanted(segment, missing, *segment.code_ranges(missing), FEW_CODES)))
        for at, number, data in self._fetch([ranges for _, ranges in wanted], fetched):
            held, ranges = wanted[at]
            held.put(ranges.segment, number, data)
        return every

    def refined(self, asked: Sequence[ByteRows], fetched: Fetched) -> list[Refined]:
        """The bytes of some vectors of each segment."""
        every, wanted = [], []
        for segment, rows, sums in asked:
            held = self._get(HeldBytes, segment)
            assert isinstance(held, HeldBytes)
            every.append(held)
            missing = held.missing(rows)
            if len(missing):
                expected = dict(zip(rows.tolist(), sums.tolist(), strict=True))
                wanted.append((held, expected, _Wanted(segment, missing, *segment.byte_ranges(missing), FEW_BYTES)))
        for at, row, data in self._fetch([ranges for _, _, ranges in wanted], fetched):
            held, expected, ranges = wanted[at]
            ranges.segment.check_bytes(row, data, expected[row])
            held.put(row, data)
        return [held.take(rows) for held, (_, rows, _) in zip(every, asked, strict=True)]

    def forget(self, location: str) -> None:
        """What was read of a segment is read again the next time."""
        with self._lock:
            for kind in (HeldCodes, HeldBytes):
                self._held.pop((location, kind), None)

    def _get(self, kind: type[Held], segment: Segment) -> Held:
        key = (segment.location, kind)
        with self._lock:
            if key not in self._held:
                self._held[key] = kind(segment)
            self._held.move_to_end(key)
            return self._held[key]

    def _fetch(self, wanted: Sequence[_Wanted], fetched: Fetched) -> Iterator[tuple[int, int, bytes]]:
        """Reads ranges of several segments at the same time: gives the place in `wanted`, the number, the bytes."""
        if not wanted:
            return
        joined = [
            (at, *span)
            for at, ranges in enumerate(wanted)
            for span in join_ranges(ranges.starts, ranges.ends, ranges.few)
        ]
        spans = [
            (wanted[at].segment.location, int(wanted[at].starts[first]), int(wanted[at].ends[last - 1]))
            for at, first, last in joined
        ]
        fetched.ranges += len(spans)
        fetched.size += sum(end - start for _, start, end in spans)
        results = self._read_spans(spans)
        # A file that ends too early gives ranges whose checksums are wrong.
        for (at, first, last), (_, begin, _), data in zip(joined, spans, results, strict=True):
            ranges = wanted[at]
            for number, start, end in zip(
                *(column[first:last].tolist() for column in (ranges.numbers, ranges.starts, ranges.ends)), strict=True
            ):
                yield at, number, data[start - begin : end - begin]
        self._make_room()

    def _read_spans(self, spans: Sequence[tuple[str, int, int]]) -> Iterable[bytes]:
        """Ranges of an object store are read at the same time, those of a disk one after the other: there, a thread
        costs more than a read.
        """
        if len(spans) == 1 or all(is_local(location) for location, _, _ in spans):
            return [self._read_range(*span) for span in spans]
        with ThreadPoolExecutor(min(AT_ONCE, len(spans))) as pool:
            return list(pool.map(lambda span: self._read_range(*span), spans))

    def _make_room(self) -> None:
        with self._lock:
            while sum(kept.size for kept in self._held.values()) > self._max:
                self._held.popitem(last=False)


def join_ranges(starts: Numbers, ends: Numbers, few: int) -> list[tuple[int, int]]:
    """Which of some ranges, which are in order, are read as one: from the first to before the last. Those that lie next
    to each other are; where there are many, so are those with the smallest gaps.

    >>> join_ranges(np.array([0, 10, 900_000]), np.array([10, 30, 900_010]), 20)
    [(0, 2), (2, 3)]
    """
    if len(starts) and ends[-1] - starts[0] <= WHOLE:
        return [(0, len(starts))]
    gaps = starts[1:] - ends[:-1]
    near = NEAR if len(gaps) < few else min(max(NEAR, int(np.partition(gaps, -few)[-few])), GAP)
    cuts = [0, *(np.flatnonzero(gaps > near) + 1).tolist(), len(starts)]
    return list(pairwise(cuts))
