"""Which files a scan has to read, and why not the others: from a snapshot's manifest list down to its data files.

    planner = Planner(state, cache, ScanRequest(filter=EqualTo("country", "NO")))
    plan = planner.plan()
    plan.paths(), plan.report.tree()

Every layer is pruned by the same rules (prune.py), all of its members at once: manifests by the summaries in the
manifest list, data files by their partition, then by the bounds of their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import NestedField

from frazil.errors import ScanError
from frazil.scan.manifests import Manifest, ManifestList
from frazil.scan.planning.compiled import ScanCache, Term
from frazil.scan.planning.deletes import PATH_FIELD, POSITIONS, DeleteFile, DeleteIndex
from frazil.scan.planning.explain import BOUNDS, MANIFESTS, PARTITIONS, Layer, ScanReport
from frazil.scan.planning.parallel import read_ahead
from frazil.scan.planning.partitions import partition_rows
from frazil.scan.planning.prune import Ranges, Skip, skip_mask
from frazil.scan.planning.table import SnapshotState, TableState

DATA, DELETES = 0, 1
ADDED = 1
EMPTY = "empty files"
FEW, FETCHED_AT_ONCE = 3, 8  # manifests


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What is to be scanned: a snapshot (the current one when none is named), or what was appended between two."""

    filter: BooleanExpression = field(default_factory=AlwaysTrue)
    snapshot_id: int | None = None
    start_snapshot_id: int | None = None  # exclusive
    end_snapshot_id: int | None = None
    case_sensitive: bool = True
    schema_id: int | None = None  # the table's current one when none is named

    @property
    def is_incremental(self) -> bool:
        return self.end_snapshot_id is not None


@dataclass(frozen=True, slots=True)
class Unit:
    """A manifest of the scan: its place in a manifest list."""

    listed: ManifestList
    at: int

    def fact(self, name: str) -> Any:
        return self.listed.columns[name][self.at]


@dataclass(frozen=True, slots=True)
class Group:
    """The files of one manifest that are to be read; None for all of its rows."""

    unit: Unit
    manifest: Manifest
    rows: pa.Array | None

    def __len__(self) -> int:
        return len(self.manifest) if self.rows is None else len(self.rows)

    def column(self, name: str) -> pa.Array:
        values = self.manifest.columns[name]
        return values if self.rows is None else values.take(self.rows)

    def sequences(self) -> pa.Array:
        """The data sequence numbers; a file has that of its manifest when it says nothing itself."""
        return self.column("sequence").fill_null(self.unit.fact("sequence"))

    def first_rows(self) -> list[int | None]:
        """The first row id of each file: its own, or counted on from its manifest's (format 3)."""
        own, start = self.manifest.columns["first_row_id"].to_pylist(), self.unit.fact("first_row_id")
        if start is not None:
            for at, records in enumerate(self.manifest.columns["records"].to_pylist()):
                if own[at] is None:
                    own[at], start = start, start + records
        return own if self.rows is None else [own[row] for row in self.rows.to_pylist()]


@dataclass(frozen=True, slots=True)
class FileTask:
    """A data file to read, what remains to be filtered, and the deletes to apply."""

    path: str
    format: str
    rows: int
    bytes: int
    spec_id: int
    partition: tuple[object, ...]
    residual: BooleanExpression
    deletes: tuple[DeleteFile, ...]
    # its sequence number and first row id, if the planner is asked for them
    lineage: tuple[int, int | None] | None = None


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The files of a scan, manifest by manifest, and the report about those that are not among them."""

    planner: Planner
    groups: list[Group]
    report: ScanReport

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    def paths(self) -> list[str]:
        """The data files to read."""
        return [path for group in self.groups for path in group.column("path").to_pylist()]

    def tasks(self) -> Iterator[FileTask]:
        """One task a data file."""
        for group in self.groups:
            yield from self.planner.tasks(group)


class Planner:
    """Plans one scan of one table."""

    def __init__(
        self,
        table: TableState,
        cache: ScanCache,
        request: ScanRequest,
        *,
        lineage: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called between steps; what it raises ends the planning."""
        self.table, self.request, self._cache, self._lineage = table, request, cache, lineage
        self.check = check
        self.snapshots = self._resolve()
        self._filter = cache.filter(table, request.schema_id, request.filter, case_sensitive=request.case_sensitive)
        self.schema, self.bound, self.terms = self._filter.schema, self._filter.bound, self._filter.terms
        self.residuals = self._filter.residuals
        last = self.snapshots[-1].snapshot_id if self.snapshots else None
        self.report = ScanReport(
            table.name, last, self._filter.text, snapshots=len(self.snapshots), snapshots_kept=table.snapshot_count
        )

    # --- what is scanned ---------------------------------------------------------------------------------------------

    def _resolve(self) -> list[SnapshotState]:
        request = self.request
        if request.end_snapshot_id is not None:
            return self.table.appends_between(request.start_snapshot_id, request.end_snapshot_id)
        wanted = self.table.current_snapshot_id if request.snapshot_id is None else request.snapshot_id
        return [] if wanted is None else [self.table.snapshot(wanted)]

    @cached_property
    def lists(self) -> list[ManifestList]:
        """The manifest lists that are read."""
        decoded = []
        for snapshot in self.snapshots:
            if snapshot.manifest_list is None:
                raise ScanError(
                    f"{self.table.name}: snapshot {snapshot.snapshot_id} has no manifest list",
                    hint="rewrite it with Spark first",
                    snapshot=snapshot.snapshot_id,
                    table=self.table.name,
                )
            decoded.append(self._cache.manifest_list(snapshot.manifest_list))
        return decoded

    def units(self, content: int = DATA) -> list[Unit]:
        """The manifests of a kind, in order. The order is the same whenever the same scan is planned."""
        chosen = [
            Unit(listed, at)
            for listed in self.lists
            for at in range(len(listed))
            if listed.columns["content"][at] == content
        ]
        if not self.request.is_incremental:
            return chosen
        ids = {snapshot.snapshot_id for snapshot in self.snapshots}
        own = {unit.fact("path"): unit for unit in chosen if unit.fact("snapshot_id") in ids}
        return list(own.values())

    # --- pruning -----------------------------------------------------------------------------------------------------

    def plan(self) -> ScanPlan:
        """The whole plan."""
        units = self.keep_units(self.units())
        opened = (self.open(unit, content=content) for unit, content in zip(units, self.fetch(units), strict=True))
        return ScanPlan(self, [group for group in opened if len(group)], self.report)

    def fetch(self, units: Sequence[Unit]) -> Generator[bytes | None, None, None]:
        """The contents of the manifests that are not known yet, a few ahead: a store answers many questions in the time
        of one.
        """
        paths = [unit.fact("path") for unit in units]
        if sum(not self._cache.has(path) for path in paths) < FEW:
            yield from (None for _ in paths)
        else:
            yield from read_ahead(
                paths, lambda path: iter([self._cache.fetch(path)]), workers=FETCHED_AT_ONCE, ordered=True
            )

    def keep_units(self, units: Sequence[Unit], *, layer: Layer | None = None) -> list[Unit]:
        """The manifests that may have files to read."""
        layer = self.report.layer(MANIFESTS) if layer is None else layer
        layer.total += len(units)
        layer.bytes += sum(unit.fact("length") or 0 for unit in units)
        if not self.terms:
            return list(units)
        skipped: set[tuple[int, int]] = set()
        for listed in {id(unit.listed): unit.listed for unit in units}.values():
            chosen = {unit.at for unit in units if unit.listed is listed}
            for spec_id in listed.spec_ids:
                skipped |= {(id(listed), at) for at in self._skip_units(listed, spec_id, chosen, layer)}
        return [unit for unit in units if (id(unit.listed), unit.at) not in skipped]

    def _skip_units(self, listed: ManifestList, spec_id: int, chosen: set[int], layer: Layer) -> set[int]:
        rows, positions = listed.of_spec(spec_id), {field.field_id: at for at, field in enumerate(self.fields(spec_id))}

        def ranges(wanted: NestedField) -> Any:
            return listed.partition_range(spec_id, positions[wanted.field_id], wanted.field_type)

        gone: set[int] = set()
        for term, projected in self.projected(spec_id):
            self.check()
            mask = skip_mask(projected, ranges)
            hit = (
                set(rows)
                if mask is True
                else set()
                if mask is False
                else {rows[at] for at in pc.indices_nonzero(mask).to_pylist()}
            )
            fresh = (hit & chosen) - gone
            layer.skip(term, len(fresh))
            layer.bytes_skipped += sum(listed.columns["length"][at] or 0 for at in fresh)
            gone |= fresh
        return gone

    def open(self, unit: Unit, start: int = 0, stop: int | None = None, *, content: bytes | None = None) -> Group:
        """The files of a manifest, or of a part of it, that are to be read."""
        manifest = self._manifest(unit, content)
        rows = self._span(unit, manifest, start, stop)
        group = Group(unit, manifest, self._prune(unit, manifest, rows))
        self.report.files += len(group)
        self.report.rows += manifest.total_rows if group.rows is None else _sum(group.column("records"))
        self.report.bytes += manifest.total_bytes if group.rows is None else _sum(group.column("bytes"))
        return group

    def _manifest(self, unit: Unit, content: bytes | None = None) -> Manifest:
        self.check()
        path = unit.fact("path")
        self.report.manifests_read += not self._cache.has(path)
        return self._cache.manifest(path, bounds_of=self._filter.columns, content=content)

    def _span(self, unit: Unit, manifest: Manifest, start: int, stop: int | None) -> pa.Array | None:
        """The rows that are looked at; of an incremental scan only those that its snapshots added."""
        if not self.request.is_incremental:
            return (
                None
                if start == 0 and stop is None
                else pa.array(range(start, min(len(manifest), len(manifest) if stop is None else stop)))
            )
        ids = pa.array([snapshot.snapshot_id for snapshot in self.snapshots], pa.int64())
        added_by = manifest.columns["snapshot_id"].fill_null(unit.fact("snapshot_id"))
        fresh = pc.and_(pc.equal(manifest.columns["status"], ADDED), pc.is_in(added_by, value_set=ids))
        rows = pc.indices_nonzero(fresh).cast(pa.int64())
        return rows.filter(
            pc.and_(pc.greater_equal(rows, start), pc.less(rows, len(manifest) if stop is None else stop))
        )

    def _prune(self, unit: Unit, manifest: Manifest, rows: pa.Array | None) -> pa.Array | None:
        rows = self._apply(
            self.projected(unit.fact("spec_id")),
            manifest.partition_range,
            rows,
            manifest,
            self.report.layer(PARTITIONS),
        )
        rows = self._apply(self.terms, manifest.column_range, rows, manifest, self.report.layer(BOUNDS))
        return self._without_empty(manifest, rows) if self.terms else rows

    def _apply(
        self, terms: Sequence[Term], ranges: Ranges, rows: pa.Array | None, manifest: Manifest, layer: Layer
    ) -> pa.Array | None:
        """The rows that no term skips; each that is skipped counts for the first term that does."""
        sizes = manifest.columns["bytes"]
        count, size = (len(manifest), manifest.total_bytes) if rows is None else (len(rows), _sum(sizes.take(rows)))
        layer.total += count
        layer.bytes += size
        for name, term in terms:
            self.check()
            mask: Skip = skip_mask(term, ranges)
            if mask is False or (mask is not True and not mask.true_count):
                continue
            kept = pa.array([], pa.int64()) if mask is True else _keep(mask, rows)
            left = _sum(sizes.take(kept))
            layer.skip(name, count - len(kept))
            layer.bytes_skipped += size - left
            rows, count, size = kept, len(kept), left
        return rows

    def _without_empty(self, manifest: Manifest, rows: pa.Array | None) -> pa.Array | None:
        """A file without rows has none that match; a negative count says nothing."""
        if not manifest.has_empty:
            return rows
        empty = pc.equal(manifest.columns["records"], 0).fill_null(False)
        kept, layer = _keep(empty, rows), self.report.layer(BOUNDS)
        layer.skip(EMPTY, (len(manifest) if rows is None else len(rows)) - len(kept))
        return kept

    # --- by partition spec -------------------------------------------------------------------------------------------

    def spec(self, spec_id: int) -> PartitionSpec:
        known = self.table.specs.get(spec_id)
        if known is None:
            raise ScanError(
                f"{self.table.name}: a manifest was written with partition spec {spec_id}, which the metadata does "
                f"not have",
                table=self.table.name,
            )
        return known

    def fields(self, spec_id: int) -> tuple[NestedField, ...]:
        """The partition fields of a spec."""
        return self._filter.fields(self.spec(spec_id))

    def projected(self, spec_id: int) -> list[Term]:
        """The terms as predicates on the partitions of a spec."""
        return self._filter.projected(self.spec(spec_id))

    # --- tasks -------------------------------------------------------------------------------------------------------

    @cached_property
    def deletes(self) -> DeleteIndex:
        """The delete files of the snapshot. What was appended between two snapshots is what was appended, whatever
        became of it.
        """
        if self.request.is_incremental:
            return DeleteIndex()
        units = self.keep_units(self.units(DELETES), layer=Layer("delete manifests"))
        index = DeleteIndex(file for unit in units for file in self._delete_files(unit))
        self.report.delete_files = index.count
        return index

    def _delete_files(self, unit: Unit) -> Iterator[DeleteFile]:
        manifest, spec_id = self._manifest(unit), unit.fact("spec_id")
        rows = self._apply(self.projected(spec_id), manifest.partition_range, None, manifest, Layer("delete files"))
        group = Group(unit, manifest, rows)
        columns = [group.column(name).to_pylist() for name in ("path", "content", "referenced", "content_offset")]
        bounds = [_picked(manifest, name, rows) for name in ("lower", "upper")]
        partitions = partition_rows(manifest, self.fields(spec_id), rows)
        places = range(len(manifest)) if rows is None else rows.to_pylist()
        facts = zip(places, group.sequences().to_pylist(), partitions, *columns, *bounds, strict=True)
        for row, sequence, partition, path, content, referenced, offset, lower, upper in facts:
            is_vector = content == POSITIONS and offset is not None
            unpartitioned = not self.spec(spec_id).fields
            yield DeleteFile(
                manifest,
                row,
                path,
                content,
                sequence,
                spec_id,
                partition,
                referenced,
                is_vector,
                lower,
                upper,
                global_=unpartitioned,
            )

    def deletes_of(self, group: Group) -> list[list[DeleteFile]]:
        """The delete files of each file of a group."""
        self.check()
        if not self.deletes.count:
            return [[]] * len(group)
        spec_id = group.unit.fact("spec_id")
        partitions = partition_rows(group.manifest, self.fields(spec_id), group.rows)
        facts = zip(group.column("path").to_pylist(), group.sequences().to_pylist(), partitions, strict=True)
        return [self.deletes.of(path, sequence, spec_id, partition) for path, sequence, partition in facts]

    def tasks(self, group: Group) -> Iterator[FileTask]:
        """One task per file of a group."""
        spec_id = group.unit.fact("spec_id")
        residuals = self.residuals.of(self.spec(spec_id), self.fields(spec_id), group.manifest, group.rows)
        each = [residuals] * len(group) if isinstance(residuals, BooleanExpression) else residuals
        columns = (group.column(name).to_pylist() for name in ("path", "format", "records", "bytes"))
        partitions = partition_rows(group.manifest, self.fields(spec_id), group.rows)
        facts = zip(*columns, partitions, each, self.deletes_of(group), self._lineage_of(group), strict=True)
        for path, kind, records, size, partition, residual, deletes, lineage in facts:
            yield FileTask(path, kind, records, size, spec_id, partition, residual, tuple(deletes), lineage)

    def _lineage_of(self, group: Group) -> Sequence[tuple[int, int | None] | None]:
        if not self._lineage:
            return [None] * len(group)
        return list(zip(group.sequences().to_pylist(), group.first_rows(), strict=True))


def _keep(mask: pa.Array, rows: pa.Array | None) -> pa.Array:
    """The rows that a mask over the whole manifest does not skip."""
    kept = pc.invert(mask)
    return pc.indices_nonzero(kept).cast(pa.int64()) if rows is None else rows.filter(kept.take(rows))


def _sum(values: pa.Array) -> int:
    return int(pc.sum(values).as_py() or 0)


def _picked(manifest: Manifest, name: str, rows: pa.Array | None) -> list[bytes | None]:
    bounds = manifest.bounds(name, PATH_FIELD)
    return list((bounds if rows is None else bounds.take(rows)).to_pylist())
