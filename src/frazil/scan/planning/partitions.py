"""Partition specs as scans use them: the fields with their types, predicates on columns as predicates on partitions,
and values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundPredicate
from pyiceberg.expressions.visitors import InclusiveProjection, bind, visit
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.types import IcebergType, NestedField, StringType, UnknownType

from frazil.pyiceberg_compat import fields_by_id
from frazil.scan.manifests import Manifest, stored_type


def partition_fields(spec: PartitionSpec, schema: Schema) -> tuple[NestedField, ...]:
    """The partition fields with the types that they have by this schema; unknown where the column or the
    transform is.
    """
    known = fields_by_id(schema)
    return tuple(
        NestedField(field.field_id, field.name, _kind(field, known.get(field.source_id)), required=False)
        for field in spec.fields
    )


def _kind(field: PartitionField, source: NestedField | None) -> IcebergType:
    if source is None or isinstance(field.transform, VoidTransform | UnknownTransform):
        return UnknownType()
    return field.transform.result_type(source.field_type)


def project(
    bound: BooleanExpression, spec: PartitionSpec, schema: Schema, fields: Sequence[NestedField]
) -> BooleanExpression:
    """A predicate on the partition that holds wherever one on the columns can hold; bound to the partition fields."""
    projected = visit(bound, _Projection(schema, spec, True))
    return bind(Schema(*fields), projected, True)


class _Projection(InclusiveProjection):
    """PyIceberg's, which takes the day after 9999-12-31 for `> 9999-12-31`, and the day before the first for `<`."""

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        try:
            return super().visit_bound_predicate(predicate)
        except OverflowError:  # Python has no such date: the partitions say nothing
            return AlwaysTrue()


def python_values(values: pa.Array, field: NestedField) -> list[object]:
    """Values as PyIceberg compares them: dates and times as numbers, text as text."""
    if isinstance(field.field_type, StringType):
        return list(values.cast(pa.string()).to_pylist())
    return list(values.to_pylist())


def partition_rows(
    manifest: Manifest, fields: Sequence[NestedField], rows: pa.Array | None
) -> list[tuple[object, ...]]:
    """The partitions of some files as tuples that can be compared."""
    count = len(manifest) if rows is None else len(rows)
    columns = [_column(manifest, field, rows, count) for field in fields]
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _column(manifest: Manifest, field: NestedField, rows: pa.Array | None, count: int) -> list[object]:
    if field.field_id not in manifest.partition:
        return [None] * count
    raw, _ = manifest.partition[field.field_id]
    values = manifest.partition_values(field) if stored_type(field.field_type) is not None else None
    if values is None or isinstance(field.field_type, StringType):
        values = raw  # as it was written
    column = list((values if rows is None else values.take(rows)).to_pylist())
    if pa.types.is_floating(values.type):
        # NaN is not even itself
        return ["NaN" if value is not None and math.isnan(value) else value for value in column]
    return column
