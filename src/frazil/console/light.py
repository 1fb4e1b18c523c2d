"""Table metadata as upkeep reads it, without the models of PyIceberg: a list of thousands of tables scores each of
them, and building the models takes most of that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, cast

from pyiceberg.table.metadata import TableMetadata

Json = Mapping[str, Any]


class RefKind(Enum):
    """What a reference is."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class LightSummary:
    """What a snapshot says about itself."""

    additional_properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LightSnapshot:
    """A snapshot by the names that PyIceberg gives its fields."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int | None
    timestamp_ms: int
    summary: LightSummary | None

    @classmethod
    def of(cls, stored: Json) -> LightSnapshot:
        summary = stored.get("summary")
        return cls(
            stored["snapshot-id"],
            stored.get("parent-snapshot-id"),
            stored.get("sequence-number"),
            stored["timestamp-ms"],
            LightSummary(summary) if summary is not None else None,
        )


@dataclass(frozen=True, slots=True)
class LightRef:
    """A branch or tag."""

    snapshot_id: int
    snapshot_ref_type: RefKind
    max_ref_age_ms: int | None
    max_snapshot_age_ms: int | None
    min_snapshots_to_keep: int | None

    @classmethod
    def of(cls, stored: Json) -> LightRef:
        ages = (stored.get(key) for key in ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep"))
        return cls(stored["snapshot-id"], RefKind(stored["type"]), *ages)


class LightMetadata:
    """The part of `TableMetadata` that the score of a table is made from."""

    def __init__(self, metadata: Json) -> None:
        self.properties: Mapping[str, str] = metadata["properties"]
        self.snapshots: Sequence[LightSnapshot] = [LightSnapshot.of(stored) for stored in metadata["snapshots"]]
        self.refs = {name: LightRef.of(stored) for name, stored in metadata["refs"].items()}

    @cached_property
    def _by_id(self) -> dict[int, LightSnapshot]:
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    def snapshot_by_id(self, snapshot_id: int) -> LightSnapshot | None:
        return self._by_id.get(snapshot_id)

    def snapshot_by_name(self, name: str) -> LightSnapshot | None:
        ref = self.refs.get(name)
        return self.snapshot_by_id(ref.snapshot_id) if ref is not None else None


def light(metadata: Json) -> TableMetadata:
    """Metadata as the catalog keeps it, for functions of `upkeep` that read snapshots, refs and properties alone."""
    return cast(TableMetadata, LightMetadata(metadata))
