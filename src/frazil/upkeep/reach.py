"""What only expired snapshots reach: the difference of two sets of files, in bounded memory.

Manifests are compared first: one that a kept snapshot lists as well keeps all its files. What is left are the files
that expired manifests alone name. They are taken some at a time, and every kept manifest is asked for them: of what is
kept, one manifest is in memory at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.manifests import ManifestCache, ManifestList
from frazil.upkeep.paths import comparable
from frazil.upkeep.survey import manifest_cache

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

AT_ONCE = 1_000_000  # paths of candidates that are held in memory


@dataclass(frozen=True)
class Doomed:
    """Files that nothing kept leads to, with the bytes that are known of them."""

    data: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    bytes: int = 0

    def in_order(self) -> Iterator[str]:
        """The deepest first: a removal that is cut short leaves files that can still be understood."""
        yield from self.data
        yield from self.manifests
        yield from self.lists
        yield from self.statistics

    def only(self, paths: Collection[str]) -> Doomed:
        """Some of them. Sizes are not known by file: that of all is an upper bound."""
        data, manifests, lists, statistics = (
            tuple(path for path in some if path in paths)
            for some in (self.data, self.manifests, self.lists, self.statistics)
        )
        return Doomed(data, manifests, lists, statistics, self.bytes)

    def __len__(self) -> int:
        return len(self.data) + len(self.manifests) + len(self.lists) + len(self.statistics)


@dataclass
class _Candidates:
    """Paths that may go, by the form in which they are compared; with the bytes of each."""

    by_path: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, paths: pa.Array, sizes: pa.Array) -> None:
        for path, size in zip(paths.to_pylist(), sizes.to_pylist(), strict=True):
            self.by_path.setdefault(comparable(path), (path, size or 0))

    def spare(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.by_path.pop(comparable(path), None)


def find_doomed(
    table: Table,
    expired: Sequence[Snapshot],
    kept: Sequence[Snapshot],
    *,
    kept_statistics: Collection[str] | None = None,
) -> Doomed:
    """The files that expired snapshots reach and kept ones do not."""
    cache = manifest_cache(table.io, max_bytes=64 << 20)
    kept_lists, kept_manifests = set(), dict[str, str]()
    for path in _lists(kept):
        kept_lists.add(comparable(path))
        kept_manifests |= {comparable(manifest): manifest for manifest in _manifests(cache.manifest_list(path))}
    gone_lists = [path for path in _lists(expired) if comparable(path) not in kept_lists]
    gone = dict[str, tuple[str, int]]()
    for path in gone_lists:
        listed = cache.manifest_list(path)
        for manifest, length in zip(listed.columns["path"], listed.columns["length"], strict=True):
            if comparable(manifest) not in kept_manifests:
                gone[comparable(manifest)] = (manifest, length or 0)
    data, data_bytes = _data_files(cache, [path for path, _ in gone.values()], list(kept_manifests.values()))
    statistics = _statistics(table, {snapshot.snapshot_id for snapshot in expired}, kept_statistics)
    size = data_bytes + sum(length for _, length in gone.values())
    return Doomed(tuple(data), tuple(path for path, _ in gone.values()), tuple(gone_lists), tuple(statistics), size)


def _data_files(cache: ManifestCache, gone: Sequence[str], kept: Sequence[str]) -> tuple[list[str], int]:
    doomed: list[str] = []
    size = 0
    candidates = _Candidates()
    for number, path in enumerate(gone, start=1):
        # live entries: a file that an entry calls deleted is named by an older manifest as well
        manifest = cache.manifest(path)
        candidates.add(manifest.columns["path"], manifest.columns["bytes"])
        if candidates.by_path and (len(candidates.by_path) >= AT_ONCE or number == len(gone)):
            _spare_kept(cache, candidates, kept)
            doomed += [file for file, _ in candidates.by_path.values()]
            size += sum(length for _, length in candidates.by_path.values())
            candidates = _Candidates()
    return doomed, size


def _spare_kept(cache: ManifestCache, candidates: _Candidates, kept: Sequence[str]) -> None:
    for path in kept:
        if not candidates.by_path:
            return
        candidates.spare(cache.manifest(path).columns["path"].to_pylist())


def _lists(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    yield from dict.fromkeys(snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list)


def _manifests(listed: ManifestList) -> list[str]:
    return list(listed.columns["path"])


def _statistics(table: Table, expired: set[int], kept: Collection[str] | None) -> Iterator[str]:
    known = [*table.metadata.statistics, *table.metadata.partition_statistics]
    staying = (
        kept
        if kept is not None
        else [snapshot.statistics_path for snapshot in known if snapshot.snapshot_id not in expired]
    )
    spared = {comparable(path) for path in staying}
    yield from (
        snapshot.statistics_path
        for snapshot in known
        if snapshot.snapshot_id in expired and comparable(snapshot.statistics_path) not in spared
    )


def reachable(table: Table) -> Iterator[pa.Array]:
    """Every file that a table's metadata leads to, from every kept snapshot of every ref, in arrays of paths; some come
    twice.
    """
    metadata = table.metadata
    cache = manifest_cache(table.io, max_bytes=64 << 20)
    own = [table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)]
    own += [statistic.statistics_path for statistic in (*metadata.statistics, *metadata.partition_statistics)]
    seen: set[str] = set()
    yield pa.array(own, pa.string())
    for path in _lists(metadata.snapshots):
        manifests = [manifest for manifest in _manifests(cache.manifest_list(path)) if manifest not in seen]
        seen.update(manifests)
        yield pa.array([path, *manifests], pa.string())
        for manifest in manifests:
            paths = cache.manifest(manifest).columns["path"]
            yield paths if pa.types.is_string(paths.type) else pc.cast(paths, pa.string())
