"""The portable copy of a table's index records: a small blob in the statistics file of a snapshot.

The catalog's record of an index counts. The copy is for clients of a catalog that keeps no records of indexes, and for
a catalog that has lost them. Spark's `compute_table_stats` and Trino's ANALYZE replace the statistics file of the
newest snapshot without it, so the snapshot before has it, too; the next refresh writes what is missing. An index covers
data files, so an older copy is still right: it covers less.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from frazil.errors import CommitConflict, DataFileUnreadable, FrazilError
from frazil.puffin import Blob, PuffinReader, add_blobs, add_blobs_to_each
from frazil.scan.planning import TableState
from frazil.vector.record import IndexRecord

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

ROOT = "frazil-vector-root-v1"
MOST_FILES = 32  # statistics files that are looked into, those of the newest snapshots first

log = logging.getLogger("frazil.vector")

Copies = dict[int, tuple[IndexRecord, ...]]  # by the column's field id


def with_copies(
    stored: Sequence[IndexRecord], state: TableState, io: FileIO, *, field_id: int | None = None
) -> list[IndexRecord]:
    """The records that the catalog has, and the copies of those that it has lost; of one column, or of all."""
    names = {record.name for record in stored}
    return [*stored, *(record for record in find_copies(state, io, field_id=field_id) if record.name not in names)]


def find_copies(state: TableState, io: FileIO, *, field_id: int | None = None) -> list[IndexRecord]:
    """The indexes of a table by its statistics files; for each column those of the newest file that speaks of it. For
    one column, no older file is read.
    """
    copies: Copies = {}
    for _, path in state.statistics[:MOST_FILES]:
        copies = _read(_Source(io, path, state.name)) | copies
        if field_id in copies:
            return list(copies[field_id])
    return [record for records in copies.values() for record in records if field_id in (None, record.field_id)]


def write_copy(table: Table, records: Sequence[IndexRecord], field_id: int) -> None:
    """The copy of the indexes of a column is in the statistics files of the newest snapshots. A failure is logged: the
    catalog has the records.
    """
    own = tuple(record for record in records if record.field_id == field_id)
    missing = _without_copy(table, own, field_id)
    if not missing:
        return
    try:
        add_blobs_to_each(table, [_blob(own, field_id)], missing)
    except (FrazilError, OSError, CommitFailedException, CommitStateUnknownException) as exc:
        name = ".".join(table.name())
        log.warning("%s: the copy of the index in the table's statistics was not written: %s", name, exc)


def has_copy(table: Table, records: Sequence[IndexRecord], field_id: int) -> bool:
    """Whether `write_copy` would do nothing."""
    own = tuple(record for record in records if record.field_id == field_id)
    return not _without_copy(table, own, field_id)


def _without_copy(table: Table, own: Sequence[IndexRecord], field_id: int) -> list[int]:
    """Of the current snapshot and the newest other one, those whose statistics do not say the same of a column."""
    current = table.metadata.current_snapshot_id
    others = (each for each in table.metadata.snapshots if each.snapshot_id != current)
    newest = sorted(others, key=lambda snapshot: snapshot.timestamp_ms)[-1:]
    wanted = [] if current is None else [current, *(snapshot.snapshot_id for snapshot in newest)]
    name = ".".join(table.name())
    files = {stored.snapshot_id: stored.statistics_path for stored in table.metadata.statistics}
    own_copy = {record.name: record.to_json() for record in own}
    missing = []
    for snapshot_id in wanted:
        copies = _read(_Source(table.io, files[snapshot_id], name)) if snapshot_id in files else {}
        if {record.name: record.to_json() for record in copies.get(field_id, ())} != own_copy:
            missing.append(snapshot_id)
    return missing


def forget_copy(table: Table, dropped: IndexRecord) -> None:
    """No statistics file speaks of an index any more. One that still does would bring the index back, so a failure is
    an error.
    """
    state = TableState.of(".".join(table.name()), table.metadata)
    for snapshot_id, path in state.statistics:
        records = _read(_Source(table.io, path, state.name)).get(dropped.field_id, ())
        left = tuple(record for record in records if record.name != dropped.name)
        if left == records:
            continue
        try:
            add_blobs(table, [_blob(left, dropped.field_id)], snapshot_id=snapshot_id)
        except (OSError, CommitFailedException, CommitStateUnknownException) as exc:
            raise CommitConflict(
                f"the copy of index {dropped.name} in {path} was not removed: {exc}",
                hint=f"drop the index again: frazil index drop {state.name} {dropped.name}",
                table=state.name,
            ) from exc


def _blob(records: Sequence[IndexRecord], field_id: int) -> Blob:
    content = [{"name": record.name, "record": record.to_json()} for record in records]
    return Blob(ROOT, (field_id,), json.dumps({"indexes": content}).encode())


class _Source:
    """A statistics file; two with the same path are the same."""

    def __init__(self, io: FileIO, path: str, table: str) -> None:
        self.io, self.path, self.table = io, path, table

    def __hash__(self) -> int:
        return hash(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source) and other.path == self.path


def _read(source: _Source) -> Copies:
    try:
        return _read_file(source)
    except (DataFileUnreadable, OSError) as exc:
        log.info("%s: the statistics file %s is not read: %s", source.table, source.path, exc)
        return {}


@lru_cache(maxsize=1024)  # the files never change
def _read_file(source: _Source) -> Copies:
    reader = PuffinReader(source.io.new_input(source.path))
    return {info.fields[0]: _records(reader.read(info), source) for info in reader.blobs if info.type == ROOT}


def _records(payload: bytes, source: _Source) -> tuple[IndexRecord, ...]:
    try:
        stored: list[dict[str, Any]] = json.loads(payload)["indexes"]
        return tuple(IndexRecord.of({**each, "version": 0}, table=source.table) for each in stored)
    except (ValueError, KeyError, TypeError, FrazilError) as exc:
        raise DataFileUnreadable(source.path, f"its copy of the indexes cannot be understood ({exc})") from exc
