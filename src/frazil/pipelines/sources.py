"""Where a pipeline's rows come from: sets of landing files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from frazil.errors import PipelineError


@dataclass(frozen=True, order=True)
class SourceFile:
    """The identity of a landing file: a file that was rewritten has another size or tag, and counts as new."""

    path: str
    size: int
    tag: str


@dataclass(frozen=True)
class FileSource:
    """Files of one format that match a pattern, relative to the project's folder."""

    format: str
    pattern: str
    options: Mapping[str, str] = field(default_factory=dict)

    def list_files(self, folder: Path) -> list[SourceFile]:
        """The files that are there now, in order of their path; hidden ones (`_part.csv`, `.tmp.csv`) are not finished, and left alone."""
        if "://" in self.pattern or self.pattern.startswith("/"):
            raise PipelineError(
                f"the pattern '{self.pattern}' does not lie in the project",
                hint="name files relative to lakehouse.py, such as landing/*.csv; a link in the project may lead elsewhere",
            )
        # Spark itself passes over hidden files without a word: listed here, they would count as loaded.
        found = sorted(path for path in folder.glob(self.pattern) if path.is_file() and not path.name.startswith(("_", ".")))
        return [_identify(path, folder) for path in found]


def _identify(path: Path, folder: Path) -> SourceFile:
    status = path.stat()
    return SourceFile(path.relative_to(folder).as_posix(), status.st_size, str(status.st_mtime_ns))


def csv(pattern: str, *, header: bool = True, **options: str) -> FileSource:
    """CSV files; every column arrives as text, and the table's types are applied at the end.

    Files of one run must have the same header: Spark takes the first one's names for all, so that a file in another order would fill the
    wrong columns. With `enforceSchema` off it compares them, and stops.
    """
    return FileSource("csv", pattern, {"header": str(header).lower(), "enforceSchema": "false", **options})


def json(pattern: str, **options: str) -> FileSource:
    """Files of JSON lines."""
    return FileSource("json", pattern, options)


def parquet(pattern: str, **options: str) -> FileSource:
    """Parquet files."""
    return FileSource("parquet", pattern, options)
