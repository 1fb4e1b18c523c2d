"""Partition values and column bounds as manifests store them, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import IcebergType, NestedField, StringType, UnknownType, UUIDType

from frazil.console.rows import cut
from frazil.pyiceberg_compat import fields_by_id
from frazil.scan.manifests import decode, stored_type

AS_IS: Transform[Any, Any] = IdentityTransform()


def show_stored(value: Any, kind: IcebergType, transform: Transform[Any, Any] = AS_IS) -> str | None:
    """A stored value as text: dates and times as such, other bytes than text as hex; null stays null.

    >>> from pyiceberg.types import DateType, StringType, UUIDType
    >>> show_stored(20_000, DateType()), show_stored(b"ice", StringType()), show_stored(None, DateType())
    ('2024-10-04', 'ice', None)
    """
    if isinstance(value, bytes):
        if isinstance(kind, StringType):
            return cut(value.decode("utf-8", "replace"))
        return str(UUID(bytes=value)) if isinstance(kind, UUIDType) and len(value) == 16 else cut(value)
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return cut(transform.to_human_string(kind, value))
        except (ValueError, OverflowError, TypeError):  # no such date
            return str(value)
    return cut(value)


def show_bound(raw: bytes | None, kind: IcebergType) -> str | None:
    """A bound in the binary form of metadata as text; hex where its type has no order or its bytes make no sense."""
    if raw is None:
        return None
    value = decode(pa.array([raw], pa.binary()), kind)[0].as_py() if stored_type(kind) is not None else None
    return cut(raw) if value is None else show_stored(value, kind)


class PartitionTexts:
    """Partitions of a spec as text."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        known = fields_by_id(schema)
        self.spec = spec
        self._sources: list[NestedField | None] = [known.get(field.source_id) for field in spec.fields]

    def show(self, values: Sequence[Any]) -> list[str | None]:
        """The values of a partition, in the order of the spec's fields."""
        return [
            show_stored(value, source.field_type if source is not None else UnknownType(), field.transform)
            for value, source, field in zip(values, self._sources, self.spec.fields, strict=True)
        ]

    def line(self, values: Sequence[Any]) -> str:
        """The partition on one line, as engines name its folder."""
        pairs = zip(self.spec.fields, self.show(values), strict=True)
        return "/".join(f"{field.name}={'null' if text is None else text}" for field, text in pairs)

    def describe(self) -> list[dict[str, Any]]:
        """The fields: what they are called, and what they are made from."""
        return [
            {
                "name": field.name,
                "transform": str(field.transform),
                "column": source.name if source is not None else None,
            }
            for field, source in zip(self.spec.fields, self._sources, strict=True)
        ]
