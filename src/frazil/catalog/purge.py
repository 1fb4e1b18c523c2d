"""Deleting the files of a table that was dropped with a purge.

A table's metadata is written by clients and may name any path. So only files in folders that are the table's own are
read or deleted (see guard.py), and none that another table or view of any warehouse leads to. Deepest first: data
files, then manifests, then the metadata files, so that a purge that is interrupted can still be understood.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.guard import OwnFolders, read_or_missing
from frazil.catalog.locations import parse_location
from frazil.catalog.store import indexes, relations
from frazil.catalog.warehouse import Warehouse
from frazil.errors import CatalogError, FrazilError, ReferencesUnknown
from frazil.protocol import INDEX_FOLDER, PROPERTY_GC_ENABLED
from frazil.scan.manifests import Candidates, in_portions

if TYPE_CHECKING:
    from frazil.scan.manifests import ManifestCache

log = logging.getLogger("frazil.catalog")
AT_ONCE = 1000  # files between two looks whether the table was registered again


def purge_table(ctx: Context, warehouse: Warehouse, location: str) -> None:
    """Deletes what the metadata file leads to, and it last. The pointer is gone already: a failure leaves orphans, no
    broken table.
    """
    outcome, count = "failed", 0
    try:
        outcome, count = _purge(ctx, warehouse, location)
    except ReferencesUnknown as exc:
        outcome = "left"
        log.warning("purge of %s: all files were left: %s", location, exc.message)
    except Exception:
        log.exception("purge of %s stopped; the files that are left are orphans", location)
    finally:
        ctx.telemetry.purges.ended(outcome, count)


def _purge(ctx: Context, warehouse: Warehouse, location: str) -> tuple[str, int]:
    """How it ended, and how many files were deleted."""
    if importlib.util.find_spec("pyarrow") is None:
        log.warning(
            "purge of %s: the files were left; deleting them needs pyarrow (pip install 'frazil[sinks]')", location
        )
        return "left", 0
    metadata = ctx.files.read(location)
    pointers = ctx.guard.pointers()
    own = ctx.guard.own_folders(warehouse, metadata, pointers)
    candidates = Candidates(Purge(ctx, metadata, location, own, ctx.clock()).files())
    ctx.guard.spare(candidates, pointers)
    for path, label in candidates.referenced.items():
        log.warning("purge of %s: %s was left: %s leads to it", metadata["location"], path, label)
    count = _delete(ctx, metadata, candidates.left)
    if not relations.uuid_is_used(ctx.database.read(), metadata["table-uuid"]):
        ctx.database.write(lambda sql: indexes.drop_all(sql, metadata["table-uuid"]))
    log.info(
        "purged table %s: %d files",
        metadata["location"],
        count,
        extra={"fields": {"table": metadata["location"], "deleted": count}},
    )
    return "done", count


def _delete(ctx: Context, metadata: Json, paths: list[str]) -> int:
    count = 0
    for some in in_portions(paths, AT_ONCE):
        if relations.uuid_is_used(ctx.database.read(), metadata["table-uuid"]):
            log.warning("purge of %s stopped: the table was registered again", metadata["location"])
            break
        for path in some:
            count += ctx.files.delete(path)
        log.info("purge of %s: deleted %d files", metadata["location"], len(some), extra={"fields": {"files": some}})
    return count


@dataclass(frozen=True)
class Purge:
    """The files that a dropped table's metadata leads to, as far as they lie in its own folders."""

    ctx: Context
    metadata: Json
    location: str
    own: OwnFolders
    begun_ms: int

    def files(self) -> Iterator[str]:
        """Every file once, the deepest first."""
        seen: set[str] = set()
        left = 0
        for path in self._named():
            if path in seen:
                continue
            seen.add(path)
            if self.own.contain(path):
                yield path
            else:
                left += 1
                log.debug(
                    "purge of %s: %s was left: it is not in the table's own folders", self.metadata["location"], path
                )
        if left:
            log.warning(
                "purge of %s: %d files were left: they are not in the table's own folders",
                self.metadata["location"],
                left,
            )

    def _named(self) -> Iterator[str]:
        lists = dict.fromkeys(
            snapshot["manifest-list"] for snapshot in self.metadata["snapshots"] if "manifest-list" in snapshot
        )
        if self.metadata["properties"].get(PROPERTY_GC_ENABLED, "true").lower() != "false":
            yield from self._data_files(lists)
        yield from lists
        for index in indexes.list_of(self.ctx.database.read(), self.metadata["table-uuid"]):
            record = orjson.loads(index.record)
            yield from (record["codebook"]["path"], *(segment["path"] for segment in record["segments"]))
        yield from self._older_index_files()
        for file in (*self.metadata["statistics"], *self.metadata["partition-statistics"]):
            yield file["statistics-path"]
        for entry in self.metadata["metadata-log"]:
            yield entry["metadata-file"]
        yield self.location

    def _older_index_files(self) -> Iterator[str]:
        """Files of indexes that no record names any more: segments that were merged, and those of dropped indexes. None
        that is newer than the purge: another table may be created at the same place meanwhile.
        """
        location = f"{self.metadata['location']}/{INDEX_FOLDER}"
        if not self.own.contain(location):
            return
        try:
            place = parse_location(location)
            entries = [entry for entry in self.ctx.files.store(place).list(place) if entry.modified_ms < self.begun_ms]
        except (FrazilError, OSError) as exc:
            log.warning("purge of %s: %s was not listed: %s", self.metadata["location"], location, exc)
            return
        yield from (entry.location for entry in entries if entry.location.endswith(".puffin"))

    def _data_files(self, lists: dict[str, None]) -> Iterator[str]:
        from frazil.scan.manifests import ManifestCache

        cache = ManifestCache(lambda path: read_or_missing(self.ctx.files, path), max_bytes=16 << 20)
        manifests = dict.fromkeys(manifest for path in lists for manifest in self._manifests(cache, path))
        for path in manifests:
            # An entry that says "deleted" names a file that an older manifest holds as well: it is deleted with that
            # one.
            yield from self._files(cache, path)
            yield path

    def _manifests(self, cache: ManifestCache, path: str) -> list[str]:
        if not self.own.contain(path):
            return []
        try:
            return list(cache.manifest_list(path).columns["path"])
        except (FrazilError, OSError, ValueError) as exc:
            self._unreadable(path, exc)
            return []

    def _files(self, cache: ManifestCache, path: str) -> list[str]:
        if not self.own.contain(path):
            return []
        try:
            paths: list[str] = cache.manifest(path).columns["path"].to_pylist()
        except (FrazilError, OSError, ValueError) as exc:
            self._unreadable(path, exc)
            return []
        return paths

    def _unreadable(self, path: str, exc: Exception) -> None:
        reason = exc.message if isinstance(exc, CatalogError) else str(exc)
        log.warning("purge of %s: what %s names was left: %s", self.metadata["location"], path, reason)
