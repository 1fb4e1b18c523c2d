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

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import CommitConflict
from frazil.protocol import SUMMARY_PROGRESS, SUMMARY_UPKEEP
from frazil.scan.planning import DELETES
from frazil.upkeep.groups import DeleteKey
from frazil.upkeep.survey import Survey, manifest_cache
from frazil.write.commit import (
    MAIN,
    CommitCatalog,
    Counts,
    Draft,
    RetryPolicy,
    as_added,
    count_added,
    count_dropped,
    drop_files,
    file_key,
    guards,
    property_key,
    until_decided,
    write_by_spec,
)

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


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
    """What came of it: the swaps that are in, those that were left out, and of these the ones whose files must not be
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
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def commit(self, swaps: Sequence[S]) -> Outcome[S]:
        """Brings in as many of the swaps as still hold, in one snapshot; none of them, if none does."""
        sent: dict[int, tuple[S, ...]] = {}
        ids: dict[tuple[S, ...], int] = {}
        doubtful: list[S] = []
        cache = None

        def attempt(number: int) -> Outcome[S]:
            nonlocal cache
            self.retry.on_step("before load")
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
            self.retry.on_step("before commit")
            try:
                self.catalog.commit_changes([change])
            except CommitConflict:
                raise  # certain: this attempt never happens
            except BaseException:
                doubtful.extend(alive)
                raise
            self.retry.on_step("after commit")
            return Outcome(alive, _without(swaps, alive), tuple(doubtful), snapshot_id)

        return until_decided(attempt, name=".".join(self.identifier), retry=self.retry)

    def _change(self, survey: Survey, swaps: tuple[S, ...], snapshot_id: int, attempt: int) -> Change:
        metadata, parent = survey.table.metadata, survey.head
        assert parent is not None  # files to replace come from it
        manifests, counts = self.exchange(survey, swaps, snapshot_id)
        draft = Draft(survey.table, MAIN, parent, snapshot_id, attempt)
        summary = {SUMMARY_UPKEEP: self.step, **_progress(metadata)}
        snapshot = draft.write(Operation.REPLACE, manifests, counts, summary, most_manifests=None)
        return Change(self.identifier, guards(metadata, MAIN, parent.snapshot_id), draft.updates(snapshot))


class FileSwap(Swap, Protocol):
    """A swap of files: data files and delete files that go, and those that take their place."""

    @property
    def removed_files(self) -> frozenset[str]:
        """The data files that go."""

    @property
    def removed_deletes(self) -> frozenset[DeleteKey]:
        """The delete files and deletion vectors that go."""

    def sequence(self, survey: Survey) -> int | None:
        """The sequence number of the new files; None: that of the commit."""

    def added(self, dropped: Mapping[DeleteKey, DataFile]) -> list[DataFile]:
        """The files that come, in the place of those that were dropped."""


F = TypeVar("F", bound=FileSwap)


@dataclass
class FileExchange(Generic[F]):
    """The manifests of a snapshot that swaps files. They are written once for all attempts, unless a writer has changed
    those that name the files.
    """

    content: ManifestContent = ManifestContent.DATA  # of the files that come
    _written: dict[tuple[object, ...], tuple[list[ManifestFile], Counts]] = field(default_factory=dict)

    def __call__(self, survey: Survey, swaps: Sequence[F], snapshot_id: int) -> tuple[list[ManifestFile], Counts]:
        """The head's manifests, with the old files marked as deleted, and new ones for the files that take their
        place.
        """
        files = frozenset[str]().union(*(swap.removed_files for swap in swaps))
        deletes = frozenset[DeleteKey]().union(*(swap.removed_deletes for swap in swaps))
        touched = frozenset(survey.manifests_with(files)) if files else frozenset()
        if deletes:
            touched |= survey.manifests_with({path for path, _ in deletes}, DELETES)
        ages = tuple(swap.sequence(survey) for swap in swaps)
        key = (snapshot_id, touched, ages)
        if key not in self._written:
            removed = deletes | {(path, None) for path in files}
            self._written[key] = self._write(survey, list(zip(swaps, ages, strict=True)), removed, touched, snapshot_id)
        written, counts = self._written[key]
        return [*written, *(manifest for path, manifest in survey.manifests.items() if path not in touched)], counts

    def _write(
        self,
        survey: Survey,
        swaps: Sequence[tuple[F, int | None]],
        removed: frozenset[DeleteKey],
        touched: frozenset[str],
        snapshot_id: int,
    ) -> tuple[list[ManifestFile], Counts]:
        table, changed = survey.table, [survey.manifests[path] for path in sorted(touched)]
        edited, dropped = drop_files(table, changed, lambda file: file_key(file) in removed, snapshot_id=snapshot_id)
        known = {file_key(file): file for file in dropped}
        assert known.keys() == removed  # a swap that holds finds all of its files in the head
        data = [file.file_path for file in dropped if file.content == DataFileContent.DATA]
        assert len(data) == len(set(data))  # one that is listed twice is in no plan
        entries = [as_added(file, snapshot_id, age) for swap, age in swaps for file in swap.added(known)]
        added = write_by_spec(table, entries, content=self.content, snapshot_id=snapshot_id)
        return [*added, *edited], count_added(entry.data_file for entry in entries) + count_dropped(dropped)


def _progress(metadata: TableMetadata) -> dict[str, str]:
    """The progress of the sinks, unchanged; said again, for the snapshots before may expire."""
    text = metadata.properties.get(property_key())
    return {} if text is None else {SUMMARY_PROGRESS: text}


def _without(swaps: Sequence[S], some: Sequence[S]) -> tuple[S, ...]:
    return tuple(swap for swap in swaps if swap not in some)
