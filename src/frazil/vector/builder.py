"""Builds the files of an index: a codebook and segments, those of a killed build again, small segments merged.

A killed build leaves files that no record names; the next build of the same plan uses those that are complete. Files
have names that follow from what they hold: two builds of the same plan write the same files, and a segment that was
encoded with another codebook is never taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.errors import DataFileUnreadable
from frazil.protocol import INDEX_FOLDER
from frazil.vector.build import SEGMENT_ROWS, BuildPlan, order_tasks, train_codebook
from frazil.vector.codebook import Codebook
from frazil.vector.engines import (
    Column,
    Engine,
    LocalEngine,
    Segments,
    facts_of,
    find_segment,
    rewrite_segment,
    write_again,
)
from frazil.vector.record import SegmentInfo
from frazil.vector.segment import Segment, digest, merge_lists, open_segment, segment_name

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.scan.planning import FileTask
    from frazil.scan.reading import RowScan
    from frazil.vector.metric import Metric
    from frazil.vector.moved import MovedRows

CHEAP_VECTORS = 65_536  # up to this size, a segment is always merged
MOST_VECTORS = 1_048_576  # that are merged into one segment: they are held in memory
MOST_DEAD = 0.3  # part of a segment's rows that may be of files that no snapshot has
GROWTH = 4  # a segment is merged when the smaller ones hold this part of its vectors

log = logging.getLogger("frazil.vector")

Progress = Callable[[str, int, int], None]  # what is done, how much of it, of how much


def quietly(step: str, done: int, total: int) -> None:
    """Says nothing of the progress."""


@dataclass(frozen=True)
class Built:
    """The files of an index."""

    codebook: Codebook
    path: str  # of the codebook
    segments: tuple[SegmentInfo, ...]


@dataclass(frozen=True)
class Builder:
    """Builds the files of indexes of one table."""

    progress: Progress = quietly
    engine: Engine = field(default_factory=LocalEngine)
    segment_rows: int = SEGMENT_ROWS

    def build(self, table: Table, scan: RowScan, metric: Metric, *, seed: int, lists: int | None) -> Built:
        """An index of all files of a scan of one column."""
        tasks, column = order_tasks(scan.plan().tasks()), Column.of(scan)
        plan = BuildPlan.of(tasks, metric, seed=seed, lists=lists, segment_rows=self.segment_rows)
        facts = (column.field_id, metric, seed, plan.lists, facts_of(tasks))
        folder = f"{table.location()}/{INDEX_FOLDER}/{digest(*facts)}"
        codebook = self._codebook(folder, plan, tasks, column)
        built = Built(codebook, f"{folder}/codebook.puffin", ())
        return self._with_segments(built, plan, tasks, column)

    def extend(
        self, built: Built, tasks: Sequence[FileTask], scan: RowScan, *, seed: int, moved: MovedRows | None = None
    ) -> Built:
        """The same index with segments for further files, in the order of their names. Rows that moved keep their
        codes.
        """
        metric, lists = built.codebook.metric, built.codebook.lists
        plan = BuildPlan.of(tasks, metric, seed=seed, lists=lists, segment_rows=self.segment_rows)
        return self._with_segments(built, plan, tasks, Column.of(scan), moved)

    def prune(self, built: Built, expired: Collection[str], scan: RowScan) -> Built:
        """The same index without segments of which many rows are of files that no snapshot has any more."""
        column, infos = Column.of(scan), []
        for info in built.segments:
            segment = open_segment(column.files.io.new_input(info.path), built.codebook)
            dead = sum(file.rows for file in segment.files if file.path in expired)
            if dead <= MOST_DEAD * sum(file.rows for file in segment.files):
                infos.append(info)
            elif kept := {file.path for file in segment.files} - set(expired):
                infos.append(self._without(built, segment, kept, column))
        return Built(built.codebook, built.path, tuple(infos))

    def _without(self, built: Built, segment: Segment, kept: Collection[str], column: Column) -> SegmentInfo:
        io, files = column.files.io, [file for file in segment.files if file.path in kept]
        path = _segment_path(built, files)
        if (known := find_segment(io, path, built.codebook)) is not None:
            return known
        size = rewrite_segment(io, path, files, segment.read_some(kept), built.codebook, column.field_id)
        written = find_segment(io, path, built.codebook)
        assert written is not None
        return SegmentInfo(path, size, written.vectors, len(files))

    def _codebook(self, folder: str, plan: BuildPlan, tasks: Sequence[FileTask], column: Column) -> Codebook:
        path, io = f"{folder}/codebook.puffin", column.files.io
        try:
            return Codebook.read(io.new_input(path), metric=plan.metric)
        except DataFileUnreadable:
            pass  # not there yet, or not complete
        self.progress("sample", 0, sum(len(positions) for _, positions in plan.sample))
        vectors = self.engine.sample(column, tasks, plan.sample)
        codebook = train_codebook(
            plan, vectors, table=column.state.name, step=lambda done, rounds: self.progress("lists", done, rounds)
        )
        write_again(io, path, lambda output: codebook.write(output, field_id=column.field_id))
        return codebook

    def _with_segments(
        self,
        built: Built,
        plan: BuildPlan,
        tasks: Sequence[FileTask],
        column: Column,
        moved: MovedRows | None = None,
    ) -> Built:
        groups = tuple(tuple(tasks[number] for number in group) for group in plan.segments)
        paths = tuple(_segment_path(built, facts_of(group)) for group in groups)
        infos = self.engine.write(
            Segments(column, built.codebook, groups, paths, moved),
            lambda done: self.progress("segments", done, len(groups)),
        )
        segments = [*built.segments, *infos]
        return Built(built.codebook, built.path, self._merge(built, segments, column))

    def _merge(self, built: Built, segments: Sequence[SegmentInfo], column: Column) -> tuple[SegmentInfo, ...]:
        """Small segments as one: a search reads a range of each segment for each list."""
        groups = plan_merges([info.vectors for info in segments])
        inside = {number for group in groups for number in group}
        merged = []
        for done, group in enumerate(groups):
            self.progress("merge", done, len(groups))
            merged.append(self._merge_some(built, [segments[number] for number in group], column))
        return (*(info for number, info in enumerate(segments) if number not in inside), *merged)

    def _merge_some(self, built: Built, infos: Sequence[SegmentInfo], column: Column) -> SegmentInfo:
        io = column.files.io
        opened = [open_segment(io.new_input(info.path), built.codebook) for info in infos]
        files = [file for segment in opened for file in segment.files]
        path = _segment_path(built, files)
        if (known := find_segment(io, path, built.codebook)) is not None:
            return known
        size = rewrite_segment(io, path, files, merge_lists(opened), built.codebook, column.field_id)
        return SegmentInfo(path, size, sum(info.vectors for info in infos), len(files))


def plan_merges(sizes: Sequence[int]) -> list[list[int]]:
    """Which segments become one, by their numbers. A large one waits until there is enough to merge it with, so that a
    refresh does not write the whole index again.

    >>> plan_merges([500_000, 40, 60]), plan_merges([500_000, 400, 200_000]), plan_merges([500_000, 40])
    ([[1, 2]], [[2, 0]], [])
    """
    groups: list[list[int]] = []
    total = 0
    for number in sorted(range(len(sizes)), key=lambda number: (sizes[number], number)):
        together = total + sizes[number]
        joins = together <= CHEAP_VECTORS or (sizes[number] <= GROWTH * total and together <= MOST_VECTORS)
        if groups and joins:
            groups[-1].append(number)
            total = together
        else:
            groups.append([number])
            total = sizes[number]
    return [group for group in groups if len(group) > 1]


def _segment_path(built: Built, files: Iterable[Sequence[object]]) -> str:
    return f"{built.path.rpartition('/')[0]}/{segment_name(built.codebook.fingerprint, files)}"
