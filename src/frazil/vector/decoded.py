"""Vectors of data files that no index covers, decoded once for several searches: data files never change, so what was
read of them is kept by their names, up to a number of bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from threading import Lock
from typing import NamedTuple

from frazil.vector.metric import Matrix, Numbers

MOST_BYTES = 256 * 1024 * 1024  # of vectors that are kept
MOST_ASKED = 65_536  # names that are remembered


class Vectors(NamedTuple):
    """Some vectors of a file, their positions in it, and the squares of their lengths, if they are known."""

    vectors: Matrix
    positions: Numbers
    squares: Matrix | None = None

    @property
    def size(self) -> int:
        return int(self.vectors.nbytes + self.positions.nbytes)


class DecodedFiles:
    """The vectors of files that were asked for twice; any number of threads at a time."""

    def __init__(self, *, max_bytes: int = MOST_BYTES) -> None:
        self._max, self._lock, self._size = max_bytes, Lock(), 0
        self._held: OrderedDict[Hashable, list[Vectors]] = OrderedDict()
        self._asked: OrderedDict[Hashable, None] = OrderedDict()

    def fits(self, size: int) -> bool:
        """Whether as many bytes of vectors can be kept."""
        return size <= self._max

    def holds(self, key: Hashable) -> bool:
        """Whether the vectors are in memory."""
        return key in self._held

    def read(self, key: Hashable, size: int, read: Callable[[], Iterable[Vectors]]) -> Iterator[Vectors]:
        """The vectors under a key, which says all that they depend on. `size` is about the bytes that they take: files
        that do not fit are read each time.
        """
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
        if held is not None:
            yield from held
        elif self._asked_before(key) and self.fits(size):
            yield from self._keep(key, list(read()))
        else:
            yield from read()

    def _asked_before(self, key: Hashable) -> bool:
        with self._lock:
            before = key in self._asked
            self._asked[key] = None
            self._asked.move_to_end(key)
            while len(self._asked) > MOST_ASKED:
                self._asked.popitem(last=False)
        return before

    def _keep(self, key: Hashable, parts: list[Vectors]) -> list[Vectors]:
        with self._lock:
            if key not in self._held:
                self._held[key] = parts
                self._size += sum(part.size for part in parts)
            while self._size > self._max:
                self._size -= sum(part.size for part in self._held.popitem(last=False)[1])
        return parts
