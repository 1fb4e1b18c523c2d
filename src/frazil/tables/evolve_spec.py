"""The partition spec that a live table is to have: its fields keep their ids, and so do fields that it had before.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform, parse_transform

from frazil.tables.shape import nodes
from frazil.tables.terms import PartitionTerm

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

Key = tuple[int, str]


def evolve_spec(terms: Sequence[PartitionTerm], schema: Schema, metadata: TableMetadata) -> PartitionSpec:
    """The live spec with what the declaration adds and without what it lacks. The order of fields means nothing, so it
    never changes.

    Void fields only hold the place of a field that is no more: they stay where they are. Format version 1 knows fields
    by their place, so there a field that goes becomes void; from version 2 on it is left out.
    """
    live = metadata.spec()
    wanted = {_key(term, schema): term for term in terms if term.term.transform != "void"}
    kept = [_renamed(field, wanted[_key_of(field)]) if _key_of(field) in wanted else field for field in live.fields]
    if metadata.format_version == 1:
        kept = [field if _stays(field, wanted) else _voided(field) for field in kept]
    else:
        kept = [field for field in kept if _stays(field, wanted)]
    present = {_key_of(field) for field in kept}
    fields = list(kept)
    for key, term in wanted.items():
        if key not in present:
            fields.append(_added(key, term, fields, schema, metadata))
    return PartitionSpec(*_apart(fields), spec_id=live.spec_id)


def _key(term: PartitionTerm, schema: Schema) -> Key:
    return schema.find_field(term.term.source).field_id, term.term.transform


def _key_of(field: PartitionField) -> Key:
    return field.source_id, str(field.transform)


def _stays(field: PartitionField, wanted: dict[Key, PartitionTerm]) -> bool:
    return str(field.transform) == "void" or _key_of(field) in wanted


def _renamed(field: PartitionField, term: PartitionTerm) -> PartitionField:
    return PartitionField(field.source_id, field.field_id, field.transform, term.name or field.name)


def _voided(field: PartitionField) -> PartitionField:
    return PartitionField(field.source_id, field.field_id, VoidTransform(), field.name)


def _added(
    key: Key, term: PartitionTerm, fields: Sequence[PartitionField], schema: Schema, metadata: TableMetadata
) -> PartitionField:
    """A new field; one that an older spec had comes back under its id, so that its old files count again."""
    older = {_key_of(field): field.field_id for spec in metadata.partition_specs for field in spec.fields}
    last = max(
        metadata.last_partition_id or PARTITION_FIELD_ID_START - 1,
        *(field.field_id for field in fields),
        PARTITION_FIELD_ID_START - 1,
    )
    field_id = older.get(key, last + 1) if metadata.format_version > 1 else last + 1
    return PartitionField(key[0], field_id, parse_transform(key[1]), term.name or _free_name(key, term, fields, schema))


def _free_name(key: Key, term: PartitionTerm, fields: Sequence[PartitionField], schema: Schema) -> str:
    """`id_bucket`, or `id_bucket_16` where that is taken."""
    usual = term.term.field_name()
    taken = {field.name for field in fields if str(field.transform) != "void"}
    taken |= {
        node.path for node in nodes(schema).values() if not (key[1] == "identity" and node.field.field_id == key[0])
    }
    width = key[1].rstrip("]").partition("[")[2]
    names = [
        usual,
        f"{usual}_{width}" if width else f"{usual}_{key[1]}",
        *(f"{usual}_{n}" for n in range(2, len(taken) + 3)),
    ]
    return next(name for name in names if name not in taken)


def _apart(fields: Sequence[PartitionField]) -> list[PartitionField]:
    """Void fields give way where another field has their name."""
    names = [field.name for field in fields if str(field.transform) != "void"]
    return [
        PartitionField(field.source_id, field.field_id, field.transform, f"{field.name}_{field.field_id}")
        if str(field.transform) == "void" and field.name in names
        else field
        for field in fields
    ]
