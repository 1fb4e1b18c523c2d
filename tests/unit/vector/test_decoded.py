"""Decoded vectors of data files: kept from the second time on, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from frazil.vector.decoded import DecodedFiles, Vectors

ROWS, SIZE = 10, 10 * (4 * 4 + 8)


class Files:
    """Files of ten vectors, and which of them were read."""

    def __init__(self, max_bytes: int) -> None:
        self.read: list[str] = []
        self.decoded = DecodedFiles(max_bytes=max_bytes)

    def get(self, name: str, size: int = SIZE) -> int:
        """How many vectors a file has."""
        return sum(len(part.vectors) for part in self.decoded.read(name, size, lambda: self._decode(name)))

    def _decode(self, name: str) -> Iterator[Vectors]:
        self.read.append(name)
        for start in (0, 5):
            yield Vectors(np.ones((5, 4), np.float32), np.arange(start, start + 5))


def test_a_file_is_kept_when_it_is_asked_for_again() -> None:
    files = Files(10 * SIZE)
    assert [files.get("a") for _ in range(4)] == [ROWS] * 4
    assert files.read == ["a", "a"]
    assert files.decoded.holds("a")
    assert not files.decoded.holds("b")


def test_files_that_were_not_used_for_longest_give_way() -> None:
    files = Files(2 * SIZE)
    for name in "aabbacc":
        files.get(name)
    assert [name for name in "abc" if files.decoded.holds(name)] == ["a", "c"]


def test_a_file_that_would_fill_the_memory_is_read_each_time() -> None:
    files = Files(2 * SIZE)
    assert [files.get("large", size=2 * SIZE + 1) for _ in range(3)] == [ROWS] * 3
    assert files.read == ["large"] * 3
    assert not files.decoded.holds("large")
