"""What delete files take away from data files: each delete file is read once, however many data files it concerns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from frazil.errors import DataFileMissing, DataFileUnreadable
from frazil.scan.planning import EQUALITY, DeleteFile, TableState
from frazil.scan.reading.batches import BatchReader, find_fields
from frazil.scan.reading.equality import EqualitySet
from frazil.scan.reading.once import Once
from frazil.scan.reading.positions import NONE, Open, Positions, merge, read_position_file, read_vector
from frazil.scan.reading.project import Misfit, file_columns
from frazil.storage_errors import classify, store_unavailable

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask

DELETE_BYTES = 256 * 1024 * 1024  # of deletes that are kept in memory, as far as files share them


class Removals:
    """The deletes of a scan; any number of threads at a time."""

    def __init__(self, table: TableState, schema: Schema, open_file: Open) -> None:
        self._table, self._schema, self._open = table, schema, open_file
        self._positions: Once[dict[str, Positions]] = Once(
            lambda item: sum(array.nbytes for array in item.values()), max_bytes=DELETE_BYTES
        )
        self._sets: Once[list[EqualitySet]] = Once(
            lambda sets: sum(array.nbytes for array in sets), max_bytes=DELETE_BYTES
        )
        # Files of different ages have different deletes, of which most are the same.
        self._equal: Once[list[pa.Array]] = Once(
            lambda arrays: sum(array.nbytes for array in arrays), max_bytes=DELETE_BYTES
        )

    def positions(self, task: FileTask) -> Positions:
        """The positions of a file's deleted rows, in order."""
        deletes = [vector for vector in task.deletes if vector.content != EQUALITY]
        return merge([self._positions_in(vector, task.path) for vector in deletes])

    def _positions_in(self, file: DeleteFile, path: str) -> Positions:
        if file.is_vector:
            with reading(file.path):
                return read_vector(file, self._open)
        return self._positions.get(file.path, lambda: self._read_positions(file)).get(path, NONE)

    def _read_positions(self, file: DeleteFile) -> dict[str, Positions]:
        check_format(file.path, file.fact("format"))
        with reading(file.path), self._open(file.path) as source:
            return read_position_file(source)

    def equality_sets(self, task: FileTask) -> list[EqualitySet]:
        """The rows that equality deletes delete of a file, one set for each choice of columns."""
        files = [response for response in task.deletes if response.content == EQUALITY]
        if not files:
            return []
        return self._sets.get(tuple(sorted(file.path for file in files)), lambda: self._make_sets(files))

    def _make_sets(self, files: Sequence[DeleteFile]) -> list[EqualitySet]:
        by_ids: dict[tuple[int, ...], list[DeleteFile]] = {}
        for file in files:
            by_ids.setdefault(tuple(sorted(file.fact("equality_ids") or ())), []).append(file)
        return [self._make_set(ids, files) for ids, files in by_ids.items()]

    def _make_set(self, ids: tuple[int, ...], files: Sequence[DeleteFile]) -> EqualitySet:
        if not ids:
            raise DataFileUnreadable(
                files[0].path, "the manifest does not say which columns its equality deletes compare"
            )
        parts = [self._equal.get((file.path, ids), partial(self._read_equality, file, ids)) for file in files]
        columns = [pa.chunked_array([part[at] for part in parts]).combine_chunks() for at in range(len(ids))]
        return EqualitySet(ids, columns)

    def _read_equality(self, file: DeleteFile, ids: Sequence[int]) -> list[pa.Array]:
        check_format(file.path, file.fact("format"))
        with reading(file.path), self._open(file.path) as source:
            parquet = pq.ParquetFile(source, pre_buffer=True)
            columns, table = (
                file_columns(parquet.schema_arrow, self._table.name_mapping),
                parquet.read().combine_chunks(),
            )
            batches = table.to_batches()
            batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
            fields = find_fields(self._table, self._schema, ids)
            if absent := {field.field_id for field in fields} - {column.field_id for column in columns}:
                raise Misfit(f"it has no column with field id {min(absent)}, which its equality deletes compare")
            reader = BatchReader(fields, columns, {})
            values = reader.bind(batch)
            return [values(field_id) for field_id in ids]


def check_format(path: str, kind: str) -> None:
    if kind.upper() != "PARQUET":
        reason = f"it is {kind.upper()}, and only Parquet is read here"
        raise DataFileUnreadable(path, reason, hint="read it with Spark or Trino", expected="PARQUET", got=kind.upper())


@contextmanager
def reading(path: str) -> Iterator[None]:
    """What goes wrong while a file is read is an error that names it."""
    try:
        yield
    except FileNotFoundError as exc:
        raise DataFileMissing(path) from exc
    except (OSError, pa.ArrowException, Misfit) as exc:
        if isinstance(exc, OSError) and classify(exc).of_the_store:
            raise store_unavailable(path, exc) from exc
        raise DataFileUnreadable(path, str(exc).partition("\n")[0].rstrip(".")) from exc
