"""The blocks of segments that searches have read: fetched in few ranges, checked once, kept in memory up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from frazil.vector.codes import Refined
from frazil.vector.segment import CodeBlock, Segment

GAP = 64 * 1024  # bytes between two blocks that are cheaper to read than to ask for twice
AT_ONCE = 16  # ranges that are asked for at the same time
KEPT_BYTES = 512 * 1024 * 1024

Block = TypeVar("Block", CodeBlock, Refined)
ReadRange = Callable[[str, int, int], bytes]  # of a file: from, to


@dataclass
class Fetched:
    """What was read from files, and not found in memory."""

    size: int = 0
    ranges: int = 0


class _Kept(Generic[Block]):
    """Blocks by segment and list, the last used ones."""

    def __init__(self, max_bytes: int) -> None:
        self._blocks: OrderedDict[tuple[str, int], tuple[Block, int]] = OrderedDict()
        self._lock, self._bytes, self._max = Lock(), 0, max_bytes

    def get(self, key: tuple[str, int]) -> Block | None:
        with self._lock:
            if (kept := self._blocks.get(key)) is None:
                return None
            self._blocks.move_to_end(key)
            return kept[0]

    def put(self, key: tuple[str, int], block: Block, size: int) -> None:
        with self._lock:
            if key not in self._blocks:
                self._bytes += size
            self._blocks[key] = (block, size)
            while self._bytes > self._max:
                self._bytes -= self._blocks.popitem(last=False)[1][1]


class Blocks:
    """Reads the blocks of segments; any number of threads at a time."""

    def __init__(self, read_range: ReadRange, *, max_bytes: int = KEPT_BYTES) -> None:
        self._read_range = read_range
        self._codes: _Kept[CodeBlock] = _Kept(max_bytes // 2)
        self._bytes: _Kept[Refined] = _Kept(max_bytes // 2)

    def codes(self, segment: Segment, lists: Sequence[int], fetched: Fetched) -> list[CodeBlock]:
        """The first blocks of some lists."""
        return self._get(self._codes, segment, lists, segment.code_range, segment.code_block, fetched)

    def refined(self, segment: Segment, lists: Sequence[int], fetched: Fetched) -> list[Refined]:
        """The second blocks of some lists."""
        return self._get(self._bytes, segment, lists, segment.bytes_range, segment.byte_block, fetched)

    def _get(
        self,
        kept: _Kept[Block],
        segment: Segment,
        lists: Sequence[int],
        span: Callable[[int], tuple[int, int]],
        decode: Callable[[int, Any], Block],
        fetched: Fetched,
    ) -> list[Block]:
        known = {number: block for number in lists if (block := kept.get((segment.location, number))) is not None}
        missing = sorted(number for number in lists if number not in known)
        for number, data in self._fetch(segment.location, {number: span(number) for number in missing}, fetched):
            block = decode(number, data)
            kept.put((segment.location, number), block, len(data))
            known[number] = block
        return [known[number] for number in lists]

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
