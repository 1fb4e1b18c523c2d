"""How a table wants its files: Iceberg's `write.*` properties, with Iceberg's defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyiceberg.table.locations import LocationProvider, load_location_provider

from frazil.errors import SinkError
from frazil.properties import safe_properties
from frazil.protocol import PROPERTY_TARGET_FILE_BYTES

if TYPE_CHECKING:
    from pyiceberg.table import Table

MB = 1 << 20
# newer than the oldest PyArrow we take
_HAS_PAGE_ROWS = "max_rows_per_page" in inspect.signature(pq.ParquetWriter.__init__).parameters
CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed")
_LEVELS = {"zstd": (-7, 22), "gzip": (1, 9), "brotli": (0, 11)}


@dataclass(frozen=True)
class WriteOptions:
    """The settings of the Parquet writer. Sizes of files and row groups are bytes on disk, as readers see them."""

    target_file_bytes: int = 512 * MB
    row_group_bytes: int = 128 * MB
    row_group_rows: int = 1_048_576
    page_bytes: int = MB
    page_rows: int = 20_000
    dictionary_bytes: int = 2 * MB
    codec: str = "zstd"
    level: int | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str], *, table: str) -> WriteOptions:
        """The options that a table's properties ask for.

        >>> WriteOptions.of({"write.parquet.compression-codec": "SNAPPY"}, table="t").codec
        'snappy'
        """
        if (written := properties.get("write.format.default", "parquet").lower()) != "parquet":
            raise _refused(table, "write.format.default", written, "parquet: the sink writes no other format")
        codec = properties.get("write.parquet.compression-codec", cls.codec).lower()
        codec = "uncompressed" if codec == "none" else codec
        if codec not in CODECS:
            raise _refused(table, "write.parquet.compression-codec", codec, f"one of {', '.join(CODECS)}")

        def size(key: str, default: int) -> int:
            return _number(properties, key, default, table=table, least=1)

        return cls(
            target_file_bytes=size(PROPERTY_TARGET_FILE_BYTES, cls.target_file_bytes),
            row_group_bytes=size("write.parquet.row-group-size-bytes", cls.row_group_bytes),
            row_group_rows=size("write.parquet.row-group-limit", cls.row_group_rows),
            page_bytes=size("write.parquet.page-size-bytes", cls.page_bytes),
            page_rows=size("write.parquet.page-row-limit", cls.page_rows),
            dictionary_bytes=size("write.parquet.dict-size-bytes", cls.dictionary_bytes),
            codec=codec,
            level=_level(properties, codec, table=table),
        )

    def for_pyarrow(self) -> dict[str, Any]:
        """The keyword arguments of `pyarrow.parquet.ParquetWriter`."""
        return {
            "compression": "none" if self.codec == "uncompressed" else self.codec,
            "compression_level": self.level,
            "data_page_size": self.page_bytes,
            "dictionary_pagesize_limit": self.dictionary_bytes,
            # the writer looks at the size of a page after this many values
            "write_batch_size": min(self.page_rows, 1_024),
            **({"max_rows_per_page": self.page_rows} if _HAS_PAGE_ROWS else {}),
            "write_page_index": True,  # costs nothing measurable, lets readers skip pages
            "store_schema": False,  # the Iceberg schema says all that Arrow's would
            "store_decimal_as_integer": True,  # as the spec asks for in Parquet
        }


def avro_codec(properties: Mapping[str, str]) -> Any:
    """How manifests and their lists are packed; PyIceberg's writers refuse a name that they do not know."""
    return properties.get("write.avro.compression-codec", "gzip")


def built_in_locations(location: str, properties: Mapping[str, str]) -> LocationProvider:
    """Where new files of a table go. Only PyIceberg's own providers: a class that a table property names is never
    imported.
    """
    return load_location_provider(location, dict(safe_properties(properties)))


def new_metadata_file(table: Table, file_name: str) -> str:
    """Where a new manifest or manifest list of the table goes."""
    return built_in_locations(table.location(), table.properties).new_metadata_location(file_name)


def _level(properties: Mapping[str, str], codec: str, *, table: str) -> int | None:
    key = "write.parquet.compression-level"
    if key not in properties or codec not in _LEVELS:
        return None
    least, most = _LEVELS[codec]
    return _number(properties, key, 1, table=table, least=least, most=most)


def _number(
    properties: Mapping[str, str], key: str, default: int, *, table: str, least: int, most: int | None = None
) -> int:
    text = properties.get(key, str(default))
    expected = f"a whole number from {least}" + ("" if most is None else f" to {most}")
    try:
        value = int(text)
    except ValueError as exc:
        raise _refused(table, key, text, expected) from exc
    if value < least or (most is not None and value > most):
        raise _refused(table, key, text, expected)
    return value


def _refused(table: str, key: str, value: str, expected: str) -> SinkError:
    return SinkError(
        f"{table}: table property '{key}' is '{value}', expected {expected}",
        hint="change the property of the table",
        table=table,
        option=key,
        expected=expected,
        got=value,
    )
