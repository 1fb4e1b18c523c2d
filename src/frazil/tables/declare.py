"""What a user writes in `lakehouse.py`: a table, its columns and how it is partitioned. Plain values; nothing is contacted here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema


@dataclass(frozen=True)
class Column:
    """A column: its name, its Iceberg type as text (`decimal(12,2)`), whether NULL is refused, and what it means."""

    name: str
    type: str
    required: bool = False
    doc: str | None = None


def column(name: str, type: str, *, required: bool = False, doc: str | None = None) -> Column:
    """A column of a declared table."""
    return Column(name, type, required, doc)


@dataclass(frozen=True, init=False)
class Table:
    """A declared table: `Table("lakehouse.sales", column(...), ..., partition_by=["ingestion_date"])`."""

    name: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def __init__(self, name: str, *columns: Column, partition_by: Sequence[str] = (), properties: Mapping[str, str] | None = None) -> None:
        if "." not in name:
            raise DeclarationError(f"table '{name}' has no namespace", hint=f'write Table("lakehouse.{name}", ...)')
        if not columns:
            raise DeclarationError(f"table '{name}' has no columns")
        names = [c.name for c in columns]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise DeclarationError(f"table '{name}' declares column '{twice[0]}' twice")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "partition_by", tuple(partition_by))
        object.__setattr__(self, "properties", dict(properties or {}))

    @property
    def identifier(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def namespace(self) -> tuple[str, ...]:
        return self.identifier[:-1]

    def schema(self) -> Schema:
        """The Iceberg schema, with field ids in the order of declaration."""
        from pydantic import ValidationError
        from pyiceberg.schema import Schema
        from pyiceberg.types import NestedField

        fields = []
        for position, declared in enumerate(self.columns, start=1):
            try:
                fields.append(
                    NestedField.model_validate(
                        {
                            "id": position,
                            "name": declared.name,
                            "type": _spell(declared.type),
                            "required": declared.required,
                            "doc": declared.doc,
                        }
                    )
                )
            except (ValidationError, ValueError) as exc:
                raise DeclarationError(
                    f"column '{declared.name}' of table '{self.name}': '{declared.type}' is not an Iceberg type",
                    hint="types are boolean, int, long, float, double, decimal(P,S), date, time, timestamp, timestamptz, string, uuid",
                ) from exc
        return Schema(*fields)

    def partition_spec(self) -> PartitionSpec:
        """The Iceberg partition spec; `day(ts)` and `bucket(16, id)` name their source column."""
        from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec

        schema = self.schema()
        fields = []
        for position, text in enumerate(self.partition_by):
            transform, source, name = _parse_partition(text)
            if source not in schema.column_names:
                raise DeclarationError(
                    f"table '{self.name}' is partitioned by '{text}', but has no column '{source}'; it has {', '.join(schema.column_names)}"
                )
            fields.append(
                PartitionField.model_validate(
                    {
                        "source-id": schema.find_field(source).field_id,
                        "field-id": PARTITION_FIELD_ID_START + position,
                        "transform": transform,
                        "name": name,
                    }
                )
            )
        return PartitionSpec(*fields)


def _spell(type_text: str) -> str:
    """The type as Iceberg's JSON spells it.

    >>> _spell("DECIMAL(12,2)"), _spell("bigint")
    ('decimal(12, 2)', 'long')
    """
    text = type_text.strip().lower()
    if match := re.fullmatch(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", text):
        return f"decimal({match[1]}, {match[2]})"
    return {"bigint": "long", "integer": "int", "varchar": "string"}.get(text, text)


def _parse_partition(text: str) -> tuple[str, str, str]:
    """The transform as the spec spells it, the source column and the partition field's name.

    >>> _parse_partition("ingestion_date"), _parse_partition("day(ts)"), _parse_partition("bucket(16, id)")
    (('identity', 'ingestion_date', 'ingestion_date'), ('day', 'ts', 'ts_day'), ('bucket[16]', 'id', 'id_bucket'))
    """
    if match := re.fullmatch(r"(bucket|truncate)\(\s*(\d+)\s*,\s*([\w.]+)\s*\)", text):
        return f"{match[1]}[{match[2]}]", match[3], f"{match[3]}_{match[1]}"
    if match := re.fullmatch(r"(year|month|day|hour|void|identity)\(\s*([\w.]+)\s*\)", text):
        return match[1], match[2], match[2] if match[1] == "identity" else f"{match[2]}_{match[1]}"
    if re.fullmatch(r"[\w.]+", text):
        return "identity", text, text
    raise DeclarationError(f"partition '{text}' is not understood", hint="write a column, day(column) or bucket(16, column)")
