"""Which lines of landing files a row of a table came from: those whose values the row has.

Nothing records the line of a row, so the files of its run are read again. Columns that the pipeline's function changes
match no line at all and are left aside; the others must all agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.pipelines.files.lines import iter_lines
from frazil.pipelines.files.reading import open_store, read_columns
from frazil.pipelines.files.slices import Slice
from frazil.pipelines.sources import FileSource, Format
from frazil.write.contract import convert

MOST_BYTES = 1 << 30  # of a run's files that are read for a row
MOST_LINES = 10  # more say nothing
_FORMATS: Mapping[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


@dataclass
class LineFinder:
    """Finds rows in landing files. `sources` say how the files of a pipeline are spelled; without one, their names do.

    Paths that are not absolute are below `folder`; files on S3 are reached with `io_properties`.
    """

    folder: Path
    io_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    sources: Mapping[str, FileSource] = field(default_factory=dict)

    def find(self, pipeline: str, files: Mapping[str, int], row: Mapping[str, pa.Scalar]) -> dict[str, tuple[int, ...]]:
        """The lines of a run's files (by path, with their size) that have the row's values; of Parquet the rows.

        None are given if there are many such lines, or if a file is gone, has another size or cannot be read.
        """
        if sum(files.values()) > MOST_BYTES:
            return {}
        try:
            masks = {path: self._compare(self._source(pipeline, path), path, size, row) for path, size in files.items()}
        except (OSError, ValueError, LookupError):  # pyarrow's errors are of these
            return {}
        alike = {path: rows for path, each in masks.items() if len(rows := each.rows_alike(_telling(masks.values())))}
        if not alike or sum(map(len, alike.values())) > MOST_LINES:
            return {}
        return {path: self._as_lines(self._source(pipeline, path), path, rows) for path, rows in alike.items()}

    def _source(self, pipeline: str, path: str) -> FileSource:
        if (declared := self.sources.get(pipeline)) is not None:
            return declared
        suffixes = [suffix for suffix in Path(path).suffixes if suffix in _FORMATS]
        return FileSource(_FORMATS[suffixes[-1]], path)

    def _compare(self, source: FileSource, path: str, size: int, row: Mapping[str, pa.Scalar]) -> _Masks:
        place = self._locate(path)
        filesystem, name = open_store(place, self.io_properties)
        if (now := filesystem.get_file_info(name).size) != size:
            raise LookupError(f"{path} has {now} bytes, {size} were loaded")
        masks = _Masks()
        for numbers, batch in read_columns(source, Slice(0, 0, place), self.io_properties, lambda _: None):
            first = [*range(numbers, numbers + batch.num_rows)] if isinstance(numbers, int) else numbers.tolist()
            masks.add(first, {column: _equals(batch, column, value) for column, value in row.items()})
        return masks

    def _locate(self, path: str) -> str:
        return path if "://" in path else str(self.folder / path)

    def _as_lines(self, source: FileSource, path: str, rows: Sequence[int]) -> tuple[int, ...]:
        """The lines of rows: in CSV empty lines are no rows, and a row may have several lines."""
        if source.format != "csv":
            return tuple(rows)
        filesystem, name = open_store(self._locate(path), self.io_properties)
        quote = source.csv.quote.encode() if source.csv.newlines_in_values else None
        wanted = set(rows)
        with filesystem.open_input_stream(name, compression="detect") as stream:
            return tuple(line for row, line in number_rows(iter_lines(stream), quote) if row in wanted)


@dataclass
class _Masks:
    """Of a file: the numbers of its rows, and for each column whether the value is the one that is looked for."""

    numbers: list[int] = field(default_factory=list)
    columns: dict[str, list[bool]] = field(default_factory=dict)

    def add(self, numbers: Sequence[int], columns: Mapping[str, list[bool] | None]) -> None:
        for name, mask in columns.items():
            if mask is not None:
                self.columns.setdefault(name, [False] * len(self.numbers)).extend(mask)
        self.numbers += numbers
        for mask in self.columns.values():  # a JSON file may lack a column in some of its batches
            mask += [False] * (len(self.numbers) - len(mask))

    def rows_alike(self, names: set[str]) -> list[int]:
        """The rows that have all of these values."""
        if not names or not names <= self.columns.keys():
            return []
        masks = zip(*(self.columns[name] for name in names), strict=True)
        return [number for number, mask in zip(self.numbers, masks, strict=True) if all(mask)]


def _telling(files: Any) -> set[str]:
    """The columns that have the row's value somewhere."""
    return {name for masks in files for name, mask in masks.columns.items() if any(mask)}


def _equals(batch: pa.RecordBatch, column: str, value: pa.Scalar) -> list[bool] | None:
    """For each row whether it has the value; None if there is no such column, or if it cannot be compared."""
    at = batch.schema.get_field_index(column)
    if at < 0:
        return None
    try:
        values = convert(batch.column(at), value.type).values
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None
    mask: list[bool] = (
        values.is_null() if not value.is_valid else pc.fill_null(pc.equal(values, value), False)
    ).to_pylist()
    return mask


def number_rows(lines: Iterator[bytes], quote: bytes | None) -> Iterator[tuple[int, int]]:
    """The rows of a CSV file and the line that each begins at, both from 1; with `quote`, a row goes on while one is
    open.

    >>> list(number_rows(iter([b"id", b"", b'"a', b'b"', b"c"]), b'"'))
    [(1, 1), (2, 3), (3, 5)]
    """
    row, is_open = 0, False
    for number, line in enumerate(lines, start=1):
        if not is_open and line.strip():
            row += 1
            yield row, number
        if quote is not None:
            is_open ^= line.count(quote) % 2 == 1
