"""Small manifests become few, each with the files of partitions that lie side by side: a filter on the partition then
reads fewer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.typedef import Identifier

from frazil.scan.planning import DATA, DELETES
from frazil.upkeep.policy import MANIFESTS, Policy
from frazil.upkeep.replacing import Replacement
from frazil.upkeep.survey import Survey
from frazil.write.commit import CommitCatalog, Counts, RetryPolicy, as_existing, portions, read_entries, write_entries

if TYPE_CHECKING:
    from pyiceberg.table import Table

STEP = MANIFESTS
TOO_SMALL = 0.75  # of the target size
ROUNDS = 3
MERGED_BYTES = 16 << 20  # of manifests whose entries are in memory together: about 90,000 files


@dataclass(frozen=True)
class ManifestFacts:
    """A manifest of the current snapshot."""

    path: str
    bytes: int
    spec_id: int = 0
    content: int = DATA
    first_row_id: int | None = None


@dataclass(frozen=True)
class Merge:
    """Manifests of one spec and kind that are rewritten together: one swap of the commit."""

    manifests: tuple[ManifestFacts, ...]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(manifest.path for manifest in self.manifests)

    @property
    def watched(self) -> frozenset[str]:
        return frozenset()

    def holds(self, survey: Survey) -> bool:
        """Whether all of them are still listed: manifests never change."""
        return {(manifest.path, manifest.first_row_id) for manifest in self.manifests} <= survey.listed


@dataclass(frozen=True)
class ManifestPlan:
    """What would be merged."""

    table: str
    merges: tuple[Merge, ...]
    target_bytes: int

    @property
    def before(self) -> int:
        return sum(len(merge.manifests) for merge in self.merges)

    @property
    def after(self) -> int:
        return sum(_parts(merge.manifests, self.target_bytes) for merge in self.merges)

    @property
    def bytes(self) -> int:
        return sum(manifest.bytes for merge in self.merges for manifest in merge.manifests)


@dataclass(frozen=True)
class ManifestResult:
    """How many manifests there were, and how many took their place."""

    before: int = 0
    after: int = 0
    snapshot_id: int | None = None
    overtaken: int = 0


def choose_merges(manifests: Sequence[ManifestFacts], *, target_bytes: int, least: int) -> list[Merge]:
    """The small manifests of each spec and kind, where there are enough of them to become fewer.

    >>> small = [ManifestFacts(f"m{n}", 1000) for n in range(5)]
    >>> [len(merge.manifests) for merge in choose_merges([*small, ManifestFacts("big", 7_900)], target_bytes=8_000, least=5)]
    [5]
    """  # noqa: E501
    places: dict[tuple[int, int], list[ManifestFacts]] = defaultdict(list)
    for manifest in manifests:
        if manifest.bytes < target_bytes * TOO_SMALL:
            places[manifest.spec_id, manifest.content].append(manifest)
    # In the order of the list, as a table that grows by time lies; portions, because their entries are in memory.
    bins = [
        some
        for _, place in sorted(places.items())
        if len(place) >= least
        for some in portions(place, lambda manifest: manifest.bytes, MERGED_BYTES)
    ]
    return [Merge(tuple(some)) for some in bins if _parts(some, target_bytes) < len(some)]


def _parts(manifests: Sequence[ManifestFacts], target_bytes: int) -> int:
    return max(-(-sum(manifest.bytes for manifest in manifests) // target_bytes), 1)


def plan_manifests(table: Table, policy: Policy) -> ManifestPlan:
    """What is worth a rewrite in the table as it was loaded."""
    seen = Survey(table)
    facts = [
        ManifestFacts(
            unit.fact("path"), unit.fact("length") or 0, unit.fact("spec_id"), content, unit.fact("first_row_id")
        )
        for content in (DATA, DELETES)
        for unit in seen.units(content)
        # After an upgrade to format 3 the rows have no ids yet; the first commit assigns them, in the order of the
        # manifest.
        if not (seen.keeps_row_ids and content == DATA and unit.fact("first_row_id") is None)
    ]
    merges = choose_merges(facts, target_bytes=policy.manifest_bytes, least=policy.min_input_files)
    return ManifestPlan(".".join(table.name()), tuple(merges), policy.manifest_bytes)


@dataclass
class Exchange:
    """The manifests of the new snapshot; what was merged for one attempt serves the next."""

    target_bytes: int
    _written: dict[tuple[int, Merge], tuple[list[ManifestFile], int]] = field(default_factory=dict)

    def __call__(self, survey: Survey, merges: Sequence[Merge], snapshot_id: int) -> tuple[list[ManifestFile], Counts]:
        """The merged manifests, and the others as they are."""
        listed = survey.manifests
        for merge in merges:
            if (snapshot_id, merge) not in self._written:
                self._written[snapshot_id, merge] = self._merge(survey.table, merge, listed, snapshot_id)
        manifests = [manifest for merge in merges for manifest in self._written[snapshot_id, merge][0]]
        replaced = {path for merge in merges for path in merge.paths}
        kept = [manifest for path, manifest in listed.items() if path not in replaced]
        counts = {"manifests-created": len(manifests), "manifests-kept": len(kept), "manifests-replaced": len(replaced)}
        return [*manifests, *kept], Counts(
            {**counts, "entries-processed": sum(self._written[snapshot_id, merge][1] for merge in merges)}
        )

    def after(self, merges: Sequence[Merge], snapshot_id: int | None) -> int:
        """How many manifests have taken the place of these."""
        return sum(len(self._written[snapshot_id, merge][0]) for merge in merges) if snapshot_id is not None else 0

    def _merge(
        self, table: Table, merge: Merge, listed: Mapping[str, ManifestFile], snapshot_id: int
    ) -> tuple[list[ManifestFile], int]:
        entries = _clustered(table, [listed[path] for path in sorted(merge.paths)])
        first = merge.manifests[0]
        content = listed[first.path].content
        manifests = [
            write_entries(table, some, spec_id=first.spec_id, content=content, snapshot_id=snapshot_id)
            for some in _slices(entries, _parts(merge.manifests, self.target_bytes))
        ]
        return manifests, len(entries)


@dataclass
class ManifestRewrite:
    """The work on one table."""

    catalog: CommitCatalog
    identifier: Identifier
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def run(self, plan: ManifestPlan, *, policy: Policy) -> ManifestResult:
        """Merges what was planned; if a writer has merged some meanwhile, it is planned again, a few times."""
        result = ManifestResult()
        for _ in range(ROUNDS):
            if not plan.merges:
                return result
            exchange = Exchange(plan.target_bytes)
            outcome = Replacement(self.catalog, self.identifier, STEP, exchange, self.retry).commit(plan.merges)
            result = ManifestResult(
                result.before + sum(len(merge.manifests) for merge in outcome.committed),
                result.after + exchange.after(outcome.committed, outcome.snapshot_id),
                outcome.snapshot_id or result.snapshot_id,
            )
            if not outcome.left_out:
                return result
            plan = plan_manifests(self.catalog.load_table(self.identifier), policy)
        return replace(result, overtaken=plan.before)


def _clustered(table: Table, manifests: Sequence[ManifestFile]) -> list[ManifestEntry]:
    """The live entries, those of one partition together and of near ones side by side."""
    entries = [as_existing(entry) for manifest in manifests for entry in read_entries(table, manifest)]
    return sorted(entries, key=lambda entry: _order(entry.data_file.partition))


def _order(partition: Any) -> tuple[tuple[bool, Any], ...]:
    """Partition values as they can be compared: NULL first; what has no order of its own by its text."""
    values = [partition[position] for position in range(len(partition))]
    return tuple((value is not None, value if isinstance(value, int | str | bytes) else str(value)) for value in values)


def _slices(entries: Sequence[ManifestEntry], parts: int) -> Iterator[Sequence[ManifestEntry]]:
    each = max(-(-len(entries) // parts), 1)
    yield from (entries[start : start + each] for start in range(0, len(entries), each))
