"""Which rows of the covered files a search may answer with: those of the scanned snapshot that the filter keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from frazil.vector.metric import Mask, Numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.vector.segment import CoveredFile

NONE, ALL, SOME = 0, 1, 2


class LiveRows:
    """For each covered file of an index, by its number: all of its rows, none, or some."""

    def __init__(self, files: Sequence[CoveredFile], whole: set[str], some: Mapping[str, Numbers]) -> None:
        """`some` has the positions that are live, in order, of the files of which not all rows are."""
        self._states = np.zeros(len(files), np.uint8)
        self._bases = np.zeros(len(files), np.int64)
        marks, rows = [], 0
        for number, file in enumerate(files):
            if file.path in whole:
                self._states[number] = ALL
            elif (positions := some.get(file.path)) is not None and len(positions):
                self._states[number], self._bases[number] = SOME, rows
                marks.append(positions + rows)
                rows += file.rows
        self._live = np.zeros(rows, np.bool_)
        for positions in marks:
            self._live[positions] = True
        self.count = sum(file.rows for file, state in zip(files, self._states, strict=True) if state == ALL)
        self.count += int(self._live.sum())
        self.everything = bool((self._states == ALL).all())

    def touched(self, starts: Numbers) -> Mask:
        """Which groups of files that follow each other, by the numbers of their first files, have a live row."""
        before = np.concatenate([[0], np.cumsum(self._states != NONE)])
        counts: Mask = before[np.append(starts[1:], len(self._states))] - before[starts]
        return counts > 0

    def mask(self, files: Numbers, positions: Numbers) -> Mask:
        """Which of some rows are live."""
        states = self._states[files]
        mask: Mask = states == ALL
        some = np.flatnonzero(states == SOME)
        if len(some):
            mask[some] = self._live[self._bases[files[some]] + positions[some]]
        return mask
