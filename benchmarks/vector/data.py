"""What every case reads: vectors, queries, and the right answers. It needs numpy alone, as the peers do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

K = 10
QUERIES = 500  # vectors that are asked for, and not in the table
ADDED, KINDS = 0.05, 100  # share of the vectors that is appended later; every 100th vector has the same kind

Matrix = np.ndarray


@dataclass(frozen=True)
class Data:
    """Vectors in a folder, as `vectors.npy`, `added.npy` and `queries.npy`, each of length 1."""

    folder: Path
    vectors: Matrix
    added: Matrix
    queries: Matrix

    @classmethod
    def open(cls, folder: Path) -> Data:
        return cls(
            folder,
            *(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("vectors", "added", "queries")),
        )

    def truth(self, name: str) -> Matrix:
        """The rows of the nearest vectors of each query, as `write` found them: of all, of a share, or later."""
        answers: Matrix = np.load(self.folder / f"truth-{name}.npy")
        return answers

    @property
    def deleted(self) -> Matrix:
        """A tenth of the rows, chosen at random."""
        return np.sort(np.random.default_rng(5).choice(len(self.vectors), len(self.vectors) // 10, replace=False))


def write(folder: Path, vectors: Matrix) -> Data:
    """The vectors as a table and queries of it, with the right answers."""
    folder.mkdir(parents=True)
    queries, rest = vectors[:QUERIES], vectors[QUERIES:]
    added = int(len(rest) * ADDED)
    np.save(folder / "queries.npy", queries)
    np.save(folder / "added.npy", rest[:added])
    np.save(folder / "vectors.npy", rest[added:])
    data = Data.open(folder)
    rows = np.arange(len(data.vectors))
    later = np.concatenate([np.setdiff1d(rows, data.deleted), len(rows) + np.arange(added)])
    shares = {str(percent): rows[rows % KINDS < percent] for percent in (1, 10)}
    for name, chosen in {"all": rows, **shares, "later": later}.items():
        np.save(folder / f"truth-{name}.npy", _nearest(data, chosen))
    return data


def _nearest(data: Data, rows: Matrix) -> Matrix:
    """Which of some rows are nearest to each query; those that are appended come after the others."""
    best = np.empty((len(data.queries), 0), np.int64)
    scores = np.empty((len(data.queries), 0), np.float32)
    for part in np.array_split(rows, max(1, len(rows) // 20_000)):
        inside = part[part < len(data.vectors)]
        vectors = np.concatenate([data.vectors[inside], data.added[part[len(inside) :] - len(data.vectors)]])
        scores = np.concatenate([scores, data.queries @ vectors.T], axis=1)
        best = np.concatenate([best, np.tile(part, (len(best), 1))], axis=1)
        near = np.sort(np.argpartition(-scores, K, axis=1)[:, :K], axis=1)
        order = np.take_along_axis(near, np.argsort(-np.take_along_axis(scores, near, 1), 1, kind="stable"), 1)
        scores, best = (np.take_along_axis(array, order, axis=1) for array in (scores, best))
    return best
