"""What is known of a data file that was written and is not committed yet: plain values that travel from an executor to
the driver.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from frazil.write.files.partitioning import canonical_value
from frazil.write.files.splitting import Partition

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile


@dataclass(frozen=True)
class WrittenFile:
    """A finished data file, with everything that a manifest says of it."""

    path: str
    size_bytes: int
    rows: int
    partition: Partition = ()
    spec_id: int = 0
    sort_order_id: int | None = None
    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_counts: dict[int, int] = field(default_factory=dict)
    nan_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)
    split_offsets: list[int] = field(default_factory=list)
    schema_id: int | None = field(default=None, compare=False)  # of the table, when the file was written
    opened_ms: int | None = field(default=None, compare=False)  # when the file was begun

    def to_data_file(self) -> DataFile:
        """The file as PyIceberg's manifest writers take it."""
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        arguments = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*self.partition),
            record_count=self.rows,
            file_size_in_bytes=self.size_bytes,
            column_sizes=self.column_sizes,
            value_counts=self.value_counts,
            null_value_counts=self.null_counts,
            nan_value_counts=self.nan_counts,
            lower_bounds=self.lower_bounds,
            upper_bounds=self.upper_bounds,
            split_offsets=self.split_offsets,
            sort_order_id=self.sort_order_id,
            equality_ids=None,
            key_metadata=None,
        )
        arguments.spec_id = self.spec_id
        return arguments

    def to_json(self) -> str:
        """The file as one line of text; `from_json` gives it back."""
        return json.dumps(
            asdict(self) | {"partition": [_pack(value) for value in self.partition]},
            default=_pack,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> WrittenFile:
        """The file that `to_json` described.

        >>> file = WrittenFile("s3://b/f.parquet", 10, 2, (Decimal("1.50"), None, b"x"), lower_bounds={1: b"a"})
        >>> WrittenFile.from_json(file.to_json()) == file
        True
        """
        values: dict[str, Any] = json.loads(text)
        values["partition"] = tuple(_unpack(value) for value in values["partition"])
        for name in ("column_sizes", "value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds"):
            values[name] = {int(key): _unpack(value) for key, value in values[name].items()}
        return cls(**values)


def _float(text: str) -> Any:
    return canonical_value(float(text))


_PACKED: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": base64.b64decode,
    "float": _float,
}


def _pack(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Decimal | UUID | float):
        return {type(value).__name__.lower(): str(value)}
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _PACKED[kind](text)
    return value
