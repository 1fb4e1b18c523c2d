"""Compaction: small files become few, large ones are split, deleted rows leave; by partition, in the table's sort order if it has one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.typedef import Identifier

from frazil.errors import UpkeepError
from frazil.sinks.files import WrittenFile
from frazil.sinks.layout import TableLayout
from frazil.sinks.manifests import write_added
from frazil.sinks.parquet import delete_quietly
from frazil.sinks.publish import CommitCatalog, Patience
from frazil.upkeep.entries import drop_files
from frazil.upkeep.groups import Group, LiveFile, Rules, plan_groups, why_not
from frazil.upkeep.policy import Policy
from frazil.upkeep.replacing import Counts, Outcome, Replacement
from frazil.upkeep.rewriting import Rewriter
from frazil.upkeep.survey import Survey

if TYPE_CHECKING:
    from pyiceberg.table import Table

STEP = "compact"
ROUNDS = 3  # a group that a writer has overtaken is planned anew; one that is overtaken again and again waits for the next run
COMMIT_BYTES = 2 << 30  # so much finished work is committed before more is begun
COMMIT_FILES = 5_000
COMMIT_SECONDS = 60.0


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

    @property
    def watched(self) -> frozenset[str]:
        return self.group.paths

    def holds(self, survey: Survey) -> bool:
        """Whether all its files are live, with the deletes that were applied and no others."""
        return all(survey.deletes_of(file.path) == frozenset(delete.path for delete in file.deletes) for file in self.group.files)


Finished = tuple[Group, list[WrittenFile] | UpkeepError]


class Engine(Protocol):
    """Where groups are rewritten: `LocalEngine` in this process, `SparkEngine` on executors."""

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        """Each group with its new files, as they are finished; with an error where it cannot be read, or its rows would not be the same."""


class LocalEngine:
    """One group after the other, in this process and in bounded memory."""

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        for group in groups:
            try:
                yield group, rewriter.rewrite(group)
            except UpkeepError as exc:
                yield group, exc


def plan_compaction(table: Table, policy: Policy, *, everything: bool = False) -> CompactionPlan:
    """What is worth a rewrite in the table as it was loaded."""
    rules = Rules(policy.target_file_bytes, policy.min_input_files, table.spec().spec_id, everything)
    left: Counter[str] = Counter()

    def possible() -> Iterator[LiveFile]:
        for file in Survey(table).files(rules):
            reason = why_not(file)
            if reason is None:
                yield file
            elif rules.wants(file):
                left[reason] += 1

    groups = plan_groups(possible(), rules)
    return CompactionPlan(".".join(table.name()), tuple(groups), policy.target_file_bytes, dict(left))


def ignore_group(group: Group) -> None:
    """Takes no notice of a group that is done."""


@dataclass
class Compaction:
    """The work on one table. Finished groups are committed as they come: what is in stays in, whatever happens to the rest."""

    catalog: CommitCatalog
    identifier: Identifier
    engine: Engine = field(default_factory=LocalEngine)
    patience: Patience = field(default_factory=Patience)
    on_group: Callable[[Group], None] = ignore_group

    def run(self, table: Table, plan: CompactionPlan, *, replan: Callable[[Table], CompactionPlan]) -> CompactionResult:
        """Rewrites the groups of the plan; those that were overtaken are planned anew, a few times."""
        result, groups = CompactionResult(), plan.groups
        for _ in range(ROUNDS):
            result, overtaken = self._round(table, groups, result)
            if not overtaken:
                return result
            table = self.catalog.load_table(self.identifier)
            places = {(group.spec_id, group.partition) for group in overtaken}
            groups = tuple(group for group in replan(table).groups if (group.spec_id, group.partition) in places)
        return replace(result, overtaken=len(groups))

    def _round(self, table: Table, groups: Sequence[Group], result: CompactionResult) -> tuple[CompactionResult, list[Group]]:
        rewriter, layout = Rewriter.of(table), TableLayout.of(table)
        overtaken: list[Group] = []
        problems: list[str] = []
        for done in _portions(self.engine.rewrite(rewriter, groups), problems, self.on_group):
            self.patience.on_step("files written")
            outcome = Replacement(self.catalog, self.identifier, STEP, Exchange(), self.patience).commit(done)
            for swap in outcome.deletable:
                for file in swap.files:
                    delete_quietly(layout, file.path)
            overtaken += [swap.group for swap in outcome.left_out]
            result = _add(result, outcome)
        return replace(result, problems=(*result.problems, *problems)), overtaken


def _portions(finished: Iterable[Finished], problems: list[str], on_group: Callable[[Group], None]) -> Iterator[list[Compacted]]:
    """What is finished, in portions that are worth a commit."""
    waiting: list[Compacted] = []
    began = time.monotonic()
    for group, made in finished:
        on_group(group)
        if isinstance(made, UpkeepError):
            problems.append(made.message)
            continue
        waiting.append(Compacted(group, tuple(made)))
        size, files = sum(one.group.bytes for one in waiting), sum(len(one.group.files) for one in waiting)
        if size >= COMMIT_BYTES or files >= COMMIT_FILES or time.monotonic() - began >= COMMIT_SECONDS:
            yield waiting
            waiting, began = [], time.monotonic()
    if waiting:
        yield waiting


@dataclass
class Exchange:
    """The manifests of the new snapshot. They are written once for all attempts, unless a writer has changed those that hold the groups."""

    _written: dict[tuple[int, frozenset[str]], tuple[list[ManifestFile], list[DataFile]]] = field(default_factory=dict)

    def __call__(self, survey: Survey, swaps: Sequence[Compacted], snapshot_id: int) -> tuple[list[ManifestFile], Counts]:
        """The head's manifests, with the groups' files marked as deleted, and one for the files that take their place."""
        assert survey.head is not None
        removed = frozenset(path for swap in swaps for path in swap.group.paths)
        added = [file for swap in swaps for file in swap.files]
        touched = frozenset(survey.manifests_with(removed))
        listed = {one.manifest_path: one for one in survey.head.manifests(survey.table.io)}
        if (snapshot_id, touched) not in self._written:
            changed = [listed[path] for path in sorted(touched)]
            made, dropped = drop_files(survey.table, changed, lambda file: file.file_path in removed, snapshot_id=snapshot_id)
            assert len(dropped) == len(removed)  # every file of a swap that holds is in the head
            self._written[snapshot_id, touched] = ([*write_added(survey.table, added, snapshot_id=snapshot_id), *made], dropped)
        made, dropped = self._written[snapshot_id, touched]
        return [*made, *(one for path, one in listed.items() if path not in touched)], _count(added, dropped)


def _count(added: Sequence[WrittenFile], dropped: Sequence[DataFile]) -> Counts:
    return Counts(
        {
            "added-data-files": len(added),
            "added-records": sum(file.rows for file in added),
            "added-files-size": sum(file.size_bytes for file in added),
            "deleted-data-files": len(dropped),
            "deleted-records": sum(file.record_count for file in dropped),
            "removed-files-size": sum(file.file_size_in_bytes for file in dropped),
        }
    )


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
