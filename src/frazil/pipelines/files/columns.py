"""Which columns the files of a run have, each by its own header or footer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from frazil.errors import PipelineError
from frazil.pipelines.files import read_csv, read_json, read_parquet
from frazil.pipelines.files.reading import open_store, schema_of_text
from frazil.pipelines.files.slices import Task
from frazil.pipelines.sources import FileSource
from frazil.spark import as_report, collect_reports, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spark import Batches

THREADS = 16  # on S3 each file costs a request
T = TypeVar("T")


@dataclass(frozen=True)
class FileColumns:
    """The columns of each file, by the file's number, and of all together. Files of one header share one tuple."""

    by_file: tuple[tuple[str, ...], ...]
    schema: pa.Schema

    def files_with(self, names: Sequence[str]) -> dict[int, tuple[str, ...]]:
        """The files that have any of the columns, and which."""
        wanted = set(names)
        files = {columns: tuple(name for name in columns if name in wanted) for columns in set(self.by_file)}
        return {file: files[columns] for file, columns in enumerate(self.by_file) if files[columns]}


def find_columns(
    source: FileSource,
    paths: Sequence[str],
    io_properties: Mapping[str, str],
    *,
    spark: SparkSession,
    tasks: Sequence[Task],
) -> FileColumns:
    """What the files have. CSV: their headers; Parquet: their footers; JSON: all of their lines, by a Spark job of its
    own.
    """
    if source.format == "parquet":
        return _of_schemas(_read_each(paths, io_properties, read_parquet.read_schema))
    if source.format == "json":
        return _of_names(_json_names(spark, tasks, len(paths), io_properties))
    return _of_names(
        _read_each(paths, io_properties, lambda filesystem, path: read_csv.read_names(filesystem, path, source.csv))
    )


def _read_each(paths: Sequence[str], io_properties: Mapping[str, str], read: Callable[[object, str], T]) -> list[T]:
    stores: dict[str, object] = {}

    def read_one(path: str) -> T:
        bucket = path.split("/")[2] if path.startswith("s3://") else ""
        if bucket not in stores:
            stores[bucket] = open_store(path, io_properties)[0]
        try:
            return read(stores[bucket], path.removeprefix("s3://"))
        except (OSError, pa.ArrowException) as exc:
            raise PipelineError(
                f"{path} cannot be read: {str(exc).splitlines()[0]}", hint="fix the file, or move it away", path=path
            ) from exc

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(read_one, paths))


def _of_names(pairs: Sequence[tuple[str, ...]]) -> FileColumns:
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    by_file = tuple(shared.setdefault(names, names) for names in pairs)
    return FileColumns(by_file, schema_of_text(list(dict.fromkeys(name for names in shared for name in names))))


def _of_schemas(schemas: Sequence[pa.Schema]) -> FileColumns:
    distinct = list({str(schema): schema for schema in schemas}.values())
    try:
        schema = pa.unify_schemas(distinct, promote_options="permissive")
    except pa.ArrowException as exc:
        reason = str(exc).splitlines()[0]
        raise PipelineError(
            f"the files of this run do not fit together: {reason}", hint="give them to two pipelines", reason=reason
        ) from exc
    return FileColumns(tuple(tuple(schema.names) for schema in schemas), schema)


def _json_names(
    spark: SparkSession, tasks: Sequence[Task], files: int, io_properties: Mapping[str, str]
) -> list[tuple[str, ...]]:
    def names_of(number: int) -> Batches:
        names = []
        for piece in tasks[number]:
            filesystem, path = open_store(piece.path, io_properties)
            names.append((piece.file, read_json.read_names(filesystem, path, piece)))
        yield as_report(names)

    names: list[dict[str, None]] = [{} for _ in range(files)]
    for report in collect_reports(spread(spark, len(tasks), names_of, "report string")):
        for file, some in json.loads(report):
            names[file].update(dict.fromkeys(some))
    return [tuple(name) for name in names]
