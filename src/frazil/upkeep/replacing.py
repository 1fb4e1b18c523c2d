"""The commit of upkeep: a `replace` snapshot that yields to writers.

What was prepared comes in pieces, called swaps: files that go, files that take their place. Before every attempt the
table is loaded again and each swap is held against it. A swap whose files are gone, or have deletes that were not
applied, is left out, and the others are committed; whatever else was committed meanwhile (appends above all) is carried
over as it is. The commit requires that main is still where it was read, so nothing can slip in between.

Files of a swap that was left out may be deleted only if no attempt with them is in doubt: a commit whose reply was lost
may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Operation, Summary, update_snapshot_summaries
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import CommitConflict
from frazil.protocol import SUMMARY_PROGRESS, SUMMARY_UPKEEP
from frazil.upkeep.survey import Survey, manifest_cache
from frazil.write.commit import (
    MAIN,
    CommitCatalog,
    Patience,
    guards,
    move_ref,
    next_snapshot,
    property_key,
    totals_before,
    until_decided,
    write_list,
    write_list_v3,
)

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True)
class Counts:
    """What a replace snapshot tells of the files that came and went, in the words of a snapshot's summary."""

    values: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        names = self.values.keys() | other.values.keys()
        return Counts({name: self.values.get(name, 0) + other.values.get(name, 0) for name in sorted(names)})


class Swap(Protocol):
    """A piece of work that can be committed with others, or left out by itself."""

    @property
    def watched(self) -> frozenset[str]:
        """The data files that it is about."""

    def holds(self, survey: Survey) -> bool:
        """Whether the table still is as the swap found it, as far as it is concerned."""


S = TypeVar("S", bound=Swap)
Exchange = Callable[["Survey", Sequence[S], int], tuple[list[ManifestFile], Counts]]


@dataclass(frozen=True)
class Outcome(Generic[S]):
    """What came of it: the swaps that are in, those that were left out, and of these the ones whose files nobody may
    delete.
    """

    committed: tuple[S, ...] = ()
    left_out: tuple[S, ...] = ()
    in_doubt: tuple[S, ...] = ()
    snapshot_id: int | None = None

    @property
    def deletable(self) -> tuple[S, ...]:
        """Swaps that are certainly in no commit, now or later."""
        return tuple(swap for swap in self.left_out if swap not in self.in_doubt)


@dataclass
class Replacement(Generic[S]):
    """Commits swaps to main of one table. `exchange` gives the manifests of the new snapshot from those of the table as
    it is now.
    """

    catalog: CommitCatalog
    identifier: Identifier
    step: str
    exchange: Exchange[S]
    patience: Patience = field(default_factory=Patience)

    def commit(self, swaps: Sequence[S]) -> Outcome[S]:
        """Brings in as many of the swaps as still hold, in one snapshot; none of them, if none does."""
        sent: dict[int, tuple[S, ...]] = {}
        ids: dict[tuple[S, ...], int] = {}
        doubtful: list[S] = []
        cache = None

        def attempt(number: int) -> Outcome[S]:
            nonlocal cache
            self.patience.on_step("before load")
            table = self.catalog.load_table(self.identifier)
            cache = cache or manifest_cache(table.io)
            # its id is new and random: if it is there, that attempt has happened
            for snapshot_id, some in sent.items():
                if table.metadata.snapshot_by_id(snapshot_id) is not None:
                    return Outcome(some, _without(swaps, some), tuple(doubtful), snapshot_id)
            survey = Survey(table, cache)
            survey.watch(frozenset().union(*(swap.watched for swap in swaps)))
            alive = tuple(swap for swap in swaps if swap.holds(survey))
            if not alive:
                return Outcome((), tuple(swaps), tuple(doubtful))
            # The same swaps keep the snapshot's id: what was written for one attempt serves the next.
            snapshot_id = ids.setdefault(alive, table.metadata.new_snapshot_id())
            change = self._change(survey, alive, snapshot_id, number)
            sent[snapshot_id] = alive
            self.patience.on_step("before commit")
            try:
                self.catalog.commit_changes([change])
            except CommitConflict:
                raise  # certain: this attempt never happens
            except BaseException:
                doubtful.extend(alive)
                raise
            self.patience.on_step("after commit")
            return Outcome(alive, _without(swaps, alive), tuple(doubtful), snapshot_id)

        return until_decided(attempt, name=".".join(self.identifier), patience=self.patience)

    def _change(self, survey: Survey, swaps: tuple[S, ...], snapshot_id: int, attempt: int) -> Change:
        table, metadata, parent = survey.table, survey.table.metadata, survey.head
        assert parent is not None  # files to replace come from it
        manifests, counts = self.exchange(survey, swaps, snapshot_id)
        manifests = [one for one in manifests if one.added_snapshot_id == snapshot_id or _has_files(one)]
        before = totals_before(table.io, parent, most_manifests=None)
        summary = summarise(before, counts, {SUMMARY_UPKEEP: self.step, **_progress(metadata)})
        where = {"snapshot_id": snapshot_id, "parent_id": parent.snapshot_id, "attempt": attempt}
        row_ids: dict[str, int] = {}
        if metadata.format_version >= 3:
            listed = write_list_v3(table, manifests, **where)
            location, row_ids = listed.location, {"first_row_id": listed.first_row_id, "added_rows": listed.added_rows}
        else:
            location = write_list(table, manifests, **where)
        snapshot = next_snapshot(metadata, parent, snapshot_id=snapshot_id, manifest_list=location, summary=summary)
        snapshot = snapshot.model_copy(update=row_ids)
        updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(metadata, MAIN, snapshot_id))
        return Change(self.identifier, guards(metadata, MAIN, parent.snapshot_id), updates)


def _has_files(manifest: ManifestFile) -> bool:
    """Whether a manifest names a live file; one that only tells what an older snapshot has deleted has no place in a
    new list.
    """
    counts = (manifest.added_files_count, manifest.existing_files_count)
    return None in counts or sum(counts) > 0  # type: ignore[arg-type]  # none of them is None


def summarise(before: Mapping[str, str] | None, counts: Counts, extra: dict[str, str]) -> Summary:
    """The summary of a replace snapshot, with the totals carried on. PyIceberg counts only for other operations; the
    sums are the same.
    """
    told = {key: str(value) for key, value in counts.values.items() if value}
    counted = update_snapshot_summaries(Summary(Operation.OVERWRITE, **told, **extra), before)
    return Summary(Operation.REPLACE, **counted.additional_properties)


def _progress(metadata: TableMetadata) -> dict[str, str]:
    """The progress of the sinks, unchanged; said again, for the snapshots before may expire."""
    text = metadata.properties.get(property_key())
    return {} if text is None else {SUMMARY_PROGRESS: text}


def _without(swaps: Sequence[S], some: Sequence[S]) -> tuple[S, ...]:
    return tuple(swap for swap in swaps if swap not in some)
