"""Reads what a rebase needs, within limits: the manifest lists of head, parent and client, and the manifests that the
client adds.

Clients name these files, so each must lie in the table's own folders. What was read for a table is kept by its path:
the files never change. A file that cannot be read, for whatever reason, leaves the append the conflict that it is.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from frazil.catalog.appends.avro import AvroFile, open_avro
from frazil.catalog.appends.entries import AddedFiles, read_added, read_paths
from frazil.catalog.appends.lists import EMPTY, Listed, ManifestList, find_added, read_list
from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.rebase import AddedManifest, Base, Rebased, check_added, check_base, newer_manifests, rebase
from frazil.catalog.appends.request import Append, read_append
from frazil.catalog.commit import Change
from frazil.catalog.fields import Json
from frazil.catalog.guard import OwnFolders
from frazil.catalog.locations import parse_location
from frazil.catalog.places import metadata_folder
from frazil.errors import CatalogError
from frazil.scan.manifests import AvroError, folders_of

MIB = 1 << 20
LIST_BYTES, LIST_UNPACKED_BYTES = 2 * MIB, 8 * MIB  # some ten thousand manifests
MANIFEST_BYTES = MIB
MANIFESTS_UNPACKED_BYTES = 4 * MIB  # of all that one rebase reads: some thousand files, in less than a second
# What is read of the manifests of others to compare paths. A server that has just started, or has not made these
# commits, reads all that have come since the writer looked; those that make them keep the paths. The table's lock is
# held meanwhile, so the time is limited, too: what was read is kept, and the writer's next try goes on from there.
MOST_NEWER, NEWER_BYTES, NEWER_SECONDS = 1_000, 16 * MIB, 3.0
KEPT_BYTES = 32 * MIB
PATH_BYTES = 100  # that a path takes in memory besides its characters, about

Read = Callable[[str, int], bytes]  # a location, and how many bytes at most
V = TypeVar("V")


class Kept(Generic[V]):
    """The most recently used values by key, up to a number of bytes."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def find(self, keys: Iterable[Hashable]) -> list[V | None]:
        """The same for many, of which none counts as used."""
        with self._lock:
            return [self._values[key][0] if key in self._values else None for key in keys]

    def put(self, key: Hashable, value: V, size: int) -> None:
        with self._lock:
            self._bytes += size - self._values.pop(key, (None, 0))[1]
            self._values[key] = (value, size)
            while self._bytes > self._max_bytes and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]


class Known:
    """What was read of manifest lists and manifests. A key has the folders and the format version of the table besides
    the path: what one table may read, or reads in one way, another may not.
    """

    def __init__(self) -> None:
        self.lists: Kept[ManifestList] = Kept()
        self.paths: Kept[frozenset[str]] = Kept()  # of the files of a manifest


class Ids(Protocol):
    def __call__(self) -> str: ...


def rebase_change(read: Read, known: Known, metadata: Json, change: Change, *, new_uuid: Ids) -> Rebased:
    """The change after the head of now; NotRebased with the reason."""
    append = read_append(change)
    base = check_base(metadata, append)
    try:
        return _Files(read, known, metadata).rebase(append, base, new_uuid())
    except (AvroError, CatalogError, OSError) as exc:
        raise NotRebased(f"a file cannot be read: {exc}") from exc


class _Files:
    """The files of one table."""

    def __init__(self, read: Read, known: Known, metadata: Json) -> None:
        folders = folders_of(metadata["location"], metadata["properties"])
        self._own = OwnFolders(tuple(map(parse_location, folders)))
        self._read, self._known, self._metadata = read, known, metadata
        self._version: int = metadata["format-version"]
        self._scope = (self._version, *folders)
        self._room, self._newer_bytes, self._deadline = MANIFESTS_UNPACKED_BYTES, NEWER_BYTES, 0.0

    def rebase(self, append: Append, base: Base, uuid: str) -> Rebased:
        head = self._list(base.head["manifest-list"])
        parent = self._list(base.parent["manifest-list"]) if base.parent is not None else EMPTY
        own = self._open_list(append.manifest_list)
        listed = check_added(self._metadata, append, find_added(own, parent, self._version))
        added = [AddedManifest(manifest, self._added(manifest, append)) for manifest in listed]
        if any(manifest.path.encode() in head.raw for manifest in listed):
            raise NotRebased("the head has a manifest of this name")
        self._check_new([manifest.files for manifest in added], newer_manifests(head, parent, self._version))
        location = f"{metadata_folder(self._metadata)}/snap-{append.snapshot_id}-0-{uuid}.avro"
        rebased = rebase(self._metadata, append, added, base=base, manifests=head, location=location)
        self._known.lists.put((self._scope, location), rebased.manifests, rebased.manifests.nbytes)
        for manifest in added:
            self._keep_paths(manifest.listed.path, manifest.files.paths)
        return rebased

    def _content(self, location: str, most_bytes: int) -> bytes:
        if not self._own.contain(location):
            raise NotRebased(f"{location[:200]} is not in a folder of the table")
        return self._read(location, most_bytes)

    def _open_list(self, location: str) -> AvroFile:
        return open_avro(self._content(location, LIST_BYTES), most_bytes=LIST_UNPACKED_BYTES)

    def _open_manifest(self, content: bytes) -> AvroFile:
        """The manifest, if it fits in what may still be unpacked."""
        file = open_avro(content, most_bytes=self._room)
        self._room -= len(file.records)
        return file

    def _list(self, location: str) -> ManifestList:
        manifests = self._known.lists.get((self._scope, location))
        if manifests is None:
            manifests = read_list(self._open_list(location), self._version)
            self._known.lists.put((self._scope, location), manifests, manifests.nbytes)
        return manifests

    def _added(self, listed: Listed, append: Append) -> AddedFiles:
        content = self._content(listed.path, MANIFEST_BYTES)
        if len(content) != listed.length:
            raise NotRebased(f"a manifest has {len(content)} bytes, its list says {listed.length}")
        return read_added(self._open_manifest(content), listed, snapshot_id=append.snapshot_id, version=self._version)

    def _check_new(self, added: Sequence[AddedFiles], newer: Sequence[Listed]) -> None:
        """Passes when no file is added twice: by the append itself, or by those that came in between. Writers look for
        duplicates in the snapshot that they know.
        """
        paths = {path for files in added for path in files.paths}
        if len(paths) != sum(len(files.paths) for files in added):
            raise NotRebased("it adds a data file twice")
        known = self._known.paths.find([(self._scope, listed.path) for listed in newer])
        unread = [listed.path for listed, others in zip(newer, known, strict=True) if others is None]
        if len(unread) > MOST_NEWER:
            raise NotRebased(f"{len(newer)} manifests have come to the branch since it looked")
        self._deadline = time.monotonic() + NEWER_SECONDS
        read = (self._read_paths(path) for path in unread)
        if not all(paths.isdisjoint(others) for others in itertools.chain(filter(None, known), read)):
            raise NotRebased("a data file was added by another commit meanwhile")

    def _read_paths(self, manifest: str) -> frozenset[str]:
        if time.monotonic() > self._deadline:
            raise NotRebased("reading what has come to the branch since it looked takes too long")
        content = self._content(manifest, min(MANIFEST_BYTES, self._newer_bytes))
        self._newer_bytes -= len(content)
        paths = read_paths(self._open_manifest(content))
        self._keep_paths(manifest, paths)
        return paths

    def _keep_paths(self, manifest: str, paths: frozenset[str]) -> None:
        self._known.paths.put((self._scope, manifest), paths, (len(paths) + 1) * PATH_BYTES + sum(map(len, paths)))
