"""What a scan needs to know about a table: its schemas, partition specs and snapshots, from metadata as JSON or as
PyIceberg has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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

SHOWN = 5  # snapshots that an error names


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """A snapshot: where its manifests are listed, and what it followed."""

    snapshot_id: int
    parent_id: int | None
    manifest_list: str | None
    schema_id: int | None
    operation: str


class TableState:
    """A table's metadata as a scan reads it. Schemas and specs are parsed when they are asked for, and once."""

    def __init__(self, name: str, metadata: Mapping[str, Any]) -> None:
        self.name = name
        self._metadata = metadata

    @classmethod
    def of(cls, name: str, metadata: TableMetadata) -> TableState:
        """The state of a table that PyIceberg has loaded."""
        # PyIceberg refuses to write metadata of format 3, and what it refuses is this method: its base's does the same.
        return cls(name, json.loads(IcebergBaseModel.model_dump_json(metadata, by_alias=True)))

    @property
    def uuid(self) -> str:
        return str(self._metadata["table-uuid"])

    @property
    def current_schema_id(self) -> int:
        return int(self._metadata.get("current-schema-id", 0))

    def schema(self, schema_id: int | None = None) -> Schema:
        """A schema by its id; the current one when none is given."""
        wanted = self.current_schema_id if schema_id is None else schema_id
        for found in self._metadata.get("schemas") or [self._metadata["schema"]]:
            if found.get("schema-id", 0) == wanted:
                return self._parse_schema(found)
        raise ScanError(f"{self.name} has no schema {wanted}", table=self.name)

    def _parse_schema(self, found: Mapping[str, Any]) -> Schema:
        try:
            return _schema(json.dumps(found, sort_keys=True))
        except (ValueError, RecursionError) as exc:  # pydantic's error is a ValueError
            raise ScanError(
                f"{self.name}: schema {found.get('schema-id', 0)} cannot be read: {str(exc).splitlines()[0]}",
                table=self.name,
            ) from exc

    def find_dropped(self, field_id: int) -> NestedField:
        """A column that an older schema had, as the last of them had it."""
        for found in sorted(self._metadata.get("schemas") or [], key=lambda one: -one.get("schema-id", 0)):
            for one in self._parse_schema(found).fields:
                if one.field_id == field_id:
                    return one
        raise ScanError(
            f"{self.name}: a delete file compares the field with id {field_id}, which no schema of the table has",
            table=self.name,
        )

    @cached_property
    def name_mapping(self) -> NameMapping | None:
        """The ids of columns in files that have none of their own."""
        found = (self._metadata.get("properties") or {}).get(PROPERTY_NAME_MAPPING)
        return None if found is None else parse_mapping_from_json(found)

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        """All partition specs: files of every one of them may still be live."""
        return {found["spec-id"]: self._parse_spec(found) for found in self._metadata.get("partition-specs", [])}

    def _parse_spec(self, found: Mapping[str, Any]) -> PartitionSpec:
        try:
            return _spec(json.dumps(found, sort_keys=True))
        except ValueError as exc:
            raise ScanError(
                f"{self.name}: partition spec {found['spec-id']} cannot be read: {str(exc).splitlines()[0]}",
                table=self.name,
            ) from exc

    @property
    def current_snapshot_id(self) -> int | None:
        found = self._metadata.get("current-snapshot-id")
        return None if found in (None, -1) else found

    @property
    def snapshot_count(self) -> int:
        return len(self._snapshots)

    def snapshot(self, snapshot_id: int) -> SnapshotState:
        """A snapshot by its id; an error says which there are."""
        for found in self._snapshots:
            if found["snapshot-id"] == snapshot_id:
                return _state(found)
        raise ScanError(
            f"{self.name} has no snapshot {snapshot_id}", hint=self._known(), table=self.name, snapshot=snapshot_id
        )

    def appends_between(self, start_id: int | None, end_id: int) -> list[SnapshotState]:
        """The snapshots after `start_id` up to `end_id` that only added files, the oldest first."""
        line: list[SnapshotState] = []
        for snapshot in self._line(self.snapshot(end_id)):
            if snapshot.snapshot_id == start_id:
                return [one for one in reversed(line) if one.operation == "append"]
            line.append(snapshot)
        if start_id is None:
            if line[-1].parent_id is not None:
                told = (
                    f"what was appended before snapshot {line[-1].snapshot_id} is not told any more: the snapshots "
                    f"until then have expired"
                )
                raise ScanError(
                    f"{self.name}: {told}", hint=f"start at {line[-1].snapshot_id}, or scan all rows", table=self.name
                )
            return [one for one in reversed(line) if one.operation == "append"]
        raise ScanError(
            f"{self.name}: snapshot {start_id} is no ancestor of snapshot {end_id}, or has expired",
            hint=self._known(),
            table=self.name,
            snapshot=start_id,
            problem="expired",
        )

    def _line(self, snapshot: SnapshotState) -> Iterator[SnapshotState]:
        known = {found["snapshot-id"]: found for found in self._snapshots}
        at: SnapshotState | None = snapshot
        while at is not None:
            yield at
            parent = None if at.parent_id is None else known.get(at.parent_id)
            at = None if parent is None else _state(parent)

    @property
    def _snapshots(self) -> Sequence[Mapping[str, Any]]:
        return self._metadata.get("snapshots") or []

    def _known(self) -> str:
        kept = sorted(self._snapshots, key=lambda one: -one["timestamp-ms"])
        if not kept:
            return "it has no snapshots yet"
        shown = ", ".join(str(one["snapshot-id"]) for one in kept[:SHOWN])
        return f"it has: {shown}" + (f" and {len(kept) - SHOWN} older ones" if len(kept) > SHOWN else "")


def _state(found: Mapping[str, Any]) -> SnapshotState:
    summary = found.get("summary") or {}
    parent, schema = found.get("parent-snapshot-id"), found.get("schema-id")
    return SnapshotState(
        found["snapshot-id"], parent, found.get("manifest-list"), schema, summary.get("operation", "append")
    )


@lru_cache(maxsize=1024)
def _schema(text: str) -> Schema:
    return Schema.model_validate_json(text)


@lru_cache(maxsize=1024)
def _spec(text: str) -> PartitionSpec:
    return PartitionSpec.model_validate_json(text)
