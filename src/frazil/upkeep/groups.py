"""Which data files are worth a rewrite, and which of them together. Pure: it reads and decides, and does nothing.

A file needs it when it is too small or too large for the table's target size, or when much of it is deleted. Small
files are rewritten where enough of them meet in one partition; else every run would write a partition's last small file
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

MB = 1 << 20
TOO_SMALL, TOO_LARGE = 0.75, 1.8  # of the target size, as Iceberg's own rewrite has it
MANY_DELETE_FILES = 5
MUCH_DELETED = 0.3  # of a file's rows
GROUP_BYTES = 2 << 30  # what is lost at most when a writer changes a file of the group
EQUALITY = 2
DeleteKey = tuple[str, int | None]  # a file, and where in it: several deletion vectors lie in one


@dataclass(frozen=True, slots=True)
class AppliedDelete:
    """A delete file that concerns a data file."""

    path: str
    content: int
    rows: int
    is_own: bool  # all its rows are about this one file
    format: str = "PARQUET"
    ids: tuple[int, ...] = ()  # the columns that an equality delete compares
    offset: int | None = None  # where a deletion vector lies in its file, and how long it is
    length: int | None = None

    @property
    def key(self) -> DeleteKey:
        return self.path, self.offset


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of the table's current snapshot."""

    path: str
    bytes: int
    rows: int
    spec_id: int = 0
    partition: tuple[object, ...] = ()
    deletes: tuple[AppliedDelete, ...] = ()
    format: str = "PARQUET"
    sequence: int = 0  # its data sequence number
    first_row_id: int | None = None  # of format 3

    @property
    def deleted_share(self) -> float:
        """The part of its rows that is certainly deleted: a delete file for several files does not say how much it is
        about which.
        """
        own = sum(delete.rows for delete in self.deletes if delete.is_own)
        return own / self.rows if self.rows > 0 else 0.0


@dataclass(frozen=True)
class Rules:
    """What makes a file or a group worth it; with `everything`, each file is: it gets the current spec, order and
    codec.
    """

    target_bytes: int
    min_input_files: int = 5
    spec_id: int = 0
    everything: bool = False
    group_bytes: int = GROUP_BYTES
    sequence: int = 0  # of the snapshot that is looked at
    keeps_row_ids: bool = False  # the table has format 3

    @property
    def small_bytes(self) -> int:
        return int(self.target_bytes * TOO_SMALL)

    @property
    def large_bytes(self) -> int:
        return int(self.target_bytes * TOO_LARGE)

    def is_much_deleted(self, file: LiveFile) -> bool:
        return len(file.deletes) >= MANY_DELETE_FILES or file.deleted_share >= MUCH_DELETED

    def wants(self, file: LiveFile) -> bool:
        wrong_size = file.bytes < self.small_bytes or file.bytes > self.large_bytes
        return self.everything or wrong_size or self.is_much_deleted(file)


@dataclass(frozen=True)
class Group:
    """Files that are rewritten together. Those of an older partition spec have no partition in common: their rows are
    partitioned again.
    """

    files: tuple[LiveFile, ...]
    spec_id: int
    partition: tuple[object, ...] = ()
    sequence: int = 0  # of the snapshot that was looked at: all its deletes are known

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @cached_property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.files)

    def files_after(self, target_bytes: int) -> int:
        """About how many files will take their place."""
        return max(-(-self.bytes // target_bytes), 1)


def why_not(file: LiveFile, *, keeps_row_ids: bool = False) -> str | None:
    """Why a file cannot be rewritten here, if so."""
    if file.format != "PARQUET":
        return f"is {file.format}, which is not read here"
    if any(delete.format not in ("PARQUET", "PUFFIN") for delete in file.deletes):
        return "has deletes in a format that is not read here"
    if keeps_row_ids and file.first_row_id is None:
        return "has no row ids since the upgrade to format 3: the next commit of a writer gives them"
    return None


def plan_groups(files: Iterable[LiveFile], rules: Rules) -> list[Group]:
    """The groups that are worth it, the largest saving of files first.

    >>> files = [LiveFile(f"f{n}", 10 * MB, 100) for n in range(6)] + [LiveFile("big", 100 * MB, 1000)]
    >>> [sorted(group.paths) for group in plan_groups(files, Rules(target_bytes=100 * MB))]
    [['f0', 'f1', 'f2', 'f3', 'f4', 'f5']]
    """
    places: dict[tuple[int, tuple[object, ...]], list[LiveFile]] = defaultdict(list)
    for file in files:
        if rules.wants(file) and why_not(file, keeps_row_ids=rules.keeps_row_ids) is None:
            # Rows of an older spec go to many partitions of the current one: together they make fewer files.
            is_current = file.spec_id == rules.spec_id
            places[file.spec_id, file.partition if is_current else ()].append(file)
    bins = [(place, some) for place, files in places.items() for some in _bins(files, rules.group_bytes)]
    groups = [Group(tuple(some), *place, rules.sequence) for place, some in bins if _is_worth_it(some, rules)]
    return sorted(
        groups, key=lambda group: (group.files_after(rules.target_bytes) - len(group.files), sorted(group.paths)[0])
    )


def _bins(files: Sequence[LiveFile], most_bytes: int) -> list[list[LiveFile]]:
    """The files in bins of a size, in the order of their names: files that were written one after the other stay
    together.
    """
    bins: list[list[LiveFile]] = []
    size = most_bytes + 1
    for file in sorted(files, key=lambda member: member.path):
        if size + file.bytes > most_bytes:
            bins.append([])
            size = 0
        bins[-1].append(file)
        size += file.bytes
    return bins


def _is_worth_it(files: Sequence[LiveFile], rules: Rules) -> bool:
    if rules.everything or len(files) >= rules.min_input_files:
        return True
    if any(file.bytes > rules.large_bytes or rules.is_much_deleted(file) for file in files):
        return True
    return len(files) > 1 and sum(file.bytes for file in files) > rules.target_bytes
