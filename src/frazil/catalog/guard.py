"""What may be deleted: files of one table, in folders that are its own, that no table or view of any warehouse leads
to.

Everything that deletes a file of a table in the server asks here first. Metadata is written by clients: it may name any
path.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from frazil.catalog.fields import Json
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.metadata import Version, normalise, parse_file
from frazil.catalog.store import relations
from frazil.catalog.store.relations import Pointer
from frazil.catalog.views import normalise_view
from frazil.catalog.warehouse import MetadataFiles, Warehouse, Warehouses
from frazil.errors import CatalogError, LocationRefused, MalformedLocation, MetadataMissing, ReferencesUnknown
from frazil.scan.manifests import Candidates, References, TableFiles, folders_of

if TYPE_CHECKING:
    from frazil.catalog.store.database import Database
    from frazil.config import Limits

log = logging.getLogger("frazil.catalog")
MOST_PATHS = 200_000  # paths that metadata files name and that are kept, some 40 MB


@dataclass(frozen=True)
class OwnFolders:
    """The folders in which a table's files may be deleted."""

    places: tuple[Place, ...]

    def contain(self, path: str) -> bool:
        """Whether a file lies in one of them, also when symbolic links are followed."""
        try:
            place = parse_location(path)
        except MalformedLocation:
            return False
        inside = [at for at, own in enumerate(self.places) if own.contains(place) and own != place]
        if not inside:
            return False
        real = place.real
        return any(self._real[at].contains(real) for at in inside)

    @cached_property
    def _real(self) -> tuple[Place, ...]:
        """The folders with symbolic links followed, as they were when the first file was looked for."""
        return tuple(place.real for place in self.places)


class Guard:
    """Knows what every table of every warehouse leads to. What it has read of a file it keeps: these files never
    change.
    """

    def __init__(self, database: Database, warehouses: Warehouses, files: MetadataFiles, limits: Limits) -> None:
        self._database, self._warehouses, self._files, self._limits = database, warehouses, files, limits
        self._versions: OrderedDict[str, TableFiles] = OrderedDict()  # by metadata location
        self._paths = 0
        self._lock = Lock()
        self.busy = Lock()  # held while all tables are searched for a client
        self._homes: dict[str, Place] = {}  # of tables in warehouses that this server does not have
        self._references: References | None = None

    # --- what others lead to -----------------------------------------------------------------------------------------

    def pointers(self) -> list[Pointer]:
        """All tables and views of the database."""
        return relations.all_pointers(self._database.read())

    def spare(self, candidates: Candidates, pointers: Iterable[Pointer]) -> None:
        """Takes out of the candidates what these tables and views lead to. `ReferencesUnknown`: one of them cannot be
        read.
        """
        for pointer in pointers:
            if not candidates:
                return
            candidates.spare(filter(None, (pointer.metadata_location, pointer.previous_location)), pointer.label)
            self._open(pointer).spare(candidates, self.files_of(pointer))

    def spare_named(self, candidates: Candidates, pointers: Iterable[Pointer]) -> None:
        """The same for what the metadata files themselves name: other metadata files, statistics, manifest lists."""
        for pointer in pointers:
            candidates.spare(filter(None, (pointer.metadata_location, pointer.previous_location)), pointer.label)
            files = self.files_of(pointer)
            candidates.spare((*files.named, *files.lists), pointer.label)

    def files_of(self, pointer: Pointer) -> TableFiles:
        """What the current version of a table or view names."""
        location = pointer.metadata_location
        with self._lock:
            if location in self._versions:
                self._versions.move_to_end(location)
                return replace(self._versions[location], label=pointer.label)  # one file, maybe two tables
        try:
            table_files = TableFiles.of_json(pointer.label, location, self._metadata(pointer))
        except CatalogError as exc:
            raise ReferencesUnknown(pointer.label, location, exc.message) from exc
        with self._lock:
            if location not in self._versions:
                self._versions[location] = table_files
                self._paths += len(table_files)
            while self._paths > MOST_PATHS and len(self._versions) > 1:
                self._paths -= len(self._versions.popitem(last=False)[1])
        return table_files

    def _metadata(self, pointer: Pointer) -> Json:
        version = self._files.cache.peek(pointer.metadata_location)
        if version is not None:
            return version.metadata
        metadata = parse_file(
            pointer.metadata_location, self._files.read_bytes(pointer.metadata_location), self._limits
        )
        return (normalise_view if pointer.kind == "view" else normalise)(metadata, pointer.metadata_location)

    def _open(self, pointer: Pointer) -> References:
        if pointer.warehouse not in {warehouse.name for warehouse in self._warehouses}:
            self._homes[pointer.location] = parse_location(pointer.location)
        if self._references is None:
            self._references = References(self._read)
        return self._references

    def _read(self, location: str) -> bytes:
        place = parse_location(location)
        known = (*(warehouse.place for warehouse in self._warehouses), *self._warehouses.allowed, *self._homes.values())
        if place.scheme == "file" and not Path(place.path).is_file():
            # a FIFO, a device or nothing: it leads nowhere, and must not keep others from deleting
            raise FileNotFoundError(location)
        if not any(home.contains(place) and home.real.contains(place.real) for home in known):
            raise LocationRefused(location, warehouse="any warehouse")
        return read_or_missing(self._files, location)

    def keeps_metadata_in(self, pointer: Pointer, folder: Place) -> bool:
        """Whether a folder lies in the location of a table, and is not where a warehouse begins."""
        own = [parse_location(folder) for folder in self.files_of(pointer).folders]
        if any(folder.real.contains(root.real) for root in roots(self._warehouses)):
            return False
        return any(own_folder.contains(folder) and own_folder.real.contains(folder.real) for own_folder in own)

    # --- what is a table's own ---------------------------------------------------------------------------------------

    def own_folders(self, warehouse: Warehouse, metadata: Json, others: Sequence[Pointer]) -> OwnFolders:
        """The table's folders, without those that another table or view shares, lives in or lives around."""
        taken = [(pointer.label, place) for pointer in others for place in self._places_of(pointer)]
        return OwnFolders(
            tuple(self._trusted(warehouse, folders_of(metadata["location"], metadata["properties"]), taken))
        )

    def _places_of(self, pointer: Pointer) -> Iterator[Place]:
        for folder in dict.fromkeys((pointer.location, *self.files_of(pointer).folders)):
            try:
                yield parse_location(folder)
            except MalformedLocation as exc:
                raise ReferencesUnknown(pointer.label, folder, exc.message) from exc

    def _trusted(
        self, warehouse: Warehouse, folders: Iterable[str], taken: Sequence[tuple[str, Place]]
    ) -> Iterator[Place]:
        for folder in folders:
            try:
                place = self._warehouses.check(warehouse, folder)
            except CatalogError as exc:
                log.warning("files below %s are not deleted: %s", folder, exc.message)
                continue
            if any(place.real.contains(root.real) for root in roots(self._warehouses)):
                log.warning("files below %s are not deleted: a warehouse or an allowed prefix is there", folder)
            elif labels := sorted({label for label, other in taken if overlap(place, other)}):
                log.warning(
                    "files below %s are not deleted: %s has its files there, too", folder, ", ".join(labels[:3])
                )
            else:
                yield place

    # --- versions that fell out of a log -----------------------------------------------------------------------------

    def delete_versions(self, warehouse: Warehouse, current: Version, locations: Sequence[str]) -> None:
        """Deletes older metadata files of a table, those that are its own and that no other table needs.

        A registered table's log may name any file. So a file is deleted only if it lies where the table keeps its
        metadata and holds the same UUID; and if no other row with that UUID (a table that was registered twice) or with
        that pointer names it.
        """
        try:
            twins = relations.pointers_with(self._database.read(), current.metadata["table-uuid"], locations)
            candidates = Candidates(path for path in locations if self._is_own_version(warehouse, current, path))
            self.spare_named(candidates, twins)
            for path in candidates.left:
                self._files.delete(path)
            log.info(
                "deleted %d old metadata files of %s",
                len(candidates.left),
                current.metadata["location"],
                extra={"fields": {"files": candidates.left}},
            )
        except Exception as exc:  # the files stay, as orphans
            log.warning("old metadata files of %s were left: %s", current.metadata["location"], exc)

    def _is_own_version(self, warehouse: Warehouse, current: Version, path: str) -> bool:
        folders = folders_of(current.metadata["location"], current.metadata["properties"])
        own = OwnFolders(tuple(self._trusted(warehouse, folders, ())))
        if not own.contain(path) or not path.endswith(".metadata.json"):
            log.warning("%s was left: it is not in the folders of %s", path, current.metadata["location"])
            return False
        try:
            return bool(self._files.read(path)["table-uuid"] == current.metadata["table-uuid"])
        except (CatalogError, FileNotFoundError):
            return False


def roots(warehouses: Warehouses) -> list[Place]:
    """Where warehouses and allowed prefixes begin: no table owns these folders."""
    return [*(warehouse.place for warehouse in warehouses), *warehouses.allowed]


def overlap(first: Place, other: Place) -> bool:
    """Whether one place lies in the other, also when symbolic links are followed.

    >>> overlap(parse_location("s3://b/t/data"), parse_location("s3a://b/t")), overlap(parse_location("s3://b/t"), parse_location("s3://b/t2"))
    (True, False)
    """
    return any(a.contains(b) or b.contains(a) for a, b in ((first, other), (first.real, other.real)))


def read_or_missing(files: MetadataFiles, location: str) -> bytes:
    """A file's bytes; `FileNotFoundError` when there is none."""
    try:
        return files.read_bytes(location)
    except MetadataMissing as exc:
        raise FileNotFoundError(location) from exc
