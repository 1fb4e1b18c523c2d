"""What a writer must know of a table, as plain values: it travels to Spark's executors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import DoubleType, FloatType

from frazil.errors import SinkError
from frazil.write.files.delta_values import ValueRule, hive_folder, value_rules
from frazil.write.files.erase import eraser
from frazil.write.files.options import WriteOptions, built_in_locations
from frazil.write.files.ordering import SortKey, sort_keys
from frazil.write.files.partitioning import Key, partition_keys, struct_path
from frazil.write.files.schema import arrow_schema, file_names
from frazil.write.files.splitting import Partition
from frazil.write.files.statistics import ColumnPlan, plan_columns

if TYPE_CHECKING:
    from pyiceberg.table import Table


MOST_SEGMENT = 200  # of a path; file systems take 255 bytes, and quoted text is ASCII


@dataclass(frozen=True)
class TableLayout:
    """A table's schema, spec, sort order, location and properties at one moment."""

    name: str
    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    location: str
    properties: Mapping[str, str]
    io_properties: Mapping[str, str] = field(repr=False)  # may hold keys
    # a Delta table: partition values are spelled in Delta's way, and not all can be held; files have the table's names
    delta: bool = False

    @classmethod
    def of(cls, table: Table, *, formats: Collection[int] = (1, 2)) -> TableLayout:
        """The layout of a table as it was loaded; upkeep can write format 3 as well."""
        name = ".".join(table.name())
        if table.metadata.format_version not in formats:
            raise SinkError(
                f"{name} has format version {table.metadata.format_version}; the sink writes versions 1 and 2",
                hint="create the table with format-version 2, which all engines read",
                table=name,
            )
        return cls(
            name,
            table.schema(),
            table.spec(),
            table.sort_order(),
            table.location(),
            dict(table.properties),
            dict(table.io.properties),
        )

    @cached_property
    def arrow(self) -> pa.Schema:
        """The types of the rows."""
        return arrow_schema(self.schema)

    @cached_property
    def arrow_in_files(self) -> pa.Schema:
        return arrow_schema(file_names(self.schema, exact=self.delta))

    @cached_property
    def options(self) -> WriteOptions:
        return WriteOptions.of(self.properties, table=self.name)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        return partition_keys(self.schema, self.spec)

    @cached_property
    def value_rules(self) -> tuple[ValueRule, ...]:
        """What partition values must keep beyond their types: Iceberg holds all of them, Delta does not."""
        return value_rules(self.keys) if self.delta else ()

    @cached_property
    def sort(self) -> tuple[SortKey, ...]:
        return sort_keys(self.schema, self.order)

    @cached_property
    def columns(self) -> dict[str, ColumnPlan]:
        """What to record of each leaf column, by its path in the file."""
        return plan_columns(file_names(self.schema, exact=self.delta), self.properties, table=self.name)

    @cached_property
    def float_columns(self) -> list[tuple[int, tuple[str, ...]]]:
        """The columns whose NaNs are counted, and where they are in a row."""
        wanted = [
            plan for plan in self.columns.values() if plan.counts and isinstance(plan.type, FloatType | DoubleType)
        ]
        columns = [(plan.field_id, struct_path(self.schema.as_struct(), plan.field_id)) for plan in wanted]
        return [(field_id, path) for field_id, path in columns if path is not None]

    @cached_property
    def io(self) -> FileIO:
        return load_file_io(dict(self.io_properties), self.location)

    @cached_property
    def erase(self) -> Callable[[str], None]:
        """Removes a file of the table."""
        return eraser(self.io, self.location)

    def data_location(self, partition: Partition | None, file_name: str) -> str:
        """Where a new file goes: `data/<partition path>/` unless the table's properties say otherwise; `data/` for one
        that belongs to no partition of the current spec.
        """
        where = _PartitionPath(self, partition) if self.keys and partition is not None else None
        return self._locations.new_data_location(file_name, where)  # type: ignore[arg-type]  # it asks for to_path() alone

    def metadata_location(self, file_name: str) -> str:
        return self._locations.new_metadata_location(file_name)

    @cached_property
    def _locations(self) -> LocationProvider:
        return built_in_locations(self.location, self.properties)

    def __getstate__(self) -> dict[str, Any]:
        # What is cached holds functions and open connections; the other side makes its own.
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        # PyIceberg's catalog adds an object with its connection, and its token; files need neither.
        kept["io_properties"] = {
            key: value
            for key, value in self.io_properties.items()
            if isinstance(value, str) and key not in ("token", "credential")
        }
        return kept


@dataclass(frozen=True)
class _PartitionPath:
    """A partition's folder, for PyIceberg's location providers; its own PartitionKey wants two fields of one source to
    be an error.
    """

    layout: TableLayout
    partition: Partition

    def to_path(self) -> str:
        """As `PartitionSpec.partition_to_path`, which computes the types of the partition again for each file."""
        pairs = zip(self.layout.keys, self.partition, strict=True)
        if self.layout.delta:
            return "/".join(hive_folder(key.name, value, key.result) for key, value in pairs)
        return "/".join(
            shorten(f"{_quote(key.name)}={_quote(key.transform.to_human_string(key.result, value))}")
            for key, value in pairs
        )


def _quote(text: str) -> str:
    return quote_plus(text, safe="")


def shorten(segment: str) -> str:
    """A folder's name that every file system takes: a long one keeps its beginning, and a hash tells it from others.

    The folder is for people: what the partition's values are is said in the manifest.

    >>> shorten("country=NO")
    'country=NO'
    >>> len(shorten("v=" + "x" * 300)) == MOST_SEGMENT, shorten("v=" + "x" * 300) == shorten("v=" + "x" * 301)
    (True, False)
    """
    if len(segment) <= MOST_SEGMENT:
        return segment
    digest = hashlib.sha256(segment.encode()).hexdigest()[:16]
    return f"{segment[: MOST_SEGMENT - len(digest) - 1]}-{digest}"
