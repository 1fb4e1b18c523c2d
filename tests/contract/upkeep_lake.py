"""A partitioned table on a running catalog, for the tests of its upkeep: many small files, deleted rows, and what lies
on disk.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.upkeep.compact import Compaction, CompactionPlan, CompactionResult, plan_compaction
from frazil.upkeep.expire import Expiry, ExpiryResult
from frazil.upkeep.policy import Policy
from frazil.write.commit.builder import guards, move_ref, next_snapshot
from frazil.write.commit.delete_files import POSITION_SCHEMA as DELETE_SCHEMA
from frazil.write.commit.delete_files import PositionFile
from frazil.write.commit.entries import as_added, write_entries
from frazil.write.commit.manifests import write_list
from frazil.write.commit.publish import RetryPolicy
from frazil.write.files.partitioning import partition_spec

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "day", IntegerType()), NestedField(3, "name", StringType())
)
ARROW = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("name", pa.string())])
HURRIED = RetryPolicy(give_up_seconds=120, longest_pause_seconds=0.05)


def rows(ids: Sequence[int], day: int = 1) -> pa.Table:
    return pa.table(
        [pa.array(ids), pa.array([day] * len(ids)), pa.array([f"n{item}" for item in ids])],
        schema=pa.schema([("id", pa.int64()), ("day", pa.int64()), ("name", pa.string())]),
    ).cast(ARROW)


@dataclass
class Kept:
    """A table under maintenance."""

    catalog: FrazilCatalog
    name: str = field(default_factory=lambda: f"lake.k{uuid.uuid4().hex[:8]}")
    policy: Policy = field(default_factory=Policy)

    def create(self, *partition_by: str, **options: object) -> Kept:
        spec = partition_spec(SCHEMA, partition_by)
        self.catalog.create_table(self.name, SCHEMA, partition_spec=spec, **options)  # type: ignore[arg-type]
        return self

    @property
    def identifier(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def live(self) -> Table:
        return self.catalog.load_table(self.name)

    def append(self, *ids: int, day: int = 1, branch: str = "main") -> int:
        self.live.append(rows(ids, day), branch=branch)
        return self.head(branch)

    def head(self, ref: str = "main") -> int:
        snapshot = self.live.snapshot_by_name(ref)
        assert snapshot is not None
        return snapshot.snapshot_id

    def ids(self, snapshot_id: int | None = None) -> list[int]:
        return sorted(self.live.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())

    def scan(self) -> pa.Table:
        """The rows as our own scan reads them: PyIceberg knows no equality deletes."""
        return Lake(catalog=self.catalog).table(self.name).scan().to_arrow()

    def scanned(self) -> list[int]:
        return sorted(self.scan()["id"].to_pylist())

    def paths(self, snapshot_id: int | None = None) -> list[str]:
        return sorted(task.file.file_path for task in self.live.scan(snapshot_id=snapshot_id).plan_files())

    def summary(self) -> Mapping[str, str]:
        snapshot = self.live.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def plan(self, **options: bool) -> CompactionPlan:
        return plan_compaction(self.live, self.policy, **options)

    def compact(self, plan: CompactionPlan | None = None, *, retry: RetryPolicy = HURRIED) -> CompactionResult:
        work = Compaction(self.catalog, self.identifier, retry=retry)
        return work.run(self.live, plan or self.plan(), replan=lambda table: plan_compaction(table, self.policy))

    def expire(self, *, now_ms: int, retry: RetryPolicy = HURRIED, **policy: object) -> ExpiryResult:
        rules = replace(self.policy, **policy)  # type: ignore[arg-type]
        return Expiry(self.catalog, self.identifier, rules, lambda: now_ms, retry).run()

    # --- deletes, as an engine writes them ---------------------------------------------------------------------------

    def delete(self, *ids: int) -> int:
        """Deletes rows merge-on-read: one position delete file for each data file, as Spark does."""
        table = self.live
        result = [(file, self._positions(table, file, ids)) for file in self.files()]
        return self.add_deletes([self._write_positions(table, [item]) for item in result if item[1]])

    def delete_together(self, *ids: int) -> int:
        """The same with one delete file for all data files, which must lie in one partition, as Flink does."""
        table = self.live
        together = [(file, self._positions(table, file, ids)) for file in self.files()]
        return self.add_deletes(
            [
                self._write_positions(
                    table, sorted((item for item in together if item[1]), key=lambda item: item[0].file_path)
                )
            ]
        )

    def delete_equal(self, *values: int | str, partition: tuple[int, ...] | None = (1,), spec_id: int = 0) -> int:
        """Deletes all older rows of a partition with these ids (or names), unseen, as a stream of upserts does."""
        table = self.live
        path = f"{table.location()}/data/{uuid.uuid4()}-equal.parquet"
        name, field_id = ("id", 1) if isinstance(values[0], int) else ("name", 3)
        schema = pa.schema([pa.field(name, ARROW.field(name).type, metadata={"PARQUET:field_id": str(field_id)})])
        with table.io.new_output(path).create() as out:
            pq.write_table(pa.table([pa.array(values)], schema=schema), out, store_schema=False)
            size = out.tell()
        facts = {
            "file_path": path,
            "file_format": FileFormat.PARQUET,
            "record_count": len(values),
            "file_size_in_bytes": size,
        }
        facts |= {
            "content": DataFileContent.EQUALITY_DELETES,
            "partition": Record(*(partition or ())),
            "equality_ids": [field_id],
        }
        arguments = DataFile.from_args(**facts)
        arguments.spec_id = spec_id
        return self.add_deletes([arguments])

    def add_deletes(self, files: Sequence[DataFile]) -> int:
        """Commits delete files."""
        table = self.live
        metadata, parent = table.metadata, table.current_snapshot()
        assert parent is not None
        snapshot_id = metadata.new_snapshot_id()
        entries = [as_added(file, snapshot_id) for file in files]
        manifest = write_entries(
            table, entries, spec_id=files[0].spec_id, content=ManifestContent.DELETES, snapshot_id=snapshot_id
        )
        manifests = [*parent.manifests(table.io), manifest]
        location = write_list(table, manifests, snapshot_id=snapshot_id, parent_id=parent.snapshot_id, attempt=1)
        summary = Summary(Operation.DELETE, **{"added-delete-files": str(len(files))})
        snapshot = next_snapshot(metadata, parent, snapshot_id=snapshot_id, manifest_list=location, summary=summary)
        updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(metadata, "main", snapshot_id))
        self.catalog.commit_changes([Change(self.identifier, guards(metadata, "main", parent.snapshot_id), updates)])
        return snapshot_id

    def files(self) -> list[DataFile]:
        """The live data files."""
        table, head = self.live, self.live.current_snapshot()
        assert head is not None
        data = [manifest for manifest in head.manifests(table.io) if manifest.content == ManifestContent.DATA]
        return [entry.data_file for item in data for entry in item.fetch_manifest_entry(table.io)]

    def _positions(self, table: Table, file: DataFile, ids: Sequence[int]) -> list[int]:
        with table.io.new_input(file.file_path).open() as stream:
            values = pq.read_table(stream, columns=["id"])["id"].to_pylist()
        return [at for at, value in enumerate(values) if value in ids]

    def _write_positions(self, table: Table, value: Sequence[tuple[DataFile, list[int]]]) -> DataFile:
        path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
        pairs = [(file.file_path, position) for file, positions in value for position in positions]
        rows = pa.table(
            [pa.array([path for path, _ in pairs]), pa.array([item for _, item in pairs])], schema=DELETE_SCHEMA
        )
        with table.io.new_output(path).create() as out:
            pq.write_table(rows, out, store_schema=False)
            size = out.tell()
        first, ends = value[0][0], (min(item for _, item in pairs), max(item for _, item in pairs))
        written_deletes = PositionFile(path, len(pairs), size, first.spec_id, (pairs[0][0], pairs[-1][0]), ends)
        return written_deletes.to_data_file(first.partition)

    def delete_files(self) -> set[str]:
        return {delete.file_path for task in self.live.scan().plan_files() for delete in task.delete_files}

    # --- what is on disk ---------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return Path(unquote(urlparse(self.live.location()).path))

    def on_disk(self) -> set[str]:
        return {str(path) for path in self.folder.rglob("*") if path.is_file()}


def compacted(catalog: FrazilCatalog) -> Kept:
    """Six small files, then one that holds their rows: the six are of the past alone."""
    kept = Kept(catalog).create("day")
    for number in range(6):
        kept.append(number)
    kept.compact()
    return kept


def with_deleted_rows(catalog: FrazilCatalog) -> Kept:
    """Six small files, each with a deleted row: there is work for every step."""
    kept = Kept(catalog).create("day")
    for number in range(6):
        kept.append(number, number + 10)
    kept.delete(*range(10, 16))
    return kept


def as_path(location: str) -> str:
    return urlparse(location).path


def during(action: Callable[[], object], step: str = "files written") -> RetryPolicy:
    """Does something once, when upkeep comes to a step."""
    left = [action]

    def on_step(name: str) -> None:
        if name == step and left:
            left.pop()()

    return replace(HURRIED, on_step=on_step)
