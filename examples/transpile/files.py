"""Parquet files of queries, in a folder or on S3, read in bounded memory from any row on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from frazil.config import Settings
from frazil.pipelines.batch.arrivals import local_digest, with_content
from frazil.pipelines.sources import SourceFile

COLUMNS = ["query_id", "sql"]


@dataclass(frozen=True)
class QueryFiles:
    """The Parquet files under a path of a file system, or the one file that it names."""

    filesystem: Any  # pyarrow.fs.FileSystem: pyarrow has no type information
    root: str

    @classmethod
    def at(cls, location: str, settings: Settings) -> QueryFiles:
        """Those at a local path, or at `s3://bucket/prefix` with the keys and endpoint of the settings."""
        return cls(*find_store(location, settings))

    def list(self) -> list[SourceFile]:
        """The files that are there now, in order of their path."""
        (whole,) = self.filesystem.get_file_info([self.root])
        if whole.type == fs.FileType.File:
            return self._with_content([_identify(whole)])
        file_info = self.filesystem.get_file_info(fs.FileSelector(self.root, recursive=True, allow_not_found=True))
        return self._with_content(
            sorted(
                _identify(item) for item in file_info if item.type == fs.FileType.File and item.extension == "parquet"
            )
        )

    def _with_content(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        """Local files are identified by their content: one that was touched or copied over itself is the same file."""
        return (
            with_content(files, local_digest(Path("/")))
            if isinstance(self.filesystem, fs.LocalFileSystem)
            else [*files]
        )

    def count_rows(self, file: SourceFile) -> int:
        """How many queries a file holds."""
        with self._open(file) as opened:
            return int(opened.metadata.num_rows)

    def read(
        self, file: SourceFile, *, start: int = 0, end: int | None = None, batch_rows: int = 1000
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the queries from row `start` to `end`, each with the number of its first row. Other row groups are
        not read.
        """
        with self._open(file) as opened:
            end = opened.metadata.num_rows if end is None else end
            groups, first = _groups_within(opened.metadata, start, end)
            for batch in opened.iter_batches(batch_rows, row_groups=groups, columns=COLUMNS):
                begin, stop = max(start, first), min(end, first + len(batch))
                if begin < stop:
                    yield begin, batch.slice(begin - first, stop - begin)
                first += len(batch)

    def _open(self, file: SourceFile) -> pq.ParquetFile:
        try:
            opened = pq.ParquetFile(file.path, filesystem=self.filesystem)
        except pa.ArrowInvalid as exc:
            raise ValueError(
                f"{file.path} is no Parquet file: {exc}. Move it away, or let files appear by renaming them"
            ) from exc
        if missing := [name for name in COLUMNS if name not in opened.schema_arrow.names]:
            text = ", ".join(opened.schema_arrow.names)
            opened.close()
            raise ValueError(f"{file.path} has no column '{missing[0]}'; it has {text}")
        return opened


def _groups_within(metadata: pq.FileMetaData, start: int, end: int) -> tuple[list[int], int]:
    """The row groups that hold any of these rows, and the number of the first row in them."""
    wanted, begins, first = [], [], 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if first < end and first + rows > start:
            wanted.append(group)
            begins.append(first)
        first += rows
    return wanted, next(iter(begins), 0)


def find_store(location: str, settings: Settings) -> tuple[Any, str]:
    """The file system of a location, and the path in it."""
    if not location.startswith("s3://"):
        return fs.LocalFileSystem(), str(Path(location).resolve())
    return _s3(settings), location.removeprefix("s3://").rstrip("/")


def _identify(file_info: fs.FileInfo) -> SourceFile:
    return SourceFile(file_info.path, file_info.size, str(file_info.mtime_ns))


def _s3(settings: Settings) -> fs.S3FileSystem:
    s3 = settings.s3
    options: dict[str, Any] = {"region": s3.region}
    if s3.access_key_id and s3.secret_access_key:
        options |= {
            "access_key": s3.access_key_id.get_secret_value(),
            "secret_key": s3.secret_access_key.get_secret_value(),
        }
    if s3.endpoint:
        scheme, _, host = s3.endpoint.rpartition("://")
        options |= {"scheme": scheme or "https", "endpoint_override": host}
    return fs.S3FileSystem(**options)
