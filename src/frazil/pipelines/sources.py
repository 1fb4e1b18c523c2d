"""Where a pipeline's rows come from: sets of landing files, in the project, elsewhere on this machine, or on S3.

Plain values: nothing heavy is imported before a source is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from frazil.errors import DeclarationError

Format = Literal["csv", "json", "parquet"]


@dataclass(frozen=True, order=True)
class SourceFile:
    """The identity of a landing file: a file that was rewritten has another size or tag, and counts as new."""

    path: str
    size: int
    tag: str


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is spelled."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None  # None: a quote inside quotes is doubled
    null_values: tuple[str, ...] = ("",)
    newlines_in_values: bool = False


@dataclass(frozen=True)
class FileSource:
    """Files of one format that match a pattern: relative to the project's folder, an absolute path, or `s3://bucket/landing/*.csv`."""

    format: Format
    pattern: str
    csv: CsvOptions = field(default_factory=CsvOptions)

    def list_files(self, folder: Path, io_properties: Mapping[str, str] | None = None) -> list[SourceFile]:
        """The files that are there now, in order of their path; hidden ones (`_part.csv`, `.tmp.csv`) are not finished, and left alone.

        `io_properties` say how S3 is reached, in PyIceberg's words; those of the catalog do.
        """
        from frazil.pipelines.listing import list_local, list_s3

        if self.pattern.startswith("s3://"):
            return list_s3(self.pattern, io_properties or {})
        return list_local(self.pattern, folder)

    def locate(self, file: SourceFile, folder: Path) -> str:
        """Where a reader finds the file."""
        return file.path if "://" in file.path else str(folder / file.path)


def csv(
    pattern: str,
    *,
    header: bool = True,
    delimiter: str = ",",
    quote: str = '"',
    escape: str | None = None,
    null_values: Sequence[str] = ("",),
    newlines_in_values: bool = False,
) -> FileSource:
    """CSV files in UTF-8, also compressed (`.csv.gz`); every column arrives as text, and the table's types are applied at the end.

    Columns are found by the names in each file's own header; without a header they are `_c0`, `_c1`, ... A text that stands in
    `null_values` and not in quotes is NULL. With `newlines_in_values` a file is read by one task, however large it is.
    """
    options = CsvOptions(header, delimiter, quote, escape, tuple(null_values), newlines_in_values)
    return FileSource("csv", _known(pattern), options)


def json(pattern: str) -> FileSource:
    """Files of JSON lines, also compressed; every field arrives as text, nested ones as JSON."""
    return FileSource("json", _known(pattern))


def parquet(pattern: str) -> FileSource:
    """Parquet files; columns arrive in their own types."""
    return FileSource("parquet", _known(pattern))


def _known(pattern: str) -> str:
    if "://" in pattern and not pattern.startswith("s3://"):
        raise DeclarationError(
            f"the pattern '{pattern}' is on no store that pipelines read",
            hint="name a path, such as landing/*.csv, or s3://bucket/landing/*.csv",
        )
    return pattern
