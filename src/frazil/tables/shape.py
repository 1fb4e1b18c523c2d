"""A table's shape: what a declaration speaks of, as the live table has it, as it is to be, or as it was
last applied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from frazil.protocol import PROPERTY_APPLIED

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True)
class Shape:
    """Schema, spec, sort order, the properties that are spoken of, and the format version."""

    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    properties: Mapping[str, str]
    format_version: int

    @classmethod
    def of(cls, metadata: TableMetadata, *, keys: set[str]) -> Shape:
        """The live table, with these of its properties."""
        known = {key: value for key, value in metadata.properties.items() if key in keys}
        order = metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER
        return cls(metadata.schema(), metadata.spec(), order, known, metadata.format_version)


@dataclass(frozen=True)
class Record:
    """What was applied last: ids into the table's own history of schemas, specs and orders, and the properties that
    were declared.
    """

    schema_id: int
    spec_id: int
    order_id: int
    format_version: int
    properties: Mapping[str, str]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Record | None:
        """What a table's properties remember; None if nothing was ever applied, or if it was made
        unreadable.
        """
        try:
            value = json.loads(properties[PROPERTY_APPLIED])
            return cls(value["schema"], value["spec"], value["order"], value["format"], value["properties"])
        except (KeyError, ValueError, TypeError):
            return None

    def dump(self) -> str:
        """
        >>> Record(1, 0, 0, 2, {"a": "b"}).dump()
        '{"schema":1,"spec":0,"order":0,"format":2,"properties":{"a":"b"}}'
        """
        value = {"schema": self.schema_id, "spec": self.spec_id, "order": self.order_id, "format": self.format_version}
        return json.dumps({**value, "properties": dict(sorted(self.properties.items()))}, separators=(",", ":"))

    def shape(self, metadata: TableMetadata) -> Shape | None:
        """The shape that was applied; None where the table's history no longer has it."""
        schema = next((schema for schema in metadata.schemas if schema.schema_id == self.schema_id), None)
        spec = next((spec for spec in metadata.partition_specs if spec.spec_id == self.spec_id), None)
        order = metadata.sort_order_by_id(self.order_id) or (UNSORTED_SORT_ORDER if self.order_id == 0 else None)
        if schema is None or spec is None or order is None:
            return None
        return Shape(schema, spec, order, self.properties, self.format_version)


class Node(NamedTuple):
    """A field of a schema and where it is: its full name, and the id of the field that holds it (0: the table)."""

    path: str
    field: NestedField
    parent: int


def nodes(schema: Schema) -> dict[int, Node]:
    """Every field of a schema by its id, parents first; elements, keys and values are fields as well."""
    return {node.field.field_id: node for node in _walk("", schema.as_struct(), 0)}


def children(kind: IcebergType) -> tuple[NestedField, ...]:
    """The fields directly inside a type."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else ()


def _walk(prefix: str, kind: IcebergType, parent: int) -> Iterator[Node]:
    for field in children(kind):
        yield Node(prefix + field.name, field, parent)
        yield from _walk(f"{prefix}{field.name}.", field.field_type, field.field_id)
