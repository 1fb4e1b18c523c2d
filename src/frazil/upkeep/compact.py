"""Compaction: small files become few, large ones are split, deleted rows leave; by partition, in the table's sort order
if it has one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from pyiceberg.manifest import DataFile
from pyiceberg.typedef import Identifier

from frazil.errors import UpkeepError
from frazil.scan.planning import EQUALITY, DeleteFile, ScanCache
from frazil.upkeep.groups import DeleteKey, Group, LiveFile, Rules, plan_groups, why_not
from frazil.upkeep.own_files import OwnFileIO
from frazil.upkeep.policy import COMPACT, Policy
from frazil.upkeep.replacing import FileExchange, Outcome, Replacement
from frazil.upkeep.rewriting import Rewriter
from frazil.upkeep.survey import Survey
from frazil.vector import Builder
from frazil.write.commit import CommitCatalog, RetryPolicy
from frazil.write.files import WrittenFile, delete_quietly

if TYPE_CHECKING:
    from pyiceberg.table import Table

STEP = COMPACT
# a group that a writer has overtaken is planned again; one that is overtaken again and again waits for the next run
ROUNDS = 3
COMMIT_BYTES = 2 << 30  # so much finished work is committed before more is begun
COMMIT_FILES = 5_000
COMMIT_SECONDS = 60.0
FOREIGN = "lies outside of the table's folders"
LISTED_TWICE = "is listed more than once in the table's manifests, so its rows are read more than once"


@dataclass(frozen=True)
class CompactionPlan:
    """The groups that would be rewritten, and files that cannot be, by the reason."""

    table: str
    groups: tuple[Group, ...]
    target_bytes: int
    left: dict[str, int] = field(default_factory=dict)

    @property
    def files_before(self) -> int:
        return sum(len(group.files) for group in self.groups)

    @property
    def files_after(self) -> int:
        return sum(group.files_after(self.target_bytes) for group in self.groups)

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups)


@dataclass(frozen=True)
class CompactionResult:
    """What was done; `overtaken` groups were left to the next run, as writers kept changing their files."""

    groups: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0
    snapshots: tuple[int, ...] = ()
    overtaken: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Compacted:
    """A group and the files that take its place: one swap of the commit."""

    group: Group
    files: tuple[WrittenFile, ...]
    columns: frozenset[int] = frozenset()  # that the files have, by their ids

    @property
    def watched(self) -> frozenset[str]:
        return self.group.paths

    def holds(self, survey: Survey) -> bool:
        """Whether all its files are live, with the deletes that were applied, and no others but such as hold for the
        new files, too.
        """
        return all(self._is_as_read(file, survey) for file in self.group.files)

    def _is_as_read(self, file: LiveFile, survey: Survey) -> bool:
        now, applied = survey.deletes_of(file.path), {delete.key for delete in file.deletes}
        if now is None or survey.first_row_id(file.path) != file.first_row_id:
            return False
        return applied <= now.keys() and all(self._reaches(delete) for key, delete in now.items() if key not in applied)

    def _reaches(self, delete: DeleteFile) -> bool:
        """Whether a delete that has come since the files were read finds the rows in the new files: by their values, as
        in the old ones.

        It must be younger than what was read, and compare columns that are still there. And the rows must not have
        moved: an equality delete holds for the partitions of one spec.
        """
        if delete.content != EQUALITY or delete.sequence <= self.group.sequence:
            return False
        has_columns = self.columns.issuperset(delete.fact("equality_ids") or ())
        return has_columns and all(file.spec_id == self.group.spec_id for file in self.files)

    def sequence(self, survey: Survey) -> int | None:
        """How old the new files must be said to be: as old as what was read, if equality deletes have come since; else
        as the commit.
        """
        applied = {delete.key for file in self.group.files for delete in file.deletes}
        now = {key for file in self.group.files for key in survey.deletes_of(file.path) or ()}
        return None if now <= applied else self.group.sequence

    @property
    def removed_files(self) -> frozenset[str]:
        return self.group.paths

    @property
    def removed_deletes(self) -> frozenset[DeleteKey]:
        """The deletion vectors of the old files: they go with them."""
        return frozenset(
            delete.key for file in self.group.files for delete in file.deletes if delete.offset is not None
        )

    def added(self, dropped: Mapping[DeleteKey, DataFile]) -> list[DataFile]:
        return [file.to_data_file() for file in self.files]


Finished = tuple[Group, list[WrittenFile] | UpkeepError]


class Engine(Protocol):
    """Where groups are rewritten: `LocalEngine` in this process, `SparkEngine` on executors."""

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        """Each group with its new files, as they are finished; with an error where it cannot be read, or its rows would
        not be the same.
        """

    def index_builder(self) -> Builder:
        """What builds vector indexes at the same place."""


class LocalEngine:
    """One group after the other, in this process and in bounded memory."""

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        for group in groups:
            try:
                yield group, rewriter.rewrite(group)
            except UpkeepError as exc:
                yield group, exc

    def index_builder(self) -> Builder:
        """Builds in this process, too."""
        return Builder()


def plan_compaction(
    table: Table, policy: Policy, *, everything: bool = False, cache: ScanCache | None = None
) -> CompactionPlan:
    """What is worth a rewrite in the table as it was loaded. Manifests are read by the cache, if one is given."""
    survey, left = Survey(table, cache), Counter[str]()
    rules = Rules(
        policy.target_file_bytes,
        policy.min_input_files,
        table.spec().spec_id,
        everything,
        sequence=survey.sequence,
        keeps_row_ids=survey.keeps_row_ids,
    )

    wanted: list[LiveFile] = []
    listed = Counter[str]()
    for file in survey.files(rules):
        listed[file.path] += 1
        if rules.wants(file):
            wanted.append(file)
    possible: list[LiveFile] = []
    for file in wanted:
        reason = LISTED_TWICE if listed[file.path] > 1 else why_not(file, keeps_row_ids=survey.keeps_row_ids)
        if isinstance(table.io, OwnFileIO) and not table.io.holds(file.path):
            reason = FOREIGN
        if reason is None:
            possible.append(file)
        else:
            left[reason] += 1
    groups = plan_groups(possible, rules)
    return CompactionPlan(".".join(table.name()), tuple(groups), policy.target_file_bytes, dict(left))


def ignore_group(group: Group) -> None:
    """Takes no notice of a group that is done."""


@dataclass
class Compaction:
    """The work on one table. Finished groups are committed as they come: what is in stays in, whatever happens to the
    rest.
    """

    catalog: CommitCatalog
    identifier: Identifier
    engine: Engine = field(default_factory=LocalEngine)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    on_group: Callable[[Group], None] = ignore_group

    def run(self, table: Table, plan: CompactionPlan, *, replan: Callable[[Table], CompactionPlan]) -> CompactionResult:
        """Rewrites the groups of the plan; those that were overtaken are planned again, a few times."""
        result, groups = CompactionResult(), plan.groups
        for _ in range(ROUNDS):
            result, overtaken = self._round(table, groups, result)
            if not overtaken:
                return result
            table = self.catalog.load_table(self.identifier)
            places = {(group.spec_id, group.partition) for group in overtaken}
            groups = tuple(group for group in replan(table).groups if (group.spec_id, group.partition) in places)
        return replace(result, overtaken=len(groups))

    def _round(
        self, table: Table, groups: Sequence[Group], result: CompactionResult
    ) -> tuple[CompactionResult, list[Group]]:
        rewriter = Rewriter.of(table)
        overtaken: list[Group] = []
        problems: list[str] = []
        columns = frozenset(rewriter.layout.schema.field_ids)
        for some in _portions(self.engine.rewrite(rewriter, groups), problems, self.on_group):
            self.retry.on_step("files written")
            done = [Compacted(group, files, columns) for group, files in some]
            exchange = FileExchange[Compacted]()
            outcome = Replacement(self.catalog, self.identifier, STEP, exchange, self.retry).commit(done)
            for swap in outcome.deletable:
                for file in swap.files:
                    delete_quietly(rewriter.layout, file.path)
            overtaken += [swap.group for swap in outcome.left_out]
            result = _add(result, outcome)
        return replace(result, problems=(*result.problems, *problems)), overtaken


def _portions(
    finished: Iterable[Finished], problems: list[str], on_group: Callable[[Group], None]
) -> Iterator[list[tuple[Group, tuple[WrittenFile, ...]]]]:
    """What is finished, in portions that are worth a commit."""
    waiting: list[tuple[Group, tuple[WrittenFile, ...]]] = []
    began = time.monotonic()
    for group, result in finished:
        on_group(group)
        if isinstance(result, UpkeepError):
            problems.append(result.message)
            continue
        waiting.append((group, tuple(result)))
        size, files = sum(task.bytes for task, _ in waiting), sum(len(task.files) for task, _ in waiting)
        if size >= COMMIT_BYTES or files >= COMMIT_FILES or time.monotonic() - began >= COMMIT_SECONDS:
            yield waiting
            waiting, began = [], time.monotonic()
    if waiting:
        yield waiting


def _add(result: CompactionResult, outcome: Outcome[Compacted]) -> CompactionResult:
    swaps = outcome.committed
    return CompactionResult(
        groups=result.groups + len(swaps),
        files_before=result.files_before + sum(len(swap.group.files) for swap in swaps),
        files_after=result.files_after + sum(len(swap.files) for swap in swaps),
        bytes_before=result.bytes_before + sum(swap.group.bytes for swap in swaps),
        bytes_after=result.bytes_after + sum(file.size_bytes for swap in swaps for file in swap.files),
        rows=result.rows + sum(file.rows for swap in swaps for file in swap.files),
        snapshots=(*result.snapshots, *([outcome.snapshot_id] if outcome.snapshot_id is not None else [])),
        problems=result.problems,
    )
