"""The state of a table that PyIceberg has loaded: the same as of its JSON, and nothing is parsed again."""

from __future__ import annotations

import json
import pickle

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from frazil.errors import ScanError
from frazil.scan.planning.table import TableState

SCHEMAS = [
    Schema(NestedField(1, "id", LongType()), NestedField(2, "old", StringType()), schema_id=0),
    Schema(NestedField(1, "id", LongType()), schema_id=1),
]
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)
SNAPSHOTS = [
    {"snapshot-id": number, "parent-snapshot-id": number - 1 or None, "sequence-number": number, "timestamp-ms": number,
     "manifest-list": f"list-{number}.avro", "schema-id": 0, "summary": {"operation": "append"}}
    for number in range(1, 4)
]  # fmt: skip
METADATA = {
    "format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "file:///t",
    "last-sequence-number": 3, "last-updated-ms": 3, "last-column-id": 2, "current-schema-id": 1,
    "schemas": [json.loads(schema.model_dump_json()) for schema in SCHEMAS], "default-spec-id": 0,
    "partition-specs": [json.loads(SPEC.model_dump_json())], "last-partition-id": 1000, "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}], "current-snapshot-id": 3, "snapshots": SNAPSHOTS,
    "refs": {"main": {"snapshot-id": 3, "type": "branch"}},
}  # fmt: skip


@pytest.fixture
def metadata() -> TableMetadata:
    return TableMetadataUtil.parse_obj(METADATA)


def facts(state: TableState) -> tuple[object, ...]:
    return (
        (state.name, state.uuid, state.current_schema_id, state.current_snapshot_id, state.snapshot_count),
        (state.schema(), state.schema(0), state.find_dropped(2), state.specs, state.name_mapping),
        (state.snapshot(2), state.appends_between(1, 3)),
    )


def test_both_say_the_same(metadata: TableMetadata) -> None:
    loaded = TableState.of("t", metadata)
    assert facts(loaded) == facts(TableState("t", METADATA)) == facts(pickle.loads(pickle.dumps(loaded)))


def test_what_is_loaded_is_not_parsed_again(metadata: TableMetadata) -> None:
    state = TableState.of("t", metadata)
    assert state.schema(0) is metadata.schemas[0]
    assert state.specs[0] is metadata.partition_specs[0]


@pytest.mark.parametrize("is_loaded", [True, False])
def test_what_is_not_there_is_an_error(metadata: TableMetadata, is_loaded: bool) -> None:
    state = TableState.of("t", metadata) if is_loaded else TableState("t", METADATA)
    with pytest.raises(ScanError) as refused:
        state.snapshot(9)
    assert (refused.value.snapshot, refused.value.hint) == (9, "it has: 3, 2, 1")
    with pytest.raises(ScanError):
        state.schema(9)
