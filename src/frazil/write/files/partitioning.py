"""What a table is partitioned by: the spec from names or field ids, and the keys of a batch of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform, parse_transform
from pyiceberg.types import DecimalType, IcebergType, IntegerType, LongType, NestedField, StructType

from frazil.errors import PartitionSpecError
from frazil.write.files.transforms import AnyTransform, ArrayFunction, array_transform, check_source

_CALL = re.compile(r"\s*(?P<name>\w+)\s*\(\s*(?:(?P<width>\d+)\s*,)?\s*(?P<source>[^()]+?)\s*\)\s*")
_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate", "void")


@dataclass(frozen=True)
class Key:
    """One partition field, ready to be computed: where its source is in a row, and what it becomes."""

    name: str
    path: tuple[str, ...]
    transform: AnyTransform
    source: IcebergType
    compute: ArrayFunction

    @property
    def result(self) -> IcebergType:
        return self.transform.result_type(self.source)


def partition_spec(schema: Schema, fields: Sequence[str | int], *, spec_id: int = 0) -> PartitionSpec:
    """The spec that `fields` describe: columns by name or by field id, alone or inside a transform.

    >>> from pyiceberg.types import LongType, TimestampType
    >>> schema = Schema(NestedField(1, "id", LongType()), NestedField(3, "ts", TimestampType()))
    >>> partition_spec(schema, ["day(ts)", "bucket(16, id)"]) == partition_spec(schema, ["day(3)", "bucket(16, 1)"])
    True
    >>> partition_spec(schema, [1]) == partition_spec(schema, ["id"])
    True
    """
    spec: list[PartitionField] = []
    for offset, text in enumerate(fields):
        transform, source = _parse(schema, text)
        check_source(transform, source.field_type, field=_name_of(schema, source))
        spec.append(
            PartitionField(
                source.field_id,
                PARTITION_FIELD_ID_START + offset,
                transform,
                _partition_name(schema, source, transform),
            )
        )
    if twice := sorted({field.name for field in spec if [other.name for other in spec].count(field.name) > 1}):
        raise PartitionSpecError(
            f"two partition fields would be named '{twice[0]}': {', '.join(map(str, fields))}", name=twice[0]
        )
    return PartitionSpec(*spec, spec_id=spec_id)


def partition_keys(schema: Schema, spec: PartitionSpec) -> tuple[Key, ...]:
    """The fields of a table's spec, checked against its schema."""
    return tuple(_key(schema, field) for field in spec.fields)


def compute_keys(rows: pa.RecordBatch, keys: Sequence[Key]) -> list[pa.Array]:
    """The partition values of every row, an array a field."""
    return [canonical_floats(key.compute(column_at(rows, key.path))) for key in keys]


def canonical_floats(values: pa.Array) -> pa.Array:
    """Partition values in which equal numbers are one value: 0.0 stands for -0.0, and one NaN for all of them.

    SQL compares both zeros as equal, and so must a filter on the partition: Java's order of doubles does not, so `v =
    0.0` would skip a partition of -0.0. Only the partition value changes; the rows in the data file keep theirs.

    >>> canonical_floats(pa.array([-0.0, 0.0, 1.5, None])).to_pylist()
    [0.0, 0.0, 1.5, None]
    """
    if not pa.types.is_floating(values.type):
        return values
    zero, nan = pa.scalar(0.0, values.type), pa.scalar(math.nan, values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))  # -0.0 + 0.0 is 0.0


def canonical_value(value: Any) -> Any:
    """A partition value as it is grouped and looked up by: NaN equals only the very same object, so there is one.

    >>> canonical_value(float("nan")) is math.nan, canonical_value(1.5)
    (True, 1.5)
    """
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def truncated_too_far(rows: pa.RecordBatch, key: Key) -> pa.Array | None:
    """True for rows whose truncated value does not fit the column's type; None where that cannot be.

    Values are truncated downwards: -99.99 of a decimal(4,2) becomes -100.00, and the smallest integers wrap around.
    """
    if not isinstance(key.transform, TruncateTransform) or not isinstance(
        key.source, DecimalType | IntegerType | LongType
    ):
        return None
    source = column_at(rows, key.path)
    truncated = key.compute(source)
    if not isinstance(key.source, DecimalType):
        return pc.greater(truncated, source)
    least = Decimal((1, (9,) * key.source.precision, -key.source.scale))
    return pc.less(truncated, pa.scalar(least, truncated.type))


def column_at(rows: pa.RecordBatch | pa.Table, path: Sequence[str]) -> pa.Array:
    """A column, or a field inside structs; NULL where a struct on the way is NULL."""
    array = rows.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _key(schema: Schema, field: PartitionField) -> Key:
    transform: AnyTransform = field.transform
    try:
        source = schema.find_field(field.source_id)
    except ValueError as exc:
        raise _unknown_field(schema, field.source_id) from exc
    path = path_of(schema, source.field_id)
    return Key(
        field.name,
        path,
        transform,
        source.field_type,
        array_transform(transform, source.field_type, field=".".join(path)),
    )


def _parse(schema: Schema, text: str | int) -> tuple[AnyTransform, NestedField]:
    if isinstance(text, int):
        return parse_transform("identity"), _find(schema, text)
    if not (call := _CALL.fullmatch(text)):
        return parse_transform("identity"), _find(schema, text)
    name, width = call["name"].lower(), call["width"]
    if name not in _TRANSFORMS:
        raise PartitionSpecError(
            f"'{text}' is not a partition: there is no transform '{name}'",
            hint=f"transforms are {', '.join(_TRANSFORMS)}",
            name=name,
            got=text,
        )
    if (name in ("bucket", "truncate")) != (width is not None) or width == "0":
        example = f"{name}(16, {call['source']})" if name in ("bucket", "truncate") else f"{name}({call['source']})"
        raise PartitionSpecError(f"'{text}' is not a partition: write {example}", expected=example, got=text)
    return parse_transform(f"{name}[{width}]" if width else name), _find(schema, call["source"])


def _find(schema: Schema, source: str | int) -> NestedField:
    """A field by name, or by its id: `2` as well as `"2"` unless a column has that name."""
    candidates: list[Any] = [source]
    if isinstance(source, str) and source.isdigit():
        candidates.append(int(source))
    for candidate in candidates:
        try:
            return schema.find_field(candidate)
        except ValueError:
            continue
    raise _unknown_field(schema, source)


def _unknown_field(schema: Schema, source: str | int) -> PartitionSpecError:
    has = ", ".join(f"{field.field_id}: {field.name}" for field in schema.fields)
    what = f"column '{source}'" if isinstance(source, str) else f"field id {source}"
    return PartitionSpecError(
        f"cannot partition by {what}: the schema has no such field",
        hint=f"it has {has}",
        column=str(source),
        problem="missing",
    )


def path_of(schema: Schema, field_id: int) -> tuple[str, ...]:
    """The names from the root to a field; a field inside a list or a map has many values per row, so no partition."""
    path = struct_path(schema.as_struct(), field_id)
    if path is None:
        name = schema.find_column_name(field_id)
        raise PartitionSpecError(
            f"cannot partition by '{name}': it lies inside a list or a map", column=name, problem="repeated"
        )
    return path


def struct_path(struct: StructType, field_id: int) -> tuple[str, ...] | None:
    """The names from a struct to a field inside it; None for one that lies in a list or a map."""
    for field in struct.fields:
        if field.field_id == field_id:
            return (field.name,)
        if isinstance(field.field_type, StructType) and (rest := struct_path(field.field_type, field_id)):
            return (field.name, *rest)
    return None


def _name_of(schema: Schema, field: NestedField) -> str:
    return ".".join(path_of(schema, field.field_id))


def _partition_name(schema: Schema, source: NestedField, transform: AnyTransform) -> str:
    """The name that Iceberg's engines give: `ts_day`, `id_bucket_16`, and the column's own for identity."""
    kind, _, width = str(transform).rstrip("]").partition("[")
    parts = [
        _name_of(schema, source),
        *([] if kind == "identity" else ["trunc" if kind == "truncate" else kind]),
        *([width] if width else []),
    ]
    return "_".join(parts)
