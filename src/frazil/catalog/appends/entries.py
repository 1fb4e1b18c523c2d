"""The manifests that an append adds: data files that are new, and nothing that would mean something else in a later
snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from frazil.catalog.appends.avro import AvroFile, Key, read_records
from frazil.catalog.appends.lists import DATA, Listed
from frazil.catalog.appends.problems import NotRebased

# Field ids of the specification: entries, and the data files in them.
STATUS, SNAPSHOT, DATA_FILE, SEQUENCE, FILE_SEQUENCE = 0, 1, 2, 3, 4
PATH, RECORDS, BYTES, CONTENT, FIRST_ROW = 100, 103, 104, 134, 142
_ENTRY: frozenset[Key] = frozenset(
    (STATUS, SNAPSHOT, DATA_FILE, SEQUENCE, FILE_SEQUENCE, PATH, RECORDS, BYTES, CONTENT, FIRST_ROW)
)
_PATHS: frozenset[Key] = frozenset((DATA_FILE, PATH))
ADDED = 1


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """The data files of a manifest: their paths, rows and bytes."""

    paths: frozenset[str]
    rows: int
    bytes: int


def read_added(file: AvroFile, listed: Listed, *, snapshot_id: int, version: int) -> AddedFiles:
    """The files of a manifest that a snapshot adds; NotRebased if it has entries of another kind."""
    head = {"format-version": str(version), "partition-spec-id": str(listed.spec_id)}
    for key, expected in head.items():
        if file.text(key) != expected:
            raise NotRebased(f"a manifest has {key} {file.text(key)}, expected {expected}")
    if file.text("content") not in (None, "data"):
        raise NotRebased("it adds a manifest of delete files")
    files = [_check_entry(entry, snapshot_id) for entry in read_records(file, _ENTRY)]
    added = AddedFiles(
        frozenset(data_file[PATH] for data_file in files),
        sum(data_file[RECORDS] for data_file in files),
        sum(data_file[BYTES] for data_file in files),
    )
    if len(added.paths) != len(files):
        raise NotRebased("it adds a data file twice")
    if (listed.added_files, listed.added_rows) != (len(files), added.rows):
        raise NotRebased("its manifest list counts other files or rows than its manifest has")
    return added


def check_listed(listed: Listed, *, snapshot_id: int, sequence: int | None, spec_id: int) -> None:
    """Passes when what a client's list says of a manifest is what a new one of its own has: `sequence` is that of the
    client's snapshot.
    """
    if listed.snapshot_id != snapshot_id:
        raise NotRebased("it adds a manifest of another snapshot")
    if listed.content != DATA:
        raise NotRebased("it adds a manifest of delete files")
    if (listed.existing_files, listed.existing_rows, listed.deleted_files, listed.deleted_rows) != (0, 0, 0, 0):
        raise NotRebased("it has merged manifests, or deletes files")
    if (listed.sequence, listed.min_sequence) != (sequence, sequence):
        raise NotRebased("its files have sequence numbers of their own")
    if listed.spec_id != spec_id:
        raise NotRebased("its files are of another partition spec than the table has now")
    if listed.key_metadata is not None:
        raise NotRebased("its manifests are encrypted")


def _check_entry(entry: dict[Any, Any], snapshot_id: int) -> dict[Any, Any]:
    """The data file of an entry that is new and inherits what its snapshot gives it."""
    data_file = entry.get(DATA_FILE)
    if entry.get(STATUS) != ADDED or not isinstance(data_file, dict) or data_file.get(CONTENT) not in (None, DATA):
        raise NotRebased("a manifest has entries that are not of new data files")
    if entry.get(SNAPSHOT) not in (None, snapshot_id):
        raise NotRebased("a file is said to be of another snapshot")
    if any(entry.get(field) is not None for field in (SEQUENCE, FILE_SEQUENCE)):
        raise NotRebased("its files have sequence numbers of their own")
    if data_file.get(FIRST_ROW) is not None:
        raise NotRebased("its files have row ids of their own")
    if not isinstance(data_file.get(PATH), str) or not all(_is_count(data_file.get(key)) for key in (RECORDS, BYTES)):
        raise NotRebased("a data file has no path, no number of rows or no size")
    return data_file


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def read_paths(file: AvroFile) -> frozenset[str]:
    """The paths of all files that a manifest names, whatever their status."""
    files = (entry.get(DATA_FILE) for entry in read_records(file, _PATHS))
    paths = (data_file.get(PATH) for data_file in files if isinstance(data_file, dict))
    return frozenset(path for path in paths if isinstance(path, str))
