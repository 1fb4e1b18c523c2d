"""Builds the files of an index from data files: a sample, a codebook from it, and segments.

The plan says which rows are sampled and which files make a segment, from the names and row counts of the files and a
seed alone. One process that carries it out and many tasks that share it write the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from frazil.errors import VectorError
from frazil.vector.codebook import Codebook
from frazil.vector.columns import find_dimension, to_matrix
from frazil.vector.kmeans import CHUNK, Step, quietly
from frazil.vector.metric import Matrix, Metric, Numbers
from frazil.vector.segment import Collector

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask
    from frazil.scan.reading import FileReader
    from frazil.vector.moved import MovedRows

SEGMENT_ROWS = 262_144
SAMPLED = 64  # vectors for each list
MOST_SAMPLED = 524_288
MOST_LISTS = 65_536


@dataclass(frozen=True)
class BuildPlan:
    """What becomes the files of an index."""

    metric: Metric
    seed: int
    lists: int
    sample: tuple[tuple[int, Numbers], ...]  # positions by the number of the file
    segments: tuple[tuple[int, ...], ...]  # numbers of files
    rows: int

    @classmethod
    def of(
        cls,
        tasks: Sequence[FileTask],
        metric: Metric,
        *,
        seed: int,
        lists: int | None = None,
        segment_rows: int = SEGMENT_ROWS,
    ) -> BuildPlan:
        """A plan for files in the order of their names."""
        rows = [task.rows for task in tasks]
        lists = lists or count_lists(sum(rows))
        return cls(metric, seed, lists, _choose_sample(tasks, lists, seed), _group(rows, segment_rows), sum(rows))


def count_lists(rows: int) -> int:
    """Four times the square root of the rows, at least 1.

    >>> count_lists(1_000_000), count_lists(0)
    (4000, 1)
    """
    return int(min(max(4 * rows**0.5, 1), MOST_LISTS))


def order_tasks(tasks: Iterable[FileTask]) -> list[FileTask]:
    """The files with all of their rows, in the order of their names: a row that one snapshot deletes is in another."""
    whole = (replace(task, deletes=(), residual=AlwaysTrue()) for task in tasks)
    return sorted(whole, key=lambda task: task.path)


def train_codebook(plan: BuildPlan, columns: Sequence[pa.Array], *, table: str, step: Step = quietly) -> Codebook:
    """A codebook for the sample of a plan, in the order of the plan."""
    counts = [dimension for column in columns if (dimension := find_dimension(column))]
    if not counts:
        raise VectorError(
            f"{table} has no vectors to build an index from", hint="write rows first", table=table, problem="empty"
        )
    dimension = max(sorted(set(counts)), key=counts.count)
    vectors = np.concatenate([to_matrix(column, dimension, plan.metric)[0] for column in columns])
    if not len(vectors):
        raise VectorError(f"{table} has no vector that has a distance", table=table, problem="empty")
    return Codebook.train(vectors, plan.lists, plan.metric, seed=plan.seed, rows=plan.rows, step=step)


def collect_segment(
    codebook: Codebook, tasks: Sequence[FileTask], reader: FileReader, moved: MovedRows | None = None
) -> Collector:
    """The encoded vectors of some files."""
    collector = Collector(codebook, moved)
    for task in tasks:
        number = collector.add_file(task.path, task.rows)
        for positions, vectors in _chunks(task, reader, codebook):
            collector.add(number, positions, vectors)
    return collector


def _chunks(task: FileTask, reader: FileReader, codebook: Codebook) -> Iterator[tuple[Numbers, Matrix]]:
    """The vectors of a file in pieces of one size, wherever its batches end: the same numbers in the same matrices."""
    position, held_positions, held = 0, np.empty(0, np.int64), np.empty((0, codebook.dimension), np.float32)
    for batch in reader.read(task):
        vectors, rows = to_matrix(batch.column(0), codebook.dimension, codebook.metric)
        held = np.concatenate([held, vectors])
        held_positions = np.concatenate([held_positions, position + np.flatnonzero(rows)])
        position += batch.num_rows
        whole = len(held) // CHUNK * CHUNK
        for start in range(0, whole, CHUNK):
            yield held_positions[start : start + CHUNK], held[start : start + CHUNK]
        held, held_positions = held[whole:], held_positions[whole:]
    if len(held):
        yield held_positions, held


def _choose_sample(tasks: Sequence[FileTask], lists: int, seed: int) -> tuple[tuple[int, Numbers], ...]:
    """Positions of each file by its share of the rows. A file's own are the same whatever other files there are."""
    total = sum(task.rows for task in tasks)
    wanted = min(total, max(SAMPLED * lists, 10_000), MOST_SAMPLED)
    sample = []
    for number, task in enumerate(tasks):
        count = min(task.rows, -(-wanted * task.rows // max(total, 1)))
        if count:
            digest = hashlib.sha256(f"{seed} {task.path}".encode()).digest()
            random = np.random.default_rng(int.from_bytes(digest[:8], "little"))
            sample.append((number, np.sort(random.choice(task.rows, size=count, replace=False))))
    return tuple(sample)


def _group(rows: Sequence[int], segment_rows: int) -> tuple[tuple[int, ...], ...]:
    """Files that follow each other, up to the rows of a segment; a file is never split.

    >>> _group([200_000, 60_000, 10_000], 262_144)
    ((0, 1), (2,))
    """
    groups: list[list[int]] = []
    size = 0
    for number, count in enumerate(rows):
        if not groups or (size and size + count > segment_rows):
            groups.append([])
            size = 0
        groups[-1].append(number)
        size += count
    return tuple(map(tuple, groups))
