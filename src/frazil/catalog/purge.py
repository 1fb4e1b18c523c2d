"""Deleting the files of a table that was dropped with a purge.

Only files that the table's own metadata leads to are deleted, and only those that lie where this warehouse may write. Deepest first:
data files, then manifests, then the metadata files, so that a purge that is interrupted can still be understood.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.store import relations
from frazil.catalog.warehouse import Warehouse
from frazil.errors import CatalogError

log = logging.getLogger("frazil.catalog")


def purge_table(ctx: Context, warehouse: Warehouse, location: str) -> None:
    """Deletes what the metadata file leads to, and it last. The pointer is gone already: a failure leaves orphans, no broken table."""
    try:
        metadata = ctx.files.read(location)
        if relations.location_is_used(ctx.database.read(), metadata["location"]):
            log.warning("purge: another table lives at %s; its files were left", metadata["location"])
            return
        count = 0
        for path in _reachable(ctx, metadata, location):
            count += _delete(ctx, warehouse, path)
        log.info("purged table %s: %d files", metadata["location"], count)
    except Exception:
        log.exception("purge of %s stopped; the files that are left are orphans", location)


def _delete(ctx: Context, warehouse: Warehouse, path: str) -> int:
    try:
        ctx.warehouses.check(warehouse, path)
    except CatalogError:
        log.warning("purge: %s lies outside the warehouse and was left", path)
        return 0
    ctx.files.delete(path)
    return 1


def _reachable(ctx: Context, metadata: Json, location: str) -> Iterator[str]:
    """Every file of the table once, the deepest first."""
    if metadata["properties"].get("gc.enabled", "true").lower() != "false":
        yield from _data_files(ctx, metadata)
    yield from dict.fromkeys(s["manifest-list"] for s in metadata["snapshots"] if "manifest-list" in s)
    for file in (*metadata["statistics"], *metadata["partition-statistics"]):
        yield file["statistics-path"]
    for entry in metadata["metadata-log"]:
        yield entry["metadata-file"]
    yield location


def _data_files(ctx: Context, metadata: Json) -> Iterator[str]:
    from frazil.catalog.manifests import ManifestFile, MemoryIO, read_manifest_list

    io, seen = MemoryIO(ctx.files.read_bytes), set[str]()
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata["snapshots"]:
        if "manifest-list" in snapshot:
            for manifest in read_manifest_list(io.new_input(snapshot["manifest-list"])):
                manifests.setdefault(manifest.manifest_path, manifest)
    for path, manifest in manifests.items():
        # An entry that says "deleted" names a file that an older manifest holds as well: it is deleted with that one.
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            if entry.data_file.file_path not in seen:
                seen.add(entry.data_file.file_path)
                yield entry.data_file.file_path
        yield path
