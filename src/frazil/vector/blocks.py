"""The blocks of segments that searches have read: fetched in few ranges, checked once, kept in memory up to a limit.

What is kept of a segment lies in arrays of all its rows, list after list, of which only the parts that were read take
memory. So a search gathers the rows of any lists at once, however many lists they are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np

from frazil.vector.codes import Words, as_words
from frazil.vector.metric import Mask, Numbers
from frazil.vector.segment import Segment

GAP = 32 * 1024  # bytes between two blocks that are cheaper to read than to ask for twice
AT_ONCE = 16  # ranges that are asked for at the same time
KEPT_BYTES = 512 * 1024 * 1024

ReadRange = Callable[[str, int, int], bytes]  # of a file: from, to


@dataclass
class Fetched:
    """What was read from files, and not found in memory."""

    size: int = 0
    ranges: int = 0


class HeldCodes:
    """The first blocks of a segment, as far as they were read."""

    def __init__(self, segment: Segment) -> None:
        rows = int(segment.lists.starts[-1])
        self.present: Mask = np.zeros(len(segment.lists.counts), np.bool_)
        self.words = Words.empty(rows, segment.shape.dimension)
        self.files, self.positions = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
        self.size = 0

    def put(self, segment: Segment, number: int, data: bytes) -> None:
        block = segment.code_block(number, data)
        rows = slice(*segment.lists.starts[number : number + 2])
        self.words.put(rows, as_words(block.codes))
        self.files[rows], self.positions[rows] = block.files, block.positions
        self.present[number] = True
        self.size += len(data)


class HeldBytes:
    """The second blocks of a segment, as far as they were read."""

    def __init__(self, segment: Segment) -> None:
        rows = int(segment.lists.starts[-1])
        self.present: Mask = np.zeros(len(segment.lists.counts), np.bool_)
        self.values = np.empty((rows, segment.shape.dimension), np.uint8)
        self.scales = np.empty((rows, 3), np.float32)
        self.size = 0

    def put(self, segment: Segment, number: int, data: bytes) -> None:
        block = segment.byte_block(number, data)
        rows = slice(*segment.lists.starts[number : number + 2])
        self.values[rows], self.scales[rows] = block.values, block.scales
        self.present[number] = True
        self.size += len(data)


Held = HeldCodes | HeldBytes
AnyHeld = TypeVar("AnyHeld", HeldCodes, HeldBytes)


class Blocks:
    """Reads the blocks of segments; any number of threads at a time.

    Over the limit, all of the segment that was not used for longest is given up: searches that still use it keep it.
    """

    def __init__(self, read_range: ReadRange, *, max_bytes: int = KEPT_BYTES) -> None:
        self._read_range, self._max = read_range, max_bytes
        self._held: OrderedDict[tuple[str, type[Held]], Held] = OrderedDict()
        self._lock = Lock()

    def codes(self, segment: Segment, lists: Numbers, fetched: Fetched) -> HeldCodes:
        """What is held of a segment, with the first blocks of some lists."""
        held = self._get(HeldCodes, segment)
        assert isinstance(held, HeldCodes)
        return self._read(held, segment, lists, segment.code_range, fetched)

    def refined(self, segment: Segment, lists: Numbers, fetched: Fetched) -> HeldBytes:
        """What is held of a segment, with the second blocks of some lists."""
        held = self._get(HeldBytes, segment)
        assert isinstance(held, HeldBytes)
        return self._read(held, segment, lists, segment.bytes_range, fetched)

    def _get(self, kind: type[Held], segment: Segment) -> Held:
        key = (segment.location, kind)
        with self._lock:
            if key not in self._held:
                self._held[key] = kind(segment)
            self._held.move_to_end(key)
            return self._held[key]

    def _read(
        self,
        held: AnyHeld,
        segment: Segment,
        lists: Numbers,
        span: Callable[[int], tuple[int, int]],
        fetched: Fetched,
    ) -> AnyHeld:
        missing = lists[~held.present[lists]]
        if not len(missing):
            return held
        for number, data in self._fetch(segment.location, {int(n): span(int(n)) for n in missing}, fetched):
            held.put(segment, number, data)
        with self._lock:
            while sum(kept.size for kept in self._held.values()) > self._max:
                self._held.popitem(last=False)
        return held

    def _fetch(self, location: str, spans: dict[int, tuple[int, int]], fetched: Fetched) -> Iterator[tuple[int, bytes]]:
        groups = _join_ranges(spans)
        fetched.ranges += len(groups)
        fetched.size += sum(end - start for start, end, _ in groups)

        def read(group: tuple[int, int, list[int]]) -> bytes:
            # A file that ends too early gives blocks whose checksums are wrong.
            return self._read_range(location, group[0], group[1])

        if len(groups) < 2:
            results: Iterator[bytes] = map(read, groups)
            yield from _cut(groups, results, spans)
            return
        with ThreadPoolExecutor(min(AT_ONCE, len(groups))) as pool:
            yield from _cut(groups, pool.map(read, groups), spans)


def _join_ranges(spans: dict[int, tuple[int, int]]) -> list[tuple[int, int, list[int]]]:
    """Ranges that lie near each other as one, each with the lists that lie in it.

    >>> _join_ranges({1: (0, 10), 2: (10, 30), 9: (900_000, 900_010)})
    [(0, 30, [1, 2]), (900000, 900010, [9])]
    """
    groups: list[tuple[int, int, list[int]]] = []
    for number, (start, end) in sorted(spans.items(), key=lambda entry: entry[1]):
        if groups and start - groups[-1][1] <= GAP:
            first, _, numbers = groups[-1]
            groups[-1] = (first, end, [*numbers, number])
        else:
            groups.append((start, end, [number]))
    return groups


def _cut(
    groups: Sequence[tuple[int, int, list[int]]], results: Iterator[bytes], spans: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, bytes]]:
    for (first, _, numbers), data in zip(groups, results, strict=True):
        for number in numbers:
            start, end = spans[number]
            yield number, data[start - first : end - first]
