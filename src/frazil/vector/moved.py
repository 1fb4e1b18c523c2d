"""Rows that only moved to another file keep their codes: compaction rewrites files, not vectors.

The second look of a row, its bytes and scales, follows from the vector alone. A vector of a new file that has the bytes
of a row of a file that is gone is that row: its list and its signs are known, and only its file and position are new.
What takes long, the comparison with all centroids, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from frazil.vector.codes import Codes, Refined
from frazil.vector.metric import Numbers

SEED = 20  # of the hash; no stored bytes depend on it


@dataclass(frozen=True, eq=False)
class MovedRows:
    """Codes of rows, by a hash of their bytes."""

    hashes: Numbers  # sorted
    lists: Numbers
    codes: Codes

    @classmethod
    def of(cls, rows: Iterable[tuple[int, Codes, Refined]]) -> MovedRows | None:
        """Rows by their lists; None if there are none."""
        parts = [
            (hash_rows(refined), np.full(len(refined.values), number), codes.signs, codes.factors)
            for number, codes, refined in rows
        ]
        if not parts:
            return None
        hashes, lists, signs, factors = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], lists[order], Codes(signs[order], factors[order]))

    def find(self, refined: Refined) -> Numbers:
        """For each row its number here, or -1."""
        hashes = hash_rows(refined)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[places] == hashes, places, -1)


def bytes_of_row(dimension: int) -> int:
    """How much memory a row takes: its hash, its list, its signs and its factors.

    >>> bytes_of_row(384)
    72
    """
    return 8 + 8 + dimension // 8 + 8


def hash_rows(refined: Refined) -> Numbers:
    """64 bits of each row's bytes and scales."""
    scales = np.ascontiguousarray(refined.scales, "<f4").view(np.uint32).astype(np.uint64)
    words = np.concatenate([np.ascontiguousarray(refined.values).view(np.uint64), scales], axis=1)
    random = np.random.default_rng(SEED)
    words = words + random.integers(0, 1 << 63, words.shape[1], np.uint64)
    for _ in range(2):
        words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words ^= words >> np.uint64(33)
    sums: Numbers = (words * (random.integers(0, 1 << 63, words.shape[1], np.uint64) | np.uint64(1))).sum(axis=1)
    return sums
