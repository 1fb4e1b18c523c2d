"""What a scan needs to know about a table: its schemas, partition specs and snapshots, from metadata as JSON or as
PyIceberg has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import NestedField

from frazil.errors import ScanError
from frazil.protocol import PROPERTY_NAME_MAPPING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

SHOWN = 5  # snapshots that an error names


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """A snapshot: where its manifests are listed, and what it followed."""

    snapshot_id: int
    parent_id: int | None
    manifest_list: str | None
    schema_id: int | None
    operation: str
    timestamp_ms: int


class TableState:
    """A table's metadata as a scan reads it. Schemas and specs are parsed when they are asked for, and once."""

    def __init__(self, name: str, metadata: Mapping[str, Any]) -> None:
        self.name = name
        self._metadata = metadata

    @staticmethod
    def of(name: str, metadata: TableMetadata) -> TableState:
        """The state of a table that PyIceberg has loaded."""
        return LoadedTableState(name, metadata)

    @property
    def uuid(self) -> str:
        return str(self._metadata["table-uuid"])

    @property
    def current_schema_id(self) -> int:
        return int(self._metadata.get("current-schema-id", 0))

    def schema(self, schema_id: int | None = None) -> Schema:
        """A schema by its id; the current one when none is given."""
        wanted = self.current_schema_id if schema_id is None else schema_id
        for schema in self._schemas(wanted):
            return schema
        raise ScanError(f"{self.name} has no schema {wanted}", table=self.name)

    def find_dropped(self, field_id: int) -> NestedField:
        """A column that an older schema had, as the last of them had it."""
        for schema in sorted(self._schemas(), key=lambda schema: -schema.schema_id):
            for field in schema.fields:
                if field.field_id == field_id:
                    return field
        raise ScanError(
            f"{self.name}: a delete file compares the field with id {field_id}, which no schema of the table has",
            table=self.name,
        )

    def _schemas(self, wanted: int | None = None) -> Iterator[Schema]:
        """All schemas, or the one with an id."""
        for stored in self._metadata.get("schemas") or [self._metadata["schema"]]:
            if wanted in (None, stored.get("schema-id", 0)):
                yield self._parse_schema(stored)

    def _parse_schema(self, stored: Mapping[str, Any]) -> Schema:
        try:
            return _schema(json.dumps(stored, sort_keys=True))
        except (ValueError, RecursionError) as exc:  # pydantic's error is a ValueError
            raise ScanError(
                f"{self.name}: schema {stored.get('schema-id', 0)} cannot be read: {str(exc).splitlines()[0]}",
                table=self.name,
            ) from exc

    @property
    def properties(self) -> Mapping[str, str]:
        return self._metadata.get("properties") or {}

    @cached_property
    def name_mapping(self) -> NameMapping | None:
        """The ids of columns in files that have none of their own."""
        text = self.properties.get(PROPERTY_NAME_MAPPING)
        return None if text is None else parse_mapping_from_json(text)

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        """All partition specs: files of every one of them may still be live."""
        return {stored["spec-id"]: self._parse_spec(stored) for stored in self._metadata.get("partition-specs", [])}

    def _parse_spec(self, stored: Mapping[str, Any]) -> PartitionSpec:
        try:
            return _spec(json.dumps(stored, sort_keys=True))
        except ValueError as exc:
            raise ScanError(
                f"{self.name}: partition spec {stored['spec-id']} cannot be read: {str(exc).splitlines()[0]}",
                table=self.name,
            ) from exc

    @property
    def default_spec_id(self) -> int:
        """The partition spec of new files."""
        return int(self._metadata.get("default-spec-id", 0))

    @property
    def current_snapshot_id(self) -> int | None:
        snapshot_id = self._metadata.get("current-snapshot-id")
        return None if snapshot_id in (None, -1) else snapshot_id

    @property
    def snapshot_count(self) -> int:
        return len(self._metadata.get("snapshots") or [])

    @property
    def statistics(self) -> list[tuple[int, str]]:
        """Snapshots that have a statistics file, the newest first, and where it is."""
        times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in self._snapshots()}
        files = [(snapshot_id, path) for snapshot_id, path in self._statistics() if snapshot_id in times]
        return sorted(files, key=lambda file: -times[file[0]])

    def _statistics(self) -> Iterator[tuple[int, str]]:
        for stored in self._metadata.get("statistics") or []:
            yield stored["snapshot-id"], stored["statistics-path"]

    def snapshot(self, snapshot_id: int) -> SnapshotState:
        """A snapshot by its id; an error says which there are."""
        for snapshot in self._snapshots(snapshot_id):
            return snapshot
        raise ScanError(
            f"{self.name} has no snapshot {snapshot_id}", hint=self._known(), table=self.name, snapshot=snapshot_id
        )

    def _snapshots(self, wanted: int | None = None) -> Iterator[SnapshotState]:
        """All snapshots, or the one with an id."""
        for stored in self._metadata.get("snapshots") or []:
            if wanted in (None, stored["snapshot-id"]):
                yield SnapshotState(
                    stored["snapshot-id"],
                    stored.get("parent-snapshot-id"),
                    stored.get("manifest-list"),
                    stored.get("schema-id"),
                    (stored.get("summary") or {}).get("operation", "append"),
                    stored["timestamp-ms"],
                )

    def appends_between(self, start_id: int | None, end_id: int) -> list[SnapshotState]:
        """The snapshots after `start_id` up to `end_id` that only added files, the oldest first."""
        line: list[SnapshotState] = []
        for snapshot in self._line(self.snapshot(end_id)):
            if snapshot.snapshot_id == start_id:
                return [snapshot for snapshot in reversed(line) if snapshot.operation == "append"]
            line.append(snapshot)
        if start_id is None:
            if line[-1].parent_id is not None:
                problem = (
                    f"what was appended before snapshot {line[-1].snapshot_id} is no longer known: the snapshots "
                    f"until then have expired"
                )
                raise ScanError(
                    f"{self.name}: {problem}",
                    hint=f"start at {line[-1].snapshot_id}, or scan all rows",
                    table=self.name,
                    snapshot=line[-1].snapshot_id,
                    problem="expired",
                )
            return [snapshot for snapshot in reversed(line) if snapshot.operation == "append"]
        raise ScanError(
            f"{self.name}: snapshot {start_id} is no ancestor of snapshot {end_id}, or has expired",
            hint=self._known(),
            table=self.name,
            snapshot=start_id,
            problem="expired",
        )

    def _line(self, snapshot: SnapshotState) -> Iterator[SnapshotState]:
        known = {kept.snapshot_id: kept for kept in self._snapshots()}
        at: SnapshotState | None = snapshot
        while at is not None:
            yield at
            at = None if at.parent_id is None else known.get(at.parent_id)

    def _known(self) -> str:
        kept = sorted(self._snapshots(), key=lambda snapshot: -snapshot.timestamp_ms)
        if not kept:
            return "it has no snapshots yet"
        shown = ", ".join(str(snapshot.snapshot_id) for snapshot in kept[:SHOWN])
        return f"it has: {shown}" + (f" and {len(kept) - SHOWN} older ones" if len(kept) > SHOWN else "")


class LoadedTableState(TableState):
    """The same from metadata that PyIceberg has parsed: nothing is parsed again."""

    def __init__(self, name: str, loaded: TableMetadata) -> None:
        self.name = name
        self._loaded = loaded

    def __reduce__(self) -> tuple[Any, ...]:
        # PyIceberg refuses to write metadata of format 3, and what it refuses is this method: its base's does the same.
        text = IcebergBaseModel.model_dump_json(self._loaded, by_alias=True)
        return from_json, (self.name, text)

    @property
    def uuid(self) -> str:
        return str(self._loaded.table_uuid)

    @property
    def current_schema_id(self) -> int:
        return self._loaded.current_schema_id

    def _schemas(self, wanted: int | None = None) -> Iterator[Schema]:
        return (schema for schema in self._loaded.schemas if wanted in (None, schema.schema_id))

    @property
    def properties(self) -> Mapping[str, str]:
        return self._loaded.properties

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        return self._loaded.specs()

    @property
    def default_spec_id(self) -> int:
        return self._loaded.default_spec_id

    @property
    def current_snapshot_id(self) -> int | None:
        snapshot_id = self._loaded.current_snapshot_id
        return None if snapshot_id == -1 else snapshot_id

    @property
    def snapshot_count(self) -> int:
        return len(self._loaded.snapshots)

    def _snapshots(self, wanted: int | None = None) -> Iterator[SnapshotState]:
        return (_state(kept) for kept in self._loaded.snapshots if wanted in (None, kept.snapshot_id))

    def _statistics(self) -> Iterator[tuple[int, str]]:
        return ((stored.snapshot_id, stored.statistics_path) for stored in self._loaded.statistics)


def from_json(name: str, text: str) -> TableState:
    """The state of a table whose metadata came from another process."""
    return TableState(name, json.loads(text))


def _state(snapshot: Snapshot) -> SnapshotState:
    operation = snapshot.summary.operation.value if snapshot.summary else "append"
    return SnapshotState(
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        snapshot.manifest_list or None,
        snapshot.schema_id,
        operation,
        snapshot.timestamp_ms,
    )


@lru_cache(maxsize=1024)
def _schema(text: str) -> Schema:
    return Schema.model_validate_json(text)


@lru_cache(maxsize=1024)
def _spec(text: str) -> PartitionSpec:
    return PartitionSpec.model_validate_json(text)
