"""The files of a table's current snapshot, out of its manifests as Arrow columns: what upkeep decides on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.planning import (
    DATA,
    DELETES,
    EQUALITY,
    DeleteFile,
    Group,
    Planner,
    ScanCache,
    ScanRequest,
    TableState,
    Unit,
)
from frazil.upkeep.groups import AppliedDelete, DeleteKey, LiveFile, Rules
from frazil.write.commit import MAIN, read_list

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def manifest_cache(io: FileIO, *, max_bytes: int = 256 << 20) -> ScanCache:
    """A cache for the manifests of a table: between two attempts of a commit only the new ones are read."""

    def read(path: str) -> bytes:
        with io.new_input(path).open() as stream:
            content: bytes = stream.read()
            return content

    return ScanCache(read, max_bytes=max_bytes)


class Survey:
    """The live files of main, as the table was loaded."""

    def __init__(self, table: Table, cache: ScanCache | None = None) -> None:
        self.table = table
        self.head = table.metadata.snapshot_by_name(MAIN)
        self.cache = cache or manifest_cache(table.io)
        state = TableState.of(".".join(table.name()), table.metadata)
        # A snapshot id that does not exist is never asked for: without a head there are no units.
        request = ScanRequest(snapshot_id=self.head.snapshot_id if self.head else None)
        self._planner = Planner(state, self.cache, request, lineage=True)
        self._watched: dict[str, tuple[Mapping[DeleteKey, DeleteFile], int | None]] = {}

    def units(self, content: int) -> list[Unit]:
        """The manifests of a kind."""
        return self._planner.units(content) if self.head else []

    @property
    def sequence(self) -> int:
        """The number of the snapshot: everything that is committed later has a greater one."""
        return self.head.sequence_number or 0 if self.head else 0

    @property
    def keeps_row_ids(self) -> bool:
        return self.table.metadata.format_version >= 3

    @cached_property
    def manifests(self) -> dict[str, ManifestFile]:
        """The manifests as PyIceberg has them, by their paths: to be written into the next list."""
        if self.head is None:
            return {}
        return {manifest.manifest_path: manifest for manifest in read_list(self.table, self.head)}

    @cached_property
    def has_deletes(self) -> bool:
        return bool(self.units(DELETES)) and self._planner.deletes.count > 0

    def files(self, rules: Rules | None = None) -> Iterator[LiveFile]:
        """The data files with the deletes that concern them; with rules, those at least that they may want."""
        for unit in self.units(DATA):
            manifest = self.cache.manifest(unit.fact("path"))
            rows = None
            if rules is not None and not rules.everything and not self.has_deletes:
                sizes = manifest.columns["bytes"]
                wrong = pc.or_(pc.less(sizes, rules.small_bytes), pc.greater(sizes, rules.large_bytes))
                rows = pc.indices_nonzero(wrong).cast(pa.int64())
            group = Group(unit, manifest, rows)
            if len(group):
                yield from self._live_files(group)

    def _live_files(self, group: Group) -> Iterator[LiveFile]:
        for task in self._planner.tasks(group):
            deletes = tuple(_applied(delete, task.path) for delete in task.deletes)
            facts = (task.path, task.bytes, task.rows, task.spec_id, task.partition)
            yield LiveFile(*facts, deletes, task.format.upper(), *(task.lineage or (0, None)))

    def delete_files(self) -> Iterator[DeleteFile]:
        """Every delete file."""
        for unit in self.units(DELETES):
            yield from self._planner._delete_files(unit)

    def watch(self, paths: Collection[str]) -> None:
        """Looks at some data files, all in one go: `deletes_of` and `first_row_id` answer for them from now on."""
        wanted, result = (
            pa.array(list(paths), pa.string()),
            dict[str, tuple[Mapping[DeleteKey, DeleteFile], int | None]](),
        )
        for unit in self.units(DATA):
            manifest = self.cache.manifest(unit.fact("path"))
            rows = pc.indices_nonzero(pc.is_in(manifest.columns["path"], value_set=wanted)).cast(pa.int64())
            if len(rows):
                group = Group(unit, manifest, rows)
                deletes = self._planner.deletes_of(group) if self.has_deletes else [[]] * len(group)
                for path, some, first in zip(
                    group.column("path").to_pylist(), deletes, group.first_rows(), strict=True
                ):
                    result[path] = ({key_of(delete): delete for delete in some}, first)
        self._watched = result

    def deletes_of(self, path: str) -> Mapping[DeleteKey, DeleteFile] | None:
        """The deletes of a data file that was watched; None when it is not live any more."""
        return self._watched[path][0] if path in self._watched else None

    def first_row_id(self, path: str) -> int | None:
        """Where the row ids of a data file begin that was watched."""
        return self._watched[path][1] if path in self._watched else None

    def manifests_with(self, paths: Collection[str], content: int = DATA) -> set[str]:
        """The manifests that hold one of these files."""
        wanted = pa.array(list(paths), pa.string())
        return {
            path
            for unit in self.units(content)
            if pc.any(
                pc.is_in(self.cache.manifest(path := unit.fact("path")).columns["path"], value_set=wanted)
            ).as_py()
        }

    @cached_property
    def concerned(self) -> dict[DeleteKey, set[str]]:
        """The live data files that each delete concerns. Of an equality delete, which may concern all of them, one is
        named.
        """
        by_key: dict[DeleteKey, set[str]] = {key_of(file): set() for file in self.delete_files()}
        for unit in self.units(DATA) if by_key else []:
            group = Group(unit, self.cache.manifest(unit.fact("path")), None)
            for path, deletes in zip(group.column("path").to_pylist(), self._planner.deletes_of(group), strict=True):
                for delete in deletes:
                    about = by_key[key_of(delete)]
                    if delete.content != EQUALITY or not about:
                        about.add(path)
        return by_key

    @cached_property
    def listed(self) -> frozenset[tuple[str, int | None]]:
        """The manifests of the snapshot, with where their row ids begin: after an upgrade to format 3, branches may
        differ in that.
        """
        return frozenset(
            (unit.fact("path"), unit.fact("first_row_id"))
            for content in (DATA, DELETES)
            for unit in self.units(content)
        )


def delete_fact(delete: DeleteFile, name: str) -> int:
    """A number that the manifest says of a delete file."""
    value: int | None = delete.manifest.columns[name][delete.row].as_py()
    return value or 0


def key_of(delete: DeleteFile) -> DeleteKey:
    """What tells a delete from all others."""
    return delete.path, delete.fact("content_offset") if delete.is_vector else None


def _applied(delete: DeleteFile, path: str) -> AppliedDelete:
    own = delete.target == path and delete.content != EQUALITY
    kind = "PUFFIN" if delete.is_vector else (delete.fact("format") or "PARQUET").upper()
    applied_delete = AppliedDelete(delete.path, delete.content, delete_fact(delete, "records"), own, kind)
    if delete.is_vector:
        return replace(applied_delete, offset=delete.fact("content_offset"), length=delete.fact("content_bytes"))
    return (
        replace(applied_delete, ids=tuple(delete.fact("equality_ids") or ()))
        if delete.content == EQUALITY
        else applied_delete
    )
